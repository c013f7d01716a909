"""The two ends of a call between sandboxes: the solution, and the checks that call it.

The checks know the answers, so they run in their own sandbox, where a solution's functions are stubs: arguments go out as
data to the solution's sandbox, and results come back as data. Standard library only.
"""

import ast
import builtins
import json
import queue
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, cast

from agentgym.rewards.programs import inside as code_inside
from agentgym.rewards.programs.values import Handle, NotData, pack, unpack

state: dict[str, Any] = {}
"""State that persists between the steps of a kernel."""

NOT_RAISED = (AssertionError, StopIteration, StopAsyncIteration)
"""Exceptions of a solution that reach the checks as RuntimeError; StopIteration, for example, would end `all(map(f, …))`."""

MOST_OBJECTS = 10_000
"""Maximum number of objects other than plain data that a solution may return to the checks."""

# In the solution's sandbox


def serve(request: str) -> None:
    """Run a solution's code, keep its definitions, and write the answer [None, error or None]."""
    message = json.loads(request)
    state.update(message, answers=code_inside.silence(), space=code_inside.module())
    signal.signal(signal.SIGALRM, code_inside.alarm)

    def work() -> None:
        exec(code_inside.compiled(message["code"]), state["space"])

    state.update(check=None, spent=0.0)
    code_inside.write(state["answers"], _timed(work))
    state["loading"] = state["spent"]


def _timed(work: Callable[[], object]) -> list[Any]:
    """Run `work` within the check's time that is left, and return `tried`'s answer."""
    started = time.monotonic()
    answer = code_inside.tried(work, state["seconds"], state["room"], state["spent"])
    state["spent"] += time.monotonic() - started
    return answer


def call(request: str) -> None:
    """Call a function of the solution, or get or set an attribute of an object that it returned earlier.

    `request` is JSON, [name, arguments, keyword arguments, number of the check]; the names "" and "=" stand for `getattr`
    and `setattr`. All calls of a check and the run of the code share a time limit. Writes the answer [value, error or
    None].
    """
    name, positional, named, check = json.loads(request)
    if check != state["check"]:
        state.update(check=check, spent=state["loading"])
    objects = state.setdefault("kept", [])

    def own(value: Any) -> Any:
        """Return a value with handles replaced by the solution's objects."""
        if type(value) is Handle:
            return objects[value.number]
        if type(value) in (list, tuple, set, frozenset):
            return type(value)(own(item) for item in value)
        return (
            {key: own(item) for key, item in cast("dict[object, object]", value).items()} if type(value) is dict else value
        )

    def work() -> Any:
        arguments = own(unpack(positional))
        operation = {"": getattr, "=": setattr}.get(name) or state["space"][name]
        value = operation(*arguments, **own(unpack(named)))
        try:
            pack(value)
        except NotData:
            if len(objects) >= MOST_OBJECTS:
                raise
            objects.append(value)
            return Handle(len(objects) - 1, bool(value))
        return value

    code_inside.write(state["answers"], _timed(work))


# In the checks' sandbox


def begin(request: str) -> None:
    """Start the checks; write their first call as `call` takes it, or all results."""
    message = json.loads(request)
    state.update(answers=code_inside.silence(), out=queue.SimpleQueue(), back=queue.SimpleQueue())
    threading.Thread(target=_check, args=(message,), daemon=True).start()
    code_inside.write(state["answers"], state["out"].get())


def go_on(answer: str) -> None:
    """Pass a call's result to the checks; write their next call, or all results."""
    state["back"].put(json.loads(answer))
    code_inside.write(state["answers"], state["out"].get())


def _check(message: dict[str, Any]) -> None:
    random.seed(message["seed"])
    space = code_inside.module()
    results: list[str | None] = []
    state["check"] = -1
    try:
        exec(message["before"], space)
        space.update({name: stand_in(name) for name in message["names"]})
        exec(message["setup"], space)
    except BaseException as error:
        results = [f"the checks cannot be prepared: {code_inside.message(error)}"] * len(message["checks"])
    for check in message["checks"][len(results) :]:
        state["check"] += 1
        try:
            if len(check) == 1:
                exec(check[0], space)
                results.append(None)
            else:
                results.append(_mismatch(eval(check[0], space), check[1]))
        except BaseException as error:
            results.append(code_inside.message(error))
    state["out"].put({"results": results})


def _mismatch(value: object, expected: str) -> str | None:
    """Return None if `repr(value)` is the expected text or the value equals the expected literal; else an error."""
    if repr(value) == expected or value == ast.literal_eval(expected):
        return None
    return f"gave {value!r}"[: code_inside.LONGEST_MESSAGE]


def stand_in(name: str) -> object:
    """Return a stub for the solution's function `name`, which runs in the other sandbox."""

    def function(*positional: object, **named: object) -> object:
        return _request(name, positional, named)

    function.__name__ = name
    return function


class ObjectProxy:
    """A proxy for an object of the solution, with the original's attributes and truth value.

    A proxy equals only itself, so that no check mistakes it for a value.
    """

    def __init__(self, handle: Handle) -> None:
        object.__setattr__(self, "_handle", handle)

    def __bool__(self) -> bool:
        return object.__getattribute__(self, "_handle").true

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _request("", (self, name), {})

    def __setattr__(self, name: str, value: object) -> None:
        _request("=", (self, name, value), {})


def _request(name: str, positional: tuple[object, ...], named: dict[str, object]) -> Any:
    """Call into the solution's sandbox and return the result. Built-in exceptions of the solution are raised as such.

    Raises:
        TypeError: an argument is not plain data.
        RuntimeError: the solution raised an exception that is not built in, or one of `NOT_RAISED`.
    """
    try:
        message = [name, pack(_sent(list(positional))), pack(_sent(named))]
    except NotData as error:
        raise TypeError(f"{name} can be given plain data only: {error}") from None
    state["out"].put({"call": [*message, state["check"]]})
    value, error = state["back"].get()
    if error is not None:
        kind = getattr(builtins, error.partition(":")[0], None)
        is_error = isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, NOT_RAISED)
        raise (kind if is_error else RuntimeError)(error)  # type: ignore[misc]
    return _received(unpack(value))


def _received(value: object) -> object:
    return ObjectProxy(value) if type(value) is Handle else value


def _sent(value: Any) -> object:
    """Return a value with proxies of the solution's objects replaced by handles."""
    if type(value) is ObjectProxy:
        return object.__getattribute__(value, "_handle")
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(_sent(item) for item in value)
    return {key: _sent(item) for key, item in cast("dict[object, object]", value).items()} if type(value) is dict else value


sys.setrecursionlimit(5000)  # checks compare deeply nested results
