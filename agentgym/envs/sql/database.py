"""A database on which a query of a stranger can only read; where nothing bounds a query, in a process that can be ended."""

import atexit
import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import IO, Any, cast

from agentgym.envs.sql import inside
from agentgym.envs.sql.inside import (
    FILE_SECONDS,
    FILE_STEPS,
    HALF,
    SECONDS,
    STEPS,
    Damaged,
    Guarded,
    Heavy,
    QueryError,
    Result,
    too_long,
)
from agentgym.errors import BadData, Fault, Reason

__all__ = ["Database", "QueryError", "Result"]

PATIENCE = 30.0
"""Seconds of wall clock beyond the CPU time of a query after which its process is taken to be broken."""
TRIES = 3
"""Times that queries are sent to a process that ends."""
PROCESSES = 8
"""Queries at a time: worker processes have many threads."""


class Database:
    """A database that is read: from the bytes of a database, or from a file; BadData where that is none.

    `run` raises QueryError for what the query's author can repair, which all limits are, and Fault for what he cannot: a
    damaged file, a process that ends without reason. Queries on files, and those with functions that nothing bounds, run in
    a process that can be ended; it costs an exchange over a pipe.
    """

    def __init__(self, content: bytes | Path, *, steps: int = 0, seconds: float = 0.0) -> None:
        file = isinstance(content, Path)
        self.name = str(content) if file else "the database"
        self._steps = steps or (FILE_STEPS if file else STEPS)
        self._seconds = seconds or (FILE_SECONDS if file else SECONDS)
        self._content: bytes | str = str(content) if isinstance(content, Path) else content
        self._here: Guarded | None = None
        if isinstance(content, bytes):
            self._key: tuple[object, ...] = (hash(content), len(content), self._steps, self._seconds)
            self._here = Guarded(content, steps=self._steps, seconds=self._seconds, light=True)
            return
        stamp = content.stat().st_mtime_ns if content.exists() else 0
        self._key = (self._content, stamp, self._steps, self._seconds)
        try:
            self.run("SELECT COUNT(*) FROM sqlite_master")
        except Fault as error:
            raise BadData(str(error)) from error

    def run(self, sql: str, *, first: int | None = None) -> Result:
        """Return the result of one SELECT (or WITH … SELECT, or VALUES), or its first rows."""
        if self._here is not None:
            try:
                return self._here.run(sql, first=first)
            except Heavy:
                pass
            except Damaged as error:
                raise Fault(str(error)) from error
        return self._run_there(sql, first)

    def _run_there(self, sql: str, first: int | None) -> Result:
        try:
            sql.encode()
        except UnicodeEncodeError:
            raise QueryError(HALF) from None
        with _lent() as process:
            request = (self._steps, self._seconds, sql, first)
            answer = process.ask((self._key, None, *request), self._seconds)
            if answer[0] == "unknown":
                answer = process.ask((self._key, self._content, *request), self._seconds)
        if answer[0] == "error":
            raise QueryError(answer[1])
        if answer[0] != "rows":
            raise Fault(answer[1])
        return Result(answer[1], answer[2], answer[3])

    def close(self) -> None:
        """Let go of the database; a process that has it open keeps it for the next who asks."""
        if self._here is not None:
            self._here.close()


class _Process:
    """A process that runs queries, started when it is first needed and again after its end."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._running: subprocess.Popen[bytes] | None = None

    def ask(self, request: tuple[object, ...], seconds: float) -> tuple[Any, ...]:
        """Return the answer to a request that may take so many seconds of CPU time."""
        for _ in range(TRIES):
            running = self._running or self._start()
            try:
                inside.send(cast("IO[bytes]", running.stdin).fileno(), request)
                answer = _heard(running, seconds + PATIENCE)
            except BrokenPipeError:  # it ended before it was asked
                answer = None
            except BaseException:  # interrupted: an answer that nobody waited for must not be taken for the next one's
                self.close()
                raise
            if answer is not None:
                return answer
            if self.close() == -signal.SIGPROF:
                return "error", too_long(seconds)
        return "damaged", f"the process that runs queries ended {TRIES} times in a row"

    def _start(self) -> "subprocess.Popen[bytes]":
        pipe = subprocess.PIPE
        self._running = subprocess.Popen(
            [sys.executable, "-I", "-S", inside.__file__],
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            env={"PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
        return self._running

    def close(self) -> int | None:
        """End it, and return how it ended where it had already."""
        running, self._running = self._running, None
        if running is None or self.owner != os.getpid():
            return None
        for end in (running.stdin, running.stdout):  # it ends when nobody asks
            with contextlib.suppress(OSError):
                cast("IO[bytes]", end).close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(0.2)
        running.kill()
        running.wait()
        return running.returncode


def _heard(running: "subprocess.Popen[bytes]", seconds: float) -> tuple[object, ...] | None:
    """Return the next answer; None where there will be none; a Fault where it takes too long."""
    pipe = cast("IO[bytes]", running.stdout).fileno()
    if not select.select([pipe], [], [], seconds)[0]:
        raise Fault(f"the process that runs queries did not answer within {seconds:g} s", reason=Reason.TIMEOUT)
    return inside.receive(pipe)


_idle: list[_Process] = []
_places = threading.BoundedSemaphore(PROCESSES)


@contextlib.contextmanager
def _lent() -> Generator[_Process]:
    """Give a process that nobody else asks meanwhile."""
    with _places:
        process = _idle.pop() if _idle else _Process()
        if process.owner != os.getpid():  # a forked process must not share its parent's pipes
            process = _Process()
        try:
            yield process
        finally:
            _idle.append(process)


@atexit.register
def _end() -> None:
    for process in _idle:
        process.close()
