"""Environments inside a worker: a thread each, which answers the requests of its environment one after another."""

import pickle
import queue
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from agentgym.core.env import TextEnv
from agentgym.core.seeding import generator
from agentgym.core.tasks import Task
from agentgym.core.wrapper import checked
from agentgym.errors import BadConfig, BadData, Fault, UnknownName
from agentgym.rollout.hosted import Status, status_of
from agentgym.rollout.limits import described

Key = tuple[int, int]
"""An environment of a worker: what makes it, by its place among what the worker was given, and a number of its own."""
Request = tuple[Any, ...]
"""What is asked of an environment, and its arguments: see `_Env.answer`; ("close",) ends it."""
Reply = Callable[[bool, Any], None]
"""Takes a request's answer; where it failed, False and a Fault, BadConfig or traceback."""


Packed = tuple[Key, bytes]
"""A request or a reply as it is sent: what cannot be read is the trouble of its own environment alone."""


def as_bytes(value: object, *, script: bool = False) -> bytes:
    """Return a value as bytes; what the running script or a notebook defines goes by value, unless it is imported there.

    `script`: whether the process that reads them imports the script.
    """
    try:
        content = pickle.dumps(value)
    except Exception:  # a function in a function, a lambda
        return _cloudpickled(value)
    return _cloudpickled(value) if not script and b"__main__" in content else content


def _cloudpickled(value: object) -> bytes:
    import cloudpickle  # pyright: ignore[reportMissingTypeStubs]  # late: few runs send what a script defines

    return cloudpickle.dumps(value)  # pyright: ignore[reportUnknownMemberType]


def sendable(what: str, value: object, dumps: Callable[[object], bytes]) -> bytes:
    """Return a value as it is sent to a worker; BadConfig where it cannot be, for no other episode would fare better."""
    try:
        return dumps(value)
    except Exception as error:  # of any kind: the value is the caller's
        raise BadConfig(
            f"{what} cannot be sent to a worker: {described(error)}. Define the environment, the policy and all that they "
            "use without open files, locks or connections, in the script or in a module"
        ) from error


def packed_reply(env: Key, ok: bool, value: object, dumps: Callable[[object], bytes] = as_bytes) -> Packed:
    """Return a reply as it is sent; what cannot be is a failure of the environment."""
    try:
        return env, dumps((ok, value))
    except BaseException as error:  # an environment's own objects raise what they like
        return env, pickle.dumps((False, f"the environment's answer cannot be sent: {described(error)}"))


class EnvThreads:
    """The environments of one worker, made when they are first asked something."""

    def __init__(self, makes: Sequence[Callable[[], TextEnv]]) -> None:
        self._makes = makes
        self._inboxes: dict[Key, queue.SimpleQueue[tuple[Request, Reply]]] = {}

    def ask(self, packed: Packed, reply: Reply) -> None:
        """Have a request answered in its environment's own thread, which is where `reply` is called."""
        env, content = packed
        try:
            request: Request = pickle.loads(content)
        except (ImportError, AttributeError) as error:  # no other episode would fare better
            why = f"a worker cannot import what it is sent: {error!s:.500}"
            reply(False, BadConfig(f"{why}; put its module into this folder, on PYTHONPATH, or install it there"))
            return
        except BaseException as error:  # objects of the user
            reply(False, f"the worker cannot read the request to the environment: {described(error)}")
            return
        if env not in self._inboxes:
            self._inboxes[env] = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(self._makes[env[0]], self._inboxes[env]), daemon=True).start()
        self._inboxes[env].put((request, reply))
        if request[0] == "close":
            del self._inboxes[env]

    @staticmethod
    def _serve(make: Callable[[], TextEnv], inbox: "queue.SimpleQueue[tuple[Request, Reply]]") -> None:
        env: _Env | None = None
        while True:
            request, reply = inbox.get()
            if request[0] == "close":
                if env:
                    env.env.close()
                return
            try:
                env = env or _Env(make())
                answer = True, env.answer(request)
            except (Fault, BadConfig) as error:  # a fault with its reason; BadConfig ends the rollout there as it does here
                answer = False, error
            except BaseException:  # the rollout boundary, seen from the other side; SystemExit would leave it unanswered
                answer = False, traceback.format_exc(limit=8)
            reply(*answer)


class _Env:
    """An environment and what its rollout was last told about it."""

    def __init__(self, env: TextEnv) -> None:
        self.env = env
        self._told: Status | None = None

    def answer(self, request: Request) -> Any:
        """Return the result of a request; of a reset, restore or step with the status, None where it is as it was."""
        env, (what, *arguments) = self.env, request
        if what == "consult":
            return arguments[0](env, *arguments[1])
        if what == "check":
            return env.health_check()
        if what == "made":
            return None
        if what == "task":
            return _task(env, *arguments)
        if what == "snapshot":
            return env.snapshot()
        if what == "reset":
            result: Any = env.reset(seed=arguments[0], options=arguments[1])
        elif what == "restore":
            env.restore(arguments[0], seed=arguments[1])
            result = env.observation, env.info()
        else:
            result = checked(env.step(arguments[0]), env)
        status = status_of(env)
        if status == self._told:
            return result, None
        self._told = status
        return result, status


def _task(env: TextEnv, named: object, seed: int) -> Task | str:
    """Return the task that a reset with this seed would play; a text that says why there is none of that name."""
    try:
        return env.named_task(named, generator("reset", seed))
    except (BadConfig, BadData, UnknownName, ValueError, OverflowError) as error:
        return str(error)
