"""Open requests of a rollout to a worker."""

import asyncio
import pickle
from abc import ABC, abstractmethod
from typing import Any

from agentgym.errors import BadConfig, Fault, Reason
from agentgym.rollout.env_threads import Key, Packed, Request
from agentgym.rollout.limits import described, is_ctrl_c


class Pending(ABC):
    """Base class of workers: sends requests and matches replies to them; an environment has at most one open request."""

    def __init__(self) -> None:
        self.hosted = self.last = 0
        self.condemned = False
        self._end_reason: str | Exception | None = None
        self._loop = asyncio.get_running_loop()
        self._pending: dict[Key, asyncio.Future[tuple[bool, Any]]] = {}

    async def ask(self, env: Key, request: Request, seconds: float) -> Any:
        """Send a request to an environment and return the answer. A time-out condemns the worker.

        Raises:
            Fault: the request takes longer than `seconds` or fails, or the worker ends.
            BadConfig: no episode could be played with this configuration.
        """
        future = self._pending[env] = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._late, future, f"{request[0]} took longer than {seconds:g} s")
        try:
            if self._end_reason is None:
                self._send(env, request)
            if self._end_reason is not None:
                self._answered(env, False, self._end_reason)
            ok, value = await future
        finally:
            timer.cancel()
            self._pending.pop(env, None)
        if not ok:
            raise value if isinstance(value, Fault | BadConfig) else Fault(value, reason=Reason.CRASH)
        return value

    def release(self, env: Key) -> None:
        """Close an environment; a condemned worker is instead killed when it has no environments left."""
        if not self.condemned:
            self._send(env, ("close",))
        elif self.hosted == 0:
            self.kill()

    @abstractmethod
    def _send(self, env: Key, request: Request) -> None: ...

    @abstractmethod
    def kill(self) -> None:
        """End the worker at once."""

    def _read_replies(self) -> None:  # noqa: B027  # overridden if replies can wait unread
        """Read replies that arrived while this process was busy, for example with an update; subclasses may override it."""

    def _late(self, future: "asyncio.Future[tuple[bool, Any]]", what: str) -> None:
        self._read_replies()
        if not future.done():
            self.condemned = True  # its thread cannot be stopped: the worker ends with its last episode
            future.set_result((False, Fault(f"the environment's {what}", reason=Reason.TIMEOUT)))

    def _heard(self, reply: Packed) -> None:
        env, content = reply
        try:
            ok, value = pickle.loads(content)
        except BaseException as error:  # an environment's own objects may raise anything
            if is_ctrl_c(error):
                raise
            ok, value = False, f"the environment's answer cannot be read here: {described(error)}"
        self._answered(env, ok, value)

    def _answered(self, env: Key, ok: bool, value: Any) -> None:
        future = self._pending.get(env)
        if future and not future.done():
            future.set_result((ok, value))

    def _ended(self, reason: str | Exception) -> None:
        """Fail all open and future requests, because the worker has ended."""
        self.condemned, self._end_reason = True, reason
        for future in self._pending.values():
            if not future.done():
                future.set_result((False, reason))
