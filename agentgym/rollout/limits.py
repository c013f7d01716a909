"""Time limits for environments in this process, by SIGALRM; one handler can serve many calls."""

import asyncio
import signal
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import cast

from agentgym.errors import Fault, Reason
from agentgym.rollout.interrupts import interrupted


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

    The handler does nothing between the blocks. Code inside that sets its own handler of SIGALRM has to restore this one;
    `renewed` sets it again.
    """
    global _shared
    if not _rings() or _shared is not None:
        yield
        return
    _shared = _Alarm()
    before = signal.signal(signal.SIGALRM, _shared.ring)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        _shared = None


def renewed() -> None:
    """Set the handler of `one_alarm` again, if an environment has replaced it."""
    if _shared is not None and threading.get_ident() == _shared.thread:
        signal.signal(signal.SIGALRM, _shared.ring)


class _Alarm:
    """Successive time limits that share a handler. The timer may ring between two of them, which has no effect."""

    __slots__ = ("running", "seconds", "thread", "what")

    def __init__(self) -> None:
        self.running, self.seconds, self.what = False, 0.0, ""
        self.thread = threading.get_ident()

    def begun(self, seconds: float, what: str) -> "_Alarm":
        self.seconds, self.what, self.running = seconds, what, True
        signal.setitimer(signal.ITIMER_REAL, seconds)
        return self

    def ring(self, *_: object) -> None:
        if self.running:
            self.running = False
            raise _late(self.what, self.seconds)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.running = False
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
