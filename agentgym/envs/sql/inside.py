"""SQLite connections on which untrusted queries can only read, within limits, and a server process for such queries.

Run as a program, this file serves requests from `agentgym.envs.sql.database`, so it imports only the standard library.
Limits are checked between instructions of SQLite's virtual machine. A single instruction of a formatting function may
take hours; on values of `CELL` bytes, no other function was found to take more than a millisecond.
"""

import marshal
import os
import re
import signal
import sqlite3
import struct
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

STEPS, FILE_STEPS = 1_000_000, 100_000_000
"""Instruction limits of SQLite's virtual machine per query, on a database in memory and on a file.

These limits usually apply first, and are the same on every machine. SQLite runs about forty million instructions a second.
"""
EVERY = 200
"""Number of instructions between two checks of the limits."""
SECONDS, FILE_SECONDS = 1.0, 10.0
"""Limits on a query's CPU time in its thread, in seconds; several times the time for `STEPS` or `FILE_STEPS`.

Only functions that repeatedly scan long values, and the compilation of huge queries on slow machines, reach them. A busy
machine has little effect, and exceeding a limit is an error of the query.
"""
MEMORY, FILE_MEMORY = 64 * 2**20, 256 * 2**20
"""Limits on SQLite's memory in this process over all connections, in bytes; for databases in memory and in files.

Compiled statements count. Before SQLite 3.41, nothing else bounds the time for compilation.
"""
SHARED_MEMORY = 256 * 2**20
"""Like `MEMORY`, but for a process that other environments share, since their databases count, too."""
ADDRESSES = 2**30
"""Maximum address space of the server process, in bytes."""
OPEN = 256
"""Maximum number of open connections in the server process."""
CELL, FILE_CELL = 2_000, 200_000
"""Maximum length of a value in bytes, in memory and in files; a single instruction may scan a value several times."""
SIZE, ROWS = 5_000_000, 20_000
"""Maximum number of bytes and of rows in a result."""
CLOCK = "2024-01-01 00:00:00"
"""Fixed value of `now`, since results must not depend on the day."""

HALF = "the query contains a lone surrogate, which is not valid text"

FUNCTIONS = frozenset((
    "abs", "avg", "ceil", "ceiling", "char", "coalesce", "count", "cume_dist", "current_date", "current_time",
    "current_timestamp", "date", "datetime", "dense_rank", "exp", "first_value", "floor", "format", "glob",
    "group_concat", "hex", "ifnull", "iif", "instr", "julianday", "lag", "last_value", "lead", "length", "like",
    "likelihood", "likely", "ln", "log", "log10", "log2", "lower", "ltrim", "max", "min", "mod", "nth_value", "ntile",
    "nullif", "percent_rank", "pi", "pow", "power", "printf", "quote", "rank", "replace", "round", "row_number",
    "rtrim", "sign", "sqrt", "strftime", "substr", "substring", "sum", "time", "total", "trim", "trunc", "typeof",
    "unicode", "unixepoch", "unlikely", "upper",
))  # fmt: skip
"""Allowed functions: their results depend only on their arguments, not on files, the clock or SQLite's build."""
HEAVY = frozenset(("printf", "format"))
"""Functions that may take unbounded time even for short arguments."""

_DATES = ("date", "time", "datetime", "julianday", "unixepoch", "strftime")
_LIMITS = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 10_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_READS = re.compile(r"(?:\s++|--[^\n]*+(?:\n|$)|/\*.*?\*/)*+(?:select|with|values)\b", re.IGNORECASE | re.DOTALL)
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR)


class QueryError(Exception):
    """A wrong or too expensive query; the message is for the query's author."""


def too_long(seconds: float) -> str:
    """Return the message for a query that ran out of time."""
    return f"the query was stopped after {seconds:g} s of CPU time; use functions on shorter values, or on fewer rows"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a query."""

    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]
    more: bool = False
    """True if further rows were not fetched."""


class HeavyQuery(Exception):
    """A query that must run in a process that can be killed: it has a function of `HEAVY`, or ran out of shared memory."""


class Damaged(Exception):
    """A file that is damaged or not a database, for which the query's author is not to blame."""


