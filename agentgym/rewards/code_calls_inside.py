"""Two ends of a call from one jail to another: the solution that is called, and the checks that call it.

The checks know the answers, so they run in a jail of their own, where a solution's functions are stand-ins: what these
are given goes out as data, to the jail of the solution, and what comes back is data. Standard library only.
"""

import ast
import builtins
import json
import queue
import random
import signal
import sys
import threading
from typing import Any

from agentgym.rewards import code_inside
from agentgym.tasks.code.values import NotData, pack, unpack

state: dict[str, Any] = {}
"""What stays from step to step of a kernel."""

NOT_RAISED = (AssertionError, StopIteration, StopAsyncIteration)
"""What a solution raises and the checks hear of as another error: `all(map(f, …))` takes the second for the end."""

# Where the solution lives


def serve(request: str) -> None:
    """Run the code of a solution and keep what it defines; answers [None, error or None]."""
    asked = json.loads(request)
    state.update(asked, answers=code_inside.silence(), space=code_inside.module())
    signal.signal(signal.SIGALRM, code_inside.alarm)

    def work() -> None:
        exec(code_inside.compiled(asked["code"]), state["space"])

    code_inside.write(state["answers"], code_inside.tried(work, asked["seconds"], asked["room"]))


def call(request: str) -> None:
    """Call a function of the solution; answers [packed value, error or None]."""
    name, given, named = json.loads(request)

    def work() -> Any:
        return state["space"][name](*unpack(given), **unpack(named))

    code_inside.write(state["answers"], code_inside.tried(work, state["seconds"], state["room"]))


# Where the checks live


def begin(request: str) -> None:
    """Start the checks and answer their first call, as [name, arguments, named arguments], or all results."""
    asked = json.loads(request)
    state.update(answers=code_inside.silence(), out=queue.SimpleQueue(), back=queue.SimpleQueue())
    threading.Thread(target=_check, args=(asked,), daemon=True).start()
    code_inside.write(state["answers"], state["out"].get())


def go_on(answer: str) -> None:
    """Give the checks what their call brought, and answer their next one."""
    state["back"].put(json.loads(answer))
    code_inside.write(state["answers"], state["out"].get())


def _check(asked: dict[str, Any]) -> None:
    random.seed(asked["seed"])
    space = code_inside.module()
    results: list[str | None] = []
    try:
        exec(asked["before"], space)
        space.update({name: stand_in(name) for name in asked["names"]})
        exec(asked["setup"], space)
    except BaseException as error:
        results = [f"the checks cannot be prepared: {code_inside.message(error)}"] * len(asked["checks"])
    for check in asked["checks"][len(results) :]:
        try:
            if len(check) == 1:
                exec(check[0], space)
                results.append(None)
            else:
                results.append(_shown(eval(check[0], space), check[1]))
        except BaseException as error:
            results.append(code_inside.message(error))
    state["out"].put({"results": results})


def _shown(value: Any, wanted: str) -> str | None:
    """Return None where a value is shown as wanted, or is what the wanted text means."""
    if repr(value) == wanted or value == ast.literal_eval(wanted):
        return None
    return f"gave {value!r}"[: code_inside.LONGEST_MESSAGE]


def stand_in(name: str) -> Any:
    """Return a function that has another jail do the work."""

    def function(*given: Any, **named: Any) -> Any:
        try:
            asked = [name, pack(list(given)), pack(named)]
        except NotData as error:
            raise TypeError(f"{name} can be given plain data only: {error}") from None
        state["out"].put({"call": asked})
        value, error = state["back"].get()
        if error is not None:
            kind = getattr(builtins, error.partition(":")[0], None)
            is_error = isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, NOT_RAISED)
            raise (kind if is_error else RuntimeError)(error)  # type: ignore[misc]
        return unpack(value)

    function.__name__ = name
    return function


sys.setrecursionlimit(5000)  # checks compare what solutions give, as deep as it may be
