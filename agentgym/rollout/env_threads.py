"""Environments inside a worker. Each environment has its own thread, which answers its requests one by one."""

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
"""Identifies an environment of a worker: (index of its factory, number of the environment)."""
Request = tuple[Any, ...]
"""A request to an environment, with its arguments: see `_Env.answer`. ("close",) closes the environment."""
Reply = Callable[[bool, Any], None]
"""Receives the answer to a request: (True, result) or (False, error), with a Fault, a BadConfig or a traceback as text."""


Packed = tuple[Key, bytes]
"""A pickled request or reply. It is unpickled separately, so broken content affects only its own environment."""


def as_bytes(value: object, *, script: bool = False) -> bytes:
    """Pickle a value, including the definitions that it uses from the running script or a notebook.

    If `script` is True, these definitions are left out, because the receiving process imports the script.
    """
    try:
        content = pickle.dumps(value)
    except Exception:  # a function in a function, a lambda
        return _cloudpickled(value)
    return _cloudpickled(value) if not script and b"__main__" in content else content


def _cloudpickled(value: object) -> bytes:
    import cloudpickle  # pyright: ignore[reportMissingTypeStubs]  # imported late: few runs send definitions of a script

    return cloudpickle.dumps(value)  # pyright: ignore[reportUnknownMemberType]


def sendable(what: str, value: object, dumps: Callable[[object], bytes]) -> bytes:
    """Pickle a value for a worker by `dumps`; `what` describes the value in the error message.

    Raises:
        BadConfig: the value cannot be pickled, which would fail in every episode.
    """
    try:
        return dumps(value)
    except Exception as error:  # any type: the value is the caller's
        raise BadConfig(
            f"{what} cannot be sent to a worker: {described(error)}. Define the environment, the policy and all that they "
            "use without open files, locks or connections, in the script or in a module"
        ) from error


def packed_reply(env: Key, ok: bool, value: object, dumps: Callable[[object], bytes] = as_bytes) -> Packed:
    """Pickle a reply for the rollout; if that fails, return a failure of the environment instead."""
    try:
        return env, dumps((ok, value))
    except BaseException as error:  # an environment's own objects may raise anything
        return env, pickle.dumps((False, f"the environment's answer cannot be sent: {described(error)}"))


class EnvThreads:
    """The environments of one worker; each is made at its first request."""

    def __init__(self, makes: Sequence[Callable[[], TextEnv]]) -> None:
        self._makes = makes
        self._inboxes: dict[Key, queue.SimpleQueue[tuple[Request, Reply]]] = {}

    def ask(self, packed: Packed, reply: Reply) -> None:
        """Pass a request to its environment's thread, which calls `reply` with the answer.

        If the request cannot be unpickled, call `reply` with the failure at once.
        """
        env, content = packed
        try:
            request: Request = pickle.loads(content)
        except (ImportError, AttributeError) as error:  # every other episode would fail too
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
            except (Fault, BadConfig) as error:  # a fault with its reason; BadConfig ends the rollout, as without workers
                answer = False, error
            except BaseException:  # the rollout boundary in the worker; SystemExit would leave the request unanswered
                answer = False, traceback.format_exc(limit=8)
            reply(*answer)


class _Env:
    """An environment and the last status that was sent to the rollout."""

    def __init__(self, env: TextEnv) -> None:
        self.env = env
        self._sent_status: Status | None = None

    def answer(self, request: Request) -> Any:
        """Return the result of a request. A reset, restore or step also returns the status, or None if it is unchanged."""
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
        if status == self._sent_status:
            return result, None
        self._sent_status = status
        return result, status


def _task(env: TextEnv, named: object, seed: int) -> Task | str:
    """Return the task with this id or number (None: drawn by the seed), or the reason why there is none."""
    try:
        return env.named_task(named, generator("reset", seed))
    except (BadConfig, BadData, UnknownName, ValueError, OverflowError) as error:
        return str(error)
