"""Queries of a stranger: each bounded, answered in words, and without a trace."""

import contextlib
import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from agentgym.envs.sql.contents import content
from agentgym.envs.sql.database import Database, QueryError, _idle
from agentgym.envs.sql.inside import FUNCTIONS, HEAVY, GuardedDatabase, _calendar
from agentgym.errors import BadData

ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t)"


@pytest.fixture(scope="module")
def database():
    made = Database(content("library", 1, 24, "plain"))
    yield made
    assert made.run("SELECT COUNT(*) FROM loans").rows[0][0] > 0  # it has survived all of them
    made.close()


@pytest.fixture(scope="module")
def patient():
    """A database whose time limit is out of reach, so that a slow machine meets the same limit as a fast one."""
    made = Database(content("library", 1, 24, "plain"), seconds=60.0)
    yield made
    made.close()


def bomb(depth, form):
    steps = ", ".join(f"a{i} AS ({form.replace('@', f'a{i - 1}')})" for i in range(1, depth))
    return f"WITH a0 AS (SELECT 1 AS x), {steps} SELECT COUNT(*) FROM a{depth - 1}"


REFUSED = {
    "attach": ("ATTACH '/etc/passwd' AS x", "a single read-only query"),
    "pragma": ("PRAGMA query_only = OFF", "a single read-only query"),
    "explain": ("EXPLAIN SELECT 1", "a single read-only query"),
    "nothing": ("-- SELECT 1", "a single read-only query"),
    "insert": ("INSERT INTO members VALUES (1, 'a', 'b', 'c')", "a single read-only query"),
    "insert after with": ("WITH a AS (SELECT 1) INSERT INTO members SELECT 1, 'a', 'b', 'c'", "not authorized"),
    "delete after with": ("WITH a AS (SELECT 1) DELETE FROM loans", "not authorized"),
    "update returning": ("WITH a AS (SELECT 1) UPDATE loans SET fine = 1 RETURNING *", "not authorized"),
    "two statements": ("SELECT 1; DROP TABLE loans", "one statement"),
    "pragma as a table": ("SELECT * FROM pragma_database_list", "not authorized"),
    "counting a pragma": ("SELECT COUNT(*) FROM pragma_compile_options", "not authorized"),
    "extension": ("SELECT load_extension('x')", "load_extension is not allowed"),
    "tokenizer": ("SELECT fts3_tokenizer('simple')", "fts3_tokenizer is not allowed"),
    "reading files": ("SELECT readfile('/etc/passwd')", "no such function"),
    "writing files": ("SELECT writefile('/tmp/x', 'y')", "no such function"),
    "random": ("SELECT random()", "random is not allowed"),
    "random bytes": ("SELECT randomblob(1000000000)", "randomblob is not allowed"),
    "version": ("SELECT sqlite_version()", "sqlite_version is not allowed"),
    "statements": ("SELECT COUNT(*) FROM sqlite_stmt", "not allowed"),
    "pages": ("SELECT * FROM dbstat", "not allowed"),
    "json": ("SELECT * FROM json_each('[1]')", "not allowed"),
    "null character": ("SELECT 1\x00", "null character"),
    "half a character": ("SELECT '\ud800'", "lone surrogate"),
    "parameters": ("SELECT ?", "bindings"),
    "columns": (f"SELECT {', '.join(['*'] * 200)} FROM loans", "too many columns"),
    "depth": ("SELECT " + "+".join("1" * 3000), "Expression tree is too large"),
    "brackets": ("SELECT " + "(" * 4000 + "1" + ")" * 4000, "stack overflow"),
    "unions": (" UNION ALL ".join(["SELECT 1"] * 60), "too many terms"),
    "long text": ("SELECT '" + "x" * 20_000 + "'", "too large"),
    "endless": (f"{ENDLESS} SELECT COUNT(*) FROM t", "steps of SQLite's virtual machine"),
    "cross join": ("SELECT COUNT(*) FROM loans, loans b, loans c, loans d, loans e, loans f", "steps of SQLite"),
    "rows": (f"{ENDLESS} SELECT x FROM t", "more than 20000 rows"),
    "bytes": (f"{ENDLESS} SELECT printf('%1900d', x) FROM t", "bytes; request less"),
    "doubling text": ("WITH RECURSIVE t(x) AS (SELECT 'a' UNION ALL SELECT x || x FROM t) SELECT MAX(x) FROM t", "big"),
    "concatenation": (f"{ENDLESS} SELECT LENGTH(group_concat(x)) FROM (SELECT x FROM t LIMIT 10000)", "too big"),
    "doubling queries": (bomb(60, "SELECT x FROM @ UNION SELECT x FROM @"), "memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_in_words(patient, name):
    sql, words = REFUSED[name]
    with pytest.raises(QueryError, match=words):
        patient.run(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM malformed",
        'SELECT "database disk image is malformed" FROM nowhere',
        "SELECT 1 AS x FROM [file is not a database]",
        "SELECT disk I/O error",
    ],
)
def test_no_query_can_pass_itself_off_as_a_fault(database, sql):
    with pytest.raises(QueryError):
        database.run(sql)


@pytest.mark.parametrize("start", [" " * 90_000, "--\n" * 30_000, "/**/" * 20_000, "/*" * 40_000, " -" * 40_000])
def test_long_beginnings_are_read_in_one_pass(database, start):
    with pytest.raises(QueryError):
        database.run(start + "x")


@pytest.mark.parametrize(
    "value",
    [
        "LENGTH(REPLACE(printf('%1900d', x), ' ', ''))",
        "INSTR(REPLACE(printf('%1900d', 0), ' ', 'a'), REPLACE(printf('%900d', 0), ' ', 'a') || x)",
        "REPLACE(printf('%1900d', 0), ' ', 'a') LIKE '%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%b' || x",
        "REPLACE(printf('%1900d', 0), ' ', 'a') GLOB '*a*a*a*a*a*a*a*a*a*a*a*a*a*b' || x",
    ],
)
def test_costly_functions_end_by_the_count_of_steps(value):
    small = Database(content("library", 1, 24, "plain"), steps=50_000, seconds=60.0)
    with pytest.raises(QueryError, match="after 50000 steps"):
        small.run(f"{ENDLESS} SELECT SUM({value}) FROM t")


def test_the_same_query_takes_the_same_steps(patient):
    sql = "SELECT COUNT(*) FROM loans a, loans b WHERE a.taken < b.taken"
    ticks = set()
    for _ in range(3):
        patient.run(sql)
        ticks.add(patient._here.ticks)
    assert len(ticks) == 1 and ticks.pop() > 0


def children_and_own():
    """Return the CPU time of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


LONG = "replace(substr(hex(replace(substr('" + "x" * 950 + "', 1, x % 2 + 949), 'x', 'a')), 1, 1890), '61', 'aa')"
"""A value of 1,890 bytes that differs from row to row, made with no function that is refused."""

TIMEWASTERS = {
    "width": "SELECT printf('%.*c', 2147483647, 'x')",
    "widths": "SELECT " + ", ".join(["printf('%.*c%.*c%.*c', 2147483647, 'x', 2147483647, 'x', 2147483647, 'x')"] * 90),
    "format": "SELECT format('%2147483647d', 1)",
    "glob": f"{ENDLESS} SELECT SUM({LONG} GLOB '*[" + "bcd" * 60 + "a]b') FROM t",
    "like": f"{ENDLESS} SELECT SUM({LONG} LIKE '%" + "a_" * 95 + "b') FROM t",
    "replace": f"{ENDLESS} SELECT SUM(LENGTH(REPLACE({LONG}, 'aaaaaaab', x))) FROM t",
    "instr": f"{ENDLESS} SELECT SUM(INSTR({LONG}, SUBSTR({LONG}, 1, 900) || 'b')) FROM t",
    "trim": f"{ENDLESS} SELECT SUM(LENGTH(TRIM({LONG}, SUBSTR({LONG}, 1, 900) || x))) FROM t",
    "sorting": f"{ENDLESS}, u AS (SELECT {LONG} || x AS y FROM t LIMIT 100000) SELECT MAX(n) FROM "
    "(SELECT ROW_NUMBER() OVER (ORDER BY y) AS n FROM u)",
    "distinct": f"{ENDLESS} SELECT COUNT(*) FROM (SELECT DISTINCT {LONG} || x FROM t LIMIT 100000)",
    "window": f"{ENDLESS}, u AS (SELECT {LONG} || x AS y, x FROM t LIMIT 5000) SELECT MAX(m) FROM "
    "(SELECT MIN(y) OVER (ORDER BY x ROWS 1000 PRECEDING) AS m FROM u)",
    "concatenation": f"{ENDLESS} SELECT SUM(LENGTH({LONG} || x)) FROM t",
    "group_concat": f"{ENDLESS}, u AS (SELECT x FROM t LIMIT 5000) SELECT MAX(LENGTH(g)) FROM "
    "(SELECT GROUP_CONCAT('a', '') OVER (ORDER BY x ROWS 1000 PRECEDING) AS g FROM u)",
    "dates": f"{ENDLESS} SELECT SUM(LENGTH(strftime('%Y-%m-%d', '2020-01-01', '+' || x || ' days'))) FROM t",
    "long dates": f"{ENDLESS} SELECT SUM(LENGTH(strftime('" + "%Y" * 400 + "', x))) FROM t",
    "casts": f"{ENDLESS} SELECT SUM(CAST(REPLACE({LONG}, 'a', '9') AS REAL)) FROM t",
    "blobs": "SELECT zeroblob(2147483647), hex(zeroblob(1000000000))",
    "random blobs": "SELECT hex(randomblob(2147483647))",
    "nested queries": bomb(60, "SELECT x FROM @ UNION SELECT x FROM @"),
    "nested joins": bomb(60, "SELECT a.x FROM @ a, @ b"),
    "nested IN": bomb(60, "SELECT x FROM @ WHERE x IN (SELECT x FROM @)"),
    "nested EXISTS": bomb(60, "SELECT x FROM @ WHERE EXISTS (SELECT x FROM @)"),
    "nested thrice": bomb(60, "SELECT x FROM @ UNION ALL SELECT x FROM @ UNION ALL SELECT x FROM @"),
    "joins": "SELECT COUNT(*) FROM " + ", ".join(f"loans l{i}" for i in range(64)),
    "json": "SELECT json_array_length('[" + "[" * 4000 + "]" * 4000 + "]')",
}  # fmt: skip


def close_idle() -> None:
    """End idle processes; their time is counted once they have ended."""
    for process in _idle:
        process.close()


@pytest.fixture(scope="module")
def hasty():
    """A database with a quarter of the time limit: what the limit ends takes a quarter of the time."""
    made = Database(content("library", 1, 24, "plain"), seconds=0.25)
    yield made
    made.close()


@pytest.mark.parametrize("name", TIMEWASTERS)
def test_no_query_takes_long_whatever_it_calls(hasty, name):
    close_idle()  # else what other tests' queries took would count
    before = children_and_own()
    with contextlib.suppress(QueryError):
        hasty.run(TIMEWASTERS[name])
    close_idle()
    assert children_and_own() - before < 2.0  # CPU time: nothing here hangs on the machine's load
    assert hasty.run("SELECT 1").rows == [(1,)]


def test_what_is_said_of_a_query_that_is_ended_is_the_same_in_both_ways_of_ending(database):
    words = []
    for sql in ("SELECT printf('%.*c', 2147483647, 'x')", TIMEWASTERS["glob"]):
        with pytest.raises(QueryError) as caught:
            database.run(sql)
        words.append(str(caught.value))
    assert words[0] == words[1] and "after 1 s of CPU time" in words[0]


def test_heavy_functions_give_what_sqlite_gives(database):
    assert HEAVY <= FUNCTIONS
    printed = "printf('%05d|%.2f|%s|%q', 42, 1.005, 'é', 'it''s')"
    expected = sqlite3.connect(":memory:").execute(f"SELECT {printed}").fetchone()[0]
    sql = f"SELECT {printed}, format('%x', 255), x'00ff', 1e999, NULL FROM books LIMIT 2"
    assert database.run(sql).rows == [(expected, "ff", b"\x00\xff", float("inf"), None)] * 2
    with pytest.raises(QueryError, match="no such column: nowhere"):
        database.run("SELECT printf('%d', nowhere) FROM books")
    many = database.run(f"{ENDLESS} SELECT printf('%d', x) FROM t LIMIT 900", first=3)
    assert many.rows == [("1",), ("2",), ("3",)] and many.more


def test_a_process_that_is_killed_between_queries_is_replaced(database):
    assert database.run("SELECT printf('%d', 1)").rows == [("1",)]
    os.kill(_idle[-1]._running.pid, signal.SIGKILL)
    _idle[-1]._running.wait()
    assert database.run("SELECT printf('%d', 2)").rows == [("2",)]


def test_a_query_on_a_file_is_ended_too(tmp_path):
    path = tmp_path / "long.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE long (a)")
        connection.execute("INSERT INTO long VALUES (?)", ("a" * 190_000,))
    connection.close()
    database = Database(path, seconds=0.2)
    with pytest.raises(QueryError, match=r"0\.2 s of CPU time"):
        database.run(f"{ENDLESS} SELECT SUM((SELECT a FROM long) GLOB '*[" + "bcd" * 60 + "a]b' || x) FROM t")
    with pytest.raises(QueryError, match=r"0\.2 s of CPU time"):
        database.run("SELECT printf('%.*c', 2147483647, 'x')")
    assert database.run("SELECT LENGTH(a) FROM long").rows == [(190_000,)]


def test_the_clock_stops_a_query_within_its_steps():
    slow = Database(content("library", 1, 24, "plain"), steps=10**12, seconds=0.05)
    with pytest.raises(QueryError, match=r"0\.05 s of CPU time"):
        slow.run(f"{ENDLESS} SELECT COUNT(*) FROM t")


def test_what_other_threads_of_the_process_compute_is_not_the_querys_time():
    """A model that generates in this process takes CPU time too; eight threads let the clock of the process run out."""
    database = Database(content("library", 1, 24, "plain"), seconds=0.2)
    computed, begun = threading.Event(), threading.Barrier(9)

    def compute():
        begun.wait()
        while not computed.is_set():
            hashlib.pbkdf2_hmac("sha256", b"x", b"y", 50_000)  # without the interpreter's lock

    threads = [threading.Thread(target=compute, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    begun.wait()
    value = "LENGTH(HEX(REPLACE(SUBSTR('" + "x" * 950 + "', 1, x % 2 + 949), 'x', 'a')))"
    bounded = ENDLESS.replace("FROM t)", "FROM t LIMIT 6000)")
    try:
        rows = [database.run(f"{bounded} SELECT SUM({value}) FROM t").rows for _ in range(2)]
    finally:
        computed.set()
        for thread in threads:
            thread.join()
    assert rows == [[(3000 * 1898 + 3000 * 1900,)]] * 2


def test_the_clock_stands_still(database):
    row = database.run(
        "SELECT date('now'), datetime(), CURRENT_TIMESTAMP, CURRENT_DATE, strftime('%Y'), date('no' || 'w')"
    ).rows
    assert row == [("2024-01-01", "2024-01-01 00:00:00", "2024-01-01 00:00:00", "2024-01-01", "2024", "2024-01-01")]
    assert database.run("SELECT date('2021-03-04', 'localtime'), time('12:00', 'utc')").rows == [(None, None)]
    genuine = sqlite3.connect(":memory:")
    for sql in (
        "SELECT date('2021-03-31', '+1 month', 'start of month'), julianday('2000-01-01 12:00')",
        "SELECT strftime('%Y-%m %j %w %s', '2021-02-28 23:59:59'), time(0.75), date(NULL), unixepoch('2001-01-01')",
    ):
        assert database.run(sql).rows == genuine.execute(sql).fetchall()


@pytest.mark.parametrize("now", ["x'6e6f77'", "x'4e4f57'", "'now' || char(0)", "'now' || char(0) || 'x'", "x'6e6f770061'"])
def test_the_clock_stands_still_however_now_is_written(database, now):
    row = database.run(f"SELECT date({now}), strftime('%Y', {now}), julianday({now})").rows[0]
    assert row == ("2024-01-01", "2024", 2460310.5)
    zone = now.replace("6e6f77", "6c6f63616c74696d65").replace("4e4f57", "757463").replace("now", "localtime")
    assert database.run(f"SELECT datetime('2020-07-01', {zone})").rows == [(None,)]


def test_dates_of_long_arguments_are_not_kept(database):
    _calendar.cache_clear()
    rows = f"{ENDLESS} SELECT strftime('%Y' || printf('%1500d', x), 'now') FROM t LIMIT 50"
    assert database.run(rows).rows[49][0].startswith("2024 ")
    assert _calendar.cache_info().currsize == 0
    assert (
        database.run("SELECT date('2020-02-28', '+2 days')").rows == [("2020-03-01",)]
        and _calendar.cache_info().currsize == 1
    )


def test_files_are_read_only_and_untouched(tmp_path):
    path = tmp_path / "my file #1?.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.execute("INSERT INTO t VALUES (CAST(x'ff41' AS TEXT))")
    connection.close()
    before, names = path.read_bytes(), sorted(tmp_path.iterdir())
    database = Database(path)
    assert database.run("SELECT a FROM t").rows == [("�A",)]
    for sql in ("WITH x AS (SELECT 1) DELETE FROM t", "WITH x AS (SELECT 1) INSERT INTO t SELECT 2"):
        with pytest.raises(QueryError):
            database.run(sql)
    guarded = GuardedDatabase(path)
    assert guarded._connection.execute("SELECT 1").fetchone() == (1,)
    guarded._connection.set_authorizer(None)  # what is open cannot be written to, whatever is asked
    guarded._connection.execute("PRAGMA query_only = OFF")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        guarded._connection.execute("INSERT INTO t VALUES (1)")
    guarded.close()
    database.close()
    assert path.read_bytes() == before and sorted(tmp_path.iterdir()) == names


def test_a_file_that_is_no_database_is_named(tmp_path):
    path = tmp_path / "bad.sqlite"
    path.write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(BadData, match=r"bad\.sqlite.*not a database"):
        Database(path)
    with pytest.raises(BadData, match=r"none\.sqlite"):
        Database(tmp_path / "none.sqlite")


SHARED = """
import sqlite3, sys
from agentgym.envs.sql.inside import GuardedDatabase, HeavyQuery
made = sqlite3.connect(":memory:")
made.execute("CREATE TABLE t (a)")
made.executemany("INSERT INTO t VALUES (?)", [("x" * 900,)] * 20_000)
light = GuardedDatabase(made.serialize(), light=True)
made.close()
other = sqlite3.connect(":memory:")
other.execute("CREATE TABLE big (a)")
other.executemany("INSERT INTO big VALUES (?)", [(b"x" * 1_000_000,)] * 100)
assert light.run("SELECT count(*) FROM t").rows == [(20_000,)]
other.execute("PRAGMA hard_heap_limit = 150000000")
try:
    light.run("SELECT a FROM t ORDER BY substr(a, 2) LIMIT 1 OFFSET 19999")
except HeavyQuery:
    print("heavy")
"""


def test_databases_of_other_environments_share_the_process():
    """100 MB of another environment fit; a query that finds no memory left is decided in a process of its own."""
    done = subprocess.run([sys.executable, "-c", SHARED], capture_output=True, text=True, timeout=300)
    assert done.stdout == "heavy\n", done.stderr
