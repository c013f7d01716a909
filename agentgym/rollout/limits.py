"""Time limits for environments in this process, by SIGALRM; one handler can serve many calls."""

import _signal  # pyright: ignore[reportMissingImports]
import asyncio
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import cast

from agentgym.errors import Fault, Reason
from agentgym.rollout.interrupts import interrupted

# signal.getsignal formats the handler, which takes longer than everything else in a block.
_handler_of = cast("Callable[[int], object]", _signal.getsignal)  # pyright: ignore[reportUnknownMemberType]


def time_limit(seconds: float, what: str) -> AbstractContextManager[None]:
    """Limit the duration of the block; `what` names the operation in the message of the Fault.

    Outside the main thread and on systems without SIGALRM there is no limit.

    Raises:
        Fault: the block ran too long (`reason="timeout"`).
        RuntimeError: the block raised an exception such as SystemExit, which would end more than an episode or be lost.
    """
    if _shared is not None and threading.get_ident() == _shared.thread:
        return _shared.begun(seconds, what)
    return _alone(seconds, what)


@contextmanager
def one_alarm() -> Generator[None]:
    """Set the signal handler once for all `time_limit` blocks inside, which makes each of them six times faster.

    The handler does nothing between the blocks. It is set again after a block that replaced it.
    """
    global _shared
    if not _rings() or _shared is not None:
        yield
        return
    _shared = _Alarm()
    before = signal.signal(signal.SIGALRM, _shared.handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        _shared = None


class _Alarm:
    """Successive time limits that share a handler. The timer may ring between two of them, which has no effect."""

    __slots__ = ("handler", "running", "seconds", "thread", "what")

    def __init__(self) -> None:
        self.running, self.seconds, self.what = False, 0.0, ""
        self.handler = self.ring  # one object, which `is` can find
        self.thread = threading.get_ident()

    def begun(self, seconds: float, what: str) -> "_Alarm":
        self._renew()
        signal.setitimer(signal.ITIMER_REAL, seconds)  # the last block's timer may ring until here
        self.seconds, self.what, self.running = seconds, what, True
        return self

    def _renew(self) -> None:
        """Set the handler again if an environment replaced it: the timer would ring for the other handler."""
        if _handler_of(signal.SIGALRM) is not self.handler:
            signal.signal(signal.SIGALRM, self.handler)

    def ring(self, *_: object) -> None:
        if self.running:
            self.running = False
            raise _late(self.what, self.seconds)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.running = False
        self._renew()
        if error is not None:
            _contain(error)


_shared: _Alarm | None = None


@contextmanager
def _alone(seconds: float, what: str) -> Generator[None]:
    def ring(*_: object) -> None:
        raise _late(what, seconds)

    before = signal.signal(signal.SIGALRM, ring) if (rings := _rings()) else None
    if rings:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except BaseException as error:
        _contain(error)
        raise
    finally:
        if rings:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _contain(error: BaseException) -> None:
    """Replace exceptions that would end a task or the program, such as SystemExit; Ctrl-C is not replaced.

    Raises:
        RuntimeError: replaces the exception.
    """
    if (isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration)) or is_ctrl_c(error):
        return
    raise RuntimeError(f"the environment raised {described(error)}") from error


def is_ctrl_c(error: BaseException) -> bool:
    """Return True if an error is the user's Ctrl-C, or an exception group that contains it."""
    if isinstance(error, BaseExceptionGroup):
        error = cast("BaseException", error.subgroup(KeyboardInterrupt) and KeyboardInterrupt())  # pyright: ignore[reportUnknownMemberType]
    return isinstance(error, KeyboardInterrupt) and interrupted()


def described(error: BaseException) -> str:
    """Return the repr of a foreign error, even if its `__repr__` raises."""
    try:
        return f"{error!r:.500}"
    except BaseException as failure:  # the environment's own class
        return f"{type(error).__name__}, whose repr raised {type(failure).__name__}"


def ends_more(error: BaseException) -> bool:
    """Return True if an error must end more than its episode: the user's Ctrl-C, or the cancellation of this task.

    An agent may itself raise CancelledError, GeneratorExit or KeyboardInterrupt, which must not end other episodes.
    """
    if is_ctrl_c(error):
        return True
    if not isinstance(error, asyncio.CancelledError | GeneratorExit):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs: the coroutine is being closed
        return True
    return task is None or (isinstance(error, asyncio.CancelledError) and task.cancelling() > 0)


def _rings() -> bool:
    return threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")


def _late(what: str, seconds: float) -> Fault:
    return Fault(f"the environment's {what} took longer than {seconds:g} s", reason=Reason.TIMEOUT)