class GuardedDatabase:
    """A read-only database, from the bytes of a SQLite file or from its path.

    `run` raises QueryError for errors that the query's author can fix, and Damaged for other errors. With `light`, it
    raises HeavyQuery for a query that must run in another process. For `steps` and `seconds`, 0 means the default limit.
    """

    def __init__(self, content: bytes | Path, *, steps: int = 0, seconds: float = 0.0, light: bool = False) -> None:
        file = isinstance(content, Path)
        self.name = str(content) if file else "the database"
        self._most = steps or (FILE_STEPS if file else STEPS)
        self._seconds = seconds or (FILE_SECONDS if file else SECONDS)
        self._light, self._heavy = light, False
        self.ticks, self._deadline, self._over, self._denied = 0, 0.0, "", ""
        self._connection = _open(content)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, FILE_CELL if file else CELL)
        memory = SHARED_MEMORY if light else FILE_MEMORY if file else MEMORY
        _guard(self._connection, self._allow, self._tick, memory)

    def run(self, sql: str, *, first: int | None = None) -> Result:
        """Run one SELECT (or WITH … SELECT, or VALUES) and return its result, with at most `first` rows (None: all).

        Raises:
            QueryError: the statement is not read-only, fails, or exceeds a limit.
            HeavyQuery: the database is `light`, and the query has a function of `HEAVY` or ran out of memory.
            Damaged: the database is damaged.
        """
        if not _READS.match(sql):
            raise QueryError("expected a single read-only query: SELECT …, WITH … SELECT …, or VALUES …")
        self.ticks, self._over, self._denied, self._heavy = 0, "", "", False
        self._deadline = time.thread_time() + self._seconds
        cursor = self._connection.cursor()
        try:
            return self._fetch(cursor.execute(sql), first)
        except MemoryError:
            if self._light:  # others may have used it up: a process of its own decides
                raise HeavyQuery from None
            raise QueryError("the query exceeds its memory limit") from None
        except (sqlite3.Error, sqlite3.Warning, UnicodeEncodeError, ValueError, OverflowError) as error:
            raise self._explained(error) from None
        finally:
            cursor.close()

    def _fetch(self, cursor: sqlite3.Cursor, first: int | None) -> Result:
        columns = tuple(str(column[0]) for column in cursor.description or ())
        rows: list[tuple[object, ...]] = []
        size = 0
        for row in cursor:
            if len(rows) == first:
                return Result(columns, rows, more=True)
            if len(rows) == ROWS:
                raise QueryError(f"the result has more than {ROWS} rows; request fewer")
            size += 8 * len(row) + sum(len(value) for value in row if isinstance(value, str | bytes))
            if size > SIZE:
                raise QueryError(f"the result has more than {SIZE} bytes; request less")
            rows.append(row)
        return Result(columns, rows)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _explained(self, error: Exception) -> Exception:
        """Return the exception to raise for an exception of SQLite."""
        text = str(error)
        if self._heavy:
            return HeavyQuery()
        if self._over == "steps":
            return QueryError(
                f"the query was stopped after {self._most} steps of SQLite's virtual machine; join on keys, or request less"
            )
        if self._over == "time":
            return QueryError(too_long(self._seconds))
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE:  # by code, because the message may quote the query
            return Damaged(f"{self.name} is damaged: {text}")
        if self._denied:
            return QueryError(f"{text}: {self._denied}")
        if isinstance(error, UnicodeEncodeError):
            return QueryError(HALF)
        return QueryError(text)

    def _tick(self) -> int:
        self.ticks += 1
        if self.ticks * EVERY > self._most:
            self._over = "steps"
        elif time.thread_time() > self._deadline:
            self._over = "time"
        return bool(self._over)

    def _allow(self, action: int, first: str | None, second: str | None, _database: str | None, _inner: str | None) -> int:
        """SQLite's authorizer callback: return SQLITE_OK for reading tables and for allowed functions, else SQLITE_DENY."""
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and not _machinery(first or ""):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and self._light and (second or "").lower() in HEAVY:
            self._heavy = True
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in FUNCTIONS:
            return sqlite3.SQLITE_OK
        named = (
            second
            if action == sqlite3.SQLITE_FUNCTION
            else first
            if action == sqlite3.SQLITE_READ
            else "all but reading tables"
        )
        self._denied = f"{named} is not allowed here"
        return sqlite3.SQLITE_DENY


_FRESH: dict[str, Any] = {"check_same_thread": False, "isolation_level": None, "cached_statements": 0}
"""Arguments of `sqlite3.connect`; statements are not cached, since a cached one would continue to count its steps."""


def _open(content: bytes | Path) -> sqlite3.Connection:
    if isinstance(content, bytes):
        connection = sqlite3.connect(":memory:", **_FRESH)
        connection.deserialize(content)
        return connection
    try:
        connection = sqlite3.connect(f"{content.resolve().as_uri()}?mode=ro&immutable=1", uri=True, **_FRESH)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except sqlite3.Error as error:
        raise Damaged(f"{content}: {error}; expected a SQLite database") from error
    return connection


