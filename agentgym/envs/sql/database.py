"""Read-only databases for untrusted queries; a query that SQLite cannot interrupt runs in a process that can be killed."""

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
    GuardedDatabase,
    HeavyQuery,
    QueryError,
    Result,
    too_long,
)
from agentgym.errors import BadData, Fault, Reason

__all__ = ["Database", "QueryError", "Result"]

PATIENCE = 30.0
"""Seconds of wall-clock time, beyond a query's limit on CPU time, after which a query process counts as hung."""
TRIES = 3
"""Maximum number of times that a query is sent, since its process may die."""
PROCESSES = 8
"""Maximum number of query processes in use at once; further threads wait."""


class Database:
    """A read-only database, from the bytes of a SQLite file or from its path; BadData if a file is not a database.

    `run` raises QueryError for errors that the query's author can fix, including exceeded limits, and Fault for other
    errors: a damaged file, or a query process that hangs or keeps dying. Queries on files and heavy queries (`HeavyQuery`)
    run in a process that can be killed, at the cost of messages over a pipe. For `steps` and `seconds`, the limits of a
    query, 0 means the default.
    """

    def __init__(self, content: bytes | Path, *, steps: int = 0, seconds: float = 0.0) -> None:
        file = isinstance(content, Path)
        self.name = str(content) if file else "the database"
        self._steps = steps or (FILE_STEPS if file else STEPS)
        self._seconds = seconds or (FILE_SECONDS if file else SECONDS)
        self._content: bytes | str = str(content) if isinstance(content, Path) else content
        self._here: GuardedDatabase | None = None
        if isinstance(content, bytes):
            self._key: tuple[object, ...] = (hash(content), len(content), self._steps, self._seconds)
            self._here = GuardedDatabase(content, steps=self._steps, seconds=self._seconds, light=True)
            return
        stamp = content.stat().st_mtime_ns if content.exists() else 0
        self._key = (self._content, stamp, self._steps, self._seconds)
        try:
            self.run("SELECT COUNT(*) FROM sqlite_master")
        except Fault as error:
            raise BadData(str(error)) from error

    def run(self, sql: str, *, first: int | None = None) -> Result:
        """Run one SELECT (or WITH … SELECT, or VALUES) and return its result, with at most `first` rows (None: all).

        Raises:
            QueryError: the query is wrong or exceeds a limit.
            Fault: the database is damaged, or the query process hangs or keeps dying.
        """
        if self._here is not None:
            try:
                return self._here.run(sql, first=first)
            except HeavyQuery:
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
        """Close the database in this process; a query process may keep it open for later requests."""
        if self._here is not None:
            self._here.close()


class _Process:
    """A process that runs queries, started on demand and restarted after its death."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._running: subprocess.Popen[bytes] | None = None

    def ask(self, request: tuple[object, ...], seconds: float) -> tuple[Any, ...]:
        """Send a request, which may take `seconds` of CPU time, and return the answer (see `inside.serve`)."""
        for _ in range(TRIES):
            running = self._running or self._start()
            try:
                inside.send(cast("IO[bytes]", running.stdin).fileno(), request)
                answer = _heard(running, seconds + PATIENCE)
            except BrokenPipeError:  # it died before the request
                answer = None
            except BaseException:  # interrupted: the pending answer must not be mistaken for the next request's
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
        """Stop the process and return its exit status; None if it was not running, or was started before a fork."""
        running, self._running = self._running, None
        if running is None or self.owner != os.getpid():
            return None
        for end in (running.stdin, running.stdout):  # it exits at the end of its input
            with contextlib.suppress(OSError):
                cast("IO[bytes]", end).close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(0.2)
        running.kill()
        running.wait()
        return running.returncode


def _heard(running: "subprocess.Popen[bytes]", seconds: float) -> tuple[object, ...] | None:
    """Wait at most `seconds` for the next answer and return it; None if the process has ended.

    Raises:
        Fault: the answer takes too long.
    """
    pipe = cast("IO[bytes]", running.stdout).fileno()
    if not select.select([pipe], [], [], seconds)[0]:
        raise Fault(f"the process that runs queries did not answer within {seconds:g} s", reason=Reason.TIMEOUT)
    return inside.receive(pipe)


_idle: list[_Process] = []
_places = threading.BoundedSemaphore(PROCESSES)


@contextlib.contextmanager
def _lent() -> Generator[_Process]:
    """Yield a query process for exclusive use, and return it to the pool at the end of the `with` block."""
    with _places:
        process = _idle.pop() if _idle else _Process()
        if process.owner != os.getpid():  # a forked child must not share its parent's pipes
            process = _Process()
        try:
            yield process
        finally:
            _idle.append(process)


@atexit.register
def _end() -> None:
    for process in _idle:
        process.close()
