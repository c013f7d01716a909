"""Environments inside a worker: a thread each, which answers the requests of its environment one after another."""

import pickle
import queue
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.core.actions import Tool
from agentgym.core.env import TextEnv
from agentgym.core.wrapper import checked
from agentgym.errors import BadConfig, Fault

Key = tuple[int, int]
"""An environment of a worker: what makes it, by its place among what the worker was given, and a number of its own."""
Request = tuple[Any, ...]
"""What is asked of an environment, and its arguments: see `_Env.answer`; ("close",) ends it."""
Status = tuple[int, str, Mapping[str, float], Mapping[str, Tool]]
"""An environment's horizon, who acts next, rewards by role, and tools."""
Reply = Callable[[bool, Any], None]
"""Takes a request's answer; where it failed, False and a Fault, BadConfig or traceback."""


Packed = tuple[Key, bytes]
"""A request or a reply as it is sent: what cannot be read is the trouble of its own environment alone."""


def packed_reply(env: Key, ok: bool, value: object, dumps: Callable[[object], bytes] = pickle.dumps) -> Packed:
    """Return a reply as it is sent; what cannot be is a failure of the environment."""
    try:
        return env, dumps((ok, value))
    except Exception as error:  # an environment's own objects raise what they like
        return env, dumps((False, f"the environment's answer cannot be sent: {error!r:.500}"))


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
        except Exception as error:  # objects of the user, whose module may be another here
            reply(False, f"the worker cannot read the request to the environment: {error!r:.500}")
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
        if what == "snapshot":
            return env.snapshot()
        if what == "reset":
            result: Any = env.reset(seed=arguments[0], options=arguments[1])
        elif what == "restore":
            env.restore(arguments[0], seed=arguments[1])
            result = env.observation, env.info()
        else:
            result = checked(env.step(arguments[0]), env)
        status = env.limit, env.role, dict(env.totals), dict(env.tools)
        if status == self._told:
            return result, None
        self._told = status
        return result, status