def _guard(connection: sqlite3.Connection, allow: Callable[..., int], tick: Callable[[], int], memory: int) -> None:
    """Set limits and callbacks on a connection, and disable every feature that reading does not need."""
    connection.execute(f"PRAGMA hard_heap_limit = {memory}").fetchall()  # process-wide, and can only be lowered
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA temp_store = MEMORY")  # never write to disk
    connection.execute("PRAGMA cell_size_check = ON")
    for limit, most in _LIMITS.items():
        connection.setlimit(limit, most)
    connection.text_factory = _text
    for name in _DATES:
        connection.create_function(name, -1, _dated(name), deterministic=True)
    for name, value in (*zip(("current_date", "current_time"), CLOCK.split(), strict=True), ("current_timestamp", CLOCK)):
        connection.create_function(name, 0, partial(str, value), deterministic=True)
    connection.set_authorizer(allow)
    connection.set_progress_handler(tick, EVERY)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _dated(name: str) -> Callable[..., str | bytes | int | float | None]:
    """Return SQLite's date function `name` with a fixed clock and without the machine's time zone."""
    at = 1 if name == "strftime" else 0

    def call(*arguments: object) -> Any:
        converted = [_read(argument) for argument in arguments]
        if len(converted) <= at:
            converted.append("now")
        moment = converted[at]
        if isinstance(moment, str) and moment.strip().lower() == "now":
            converted[at] = CLOCK
        if any(
            isinstance(argument, str) and argument.strip().lower() in ("localtime", "utc", "now")
            for argument in converted[at + 1 :]
        ):
            return None  # time zone modifiers depend on the machine
        short = sum(len(argument) for argument in converted if isinstance(argument, str)) <= LONGEST_CACHED
        return _calendar(name, tuple(converted)) if short else _calendar.__wrapped__(name, tuple(converted))

    return call


def _read(value: object) -> object:
    """Return an argument as SQLite's date functions see it: a blob is text, and text ends at its first NUL."""
    if isinstance(value, bytes):
        value = _text(value)
    return value.partition("\0")[0] if isinstance(value, str) else value


LONGEST_CACHED = 100
"""Maximum total characters of arguments for which the result is cached; longer ones would fill the process's memory."""


@lru_cache(maxsize=4096, typed=True)
def _calendar(name: str, arguments: tuple[object, ...]) -> object:
    places = ", ".join("?" * len(arguments))
    return _plain().execute(f"SELECT {name}({places})", arguments).fetchone()[0]


@lru_cache(maxsize=1)
def _plain() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", check_same_thread=False)


@lru_cache(maxsize=1)
def _modules() -> frozenset[str]:
    return frozenset(str(row[0]).lower() for row in _plain().execute("PRAGMA module_list"))


def _machinery(table: str) -> bool:
    """Return True if a virtual table is built into SQLite; it may reveal the file, the build or other statements."""
    name = table.lower()
    return name in _modules() or name.startswith("pragma_")


# The server process


def serve() -> None:
    """Answer requests on standard input until it ends; requests and answers are tuples (see `send`).

    A request is (key, content, steps, seconds, sql, first), where content is bytes, a path, or None if the key is open. An
    answer is ("rows", columns, rows, more), ("error", message), ("damaged", message), or ("unknown",) if the key is not
    open.
    """
    _limit_process()
    connections: OrderedDict[object, GuardedDatabase] = OrderedDict()
    while request := receive(0):
        send(1, _answer(connections, *request))


def _answer(
    connections: "OrderedDict[object, GuardedDatabase]",
    key: object,
    content: Any,
    steps: int,
    seconds: float,
    sql: str,
    first: int | None,
) -> tuple[object, ...]:
    """Run a request's query and return the answer; SIGPROF kills the process if the query ignores the time limit."""
    if key not in connections and content is None:
        return ("unknown",)
    signal.setitimer(signal.ITIMER_PROF, seconds * 1.1)
    try:
        if key not in connections:
            connections[key] = GuardedDatabase(
                Path(content) if isinstance(content, str) else content, steps=steps, seconds=seconds
            )
        connections.move_to_end(key)
        answer = connections[key].run(sql, first=first)
        return "rows", answer.columns, answer.rows, answer.more
    except QueryError as error:
        return "error", str(error).encode("utf-8", "replace").decode()
    except Damaged as error:
        return "damaged", str(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        while len(connections) > OPEN:
            connections.popitem(last=False)[1].close()


def _limit_process() -> None:
    import resource

    for kind, most in ((resource.RLIMIT_AS, ADDRESSES), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def send(pipe: int, message: tuple[Any, ...]) -> None:
    """Write a message to a pipe: its length in 4 bytes (big-endian), then the marshalled tuple."""
    body = marshal.dumps(message)
    left = memoryview(struct.pack("!I", len(body)) + body)
    while left:
        left = left[os.write(pipe, left) :]


def receive(pipe: int) -> tuple[Any, ...] | None:
    """Read a message from a pipe; None if the other side has closed it."""
    head = os.read(pipe, 1 << 16)
    while head and len(head) < 4 + int.from_bytes(head[:4], "big"):
        piece = os.read(pipe, 1 << 20)
        if not piece:
            return None
        head += piece
    return marshal.loads(memoryview(head)[4:]) if head else None


if __name__ == "__main__":
    serve()
