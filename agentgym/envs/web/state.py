"""State of an episode's sites: one database per site, generated from a seed, and the shared people and clock."""

import hashlib
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from agentgym.core.seeding import generator
from agentgym.envs.web import words
from agentgym.envs.web.sites import data_of

FIRST_DAY = datetime(2025, 1, 6, 9, 0)  # a Monday
DAYS = 700
"""Number of possible dates of an episode; the clock always shows nine o'clock."""
PEOPLE = 24
_Item = TypeVar("_Item")

_SESSION = "CREATE TABLE session (username TEXT NOT NULL)"


@dataclass(frozen=True)
class Person:
    """A person with an account on every site."""

    name: str
    username: str
    email: str
    password: str


@dataclass(frozen=True)
class Setting:
    """Shared state of an episode's sites: `people[0]` is the user whose browser the agent drives."""

    people: tuple[Person, ...]
    now: datetime
    seed: int

    @property
    def me(self) -> Person:
        """The user whose browser the agent drives."""
        return self.people[0]

    @property
    def others(self) -> tuple[Person, ...]:
        """All people except the user."""
        return self.people[1:]


@lru_cache(maxsize=64)
def setting(seed: int) -> Setting:
    """Return the people and the clock generated from a seed."""
    rng = generator("web setting", seed)
    firsts = [words.FIRST_NAMES[int(i)] for i in rng.permutation(len(words.FIRST_NAMES))[:PEOPLE]]
    lasts = [words.LAST_NAMES[int(i)] for i in rng.permutation(len(words.LAST_NAMES))[:PEOPLE]]
    people = tuple(
        Person(
            name=f"{first} {last}",
            username=f"{first}.{last}".lower(),
            email=f"{first}.{last}@mail.test".lower(),
            password=f"{words.pick(rng, words.COLOURS)}-{words.pick(rng, words.ANIMALS)}-{int(rng.integers(10, 100))}",
        )
        for first, last in zip(firsts, lasts, strict=True)
    )
    return Setting(people, FIRST_DAY + timedelta(days=int(rng.integers(DAYS))), seed)


@lru_cache(maxsize=128)
def _filled(site: str, seed: int, size: int) -> bytes:
    """Return a site's initial database for a seed and a size, as bytes in SQLite's own format."""
    data = data_of(site)
    shared = setting(seed)
    with sqlite3.connect(":memory:") as db:
        db.row_factory = sqlite3.Row
        db.executescript(f"{_SESSION};{data.SCHEMA}")
        db.execute("INSERT INTO session VALUES (?)", (shared.me.username,))
        data.fill(db, generator("web site", site, seed), size, shared)
        db.commit()
        content = db.serialize()
    db.close()
    return content


class EpisodeState:
    """Databases of an episode's sites, each filled on first use with content that depends only on `seed` and `size`.

    `size`, from 0, sets the amount of content. The server's threads and the environment share the object; `lock` guards
    it.
    """

    def __init__(self, seed: int, size: int = 0) -> None:
        self.seed, self.size = seed, size
        self.lock = threading.RLock()
        self._open: dict[str, sqlite3.Connection] = {}
        self._digests: dict[tuple[str, bool], tuple[int, str]] = {}

    @property
    def setting(self) -> Setting:
        """People and clock of the episode."""
        return setting(self.seed)

    @property
    def now(self) -> datetime:
        """The episode's clock, which never advances."""
        return self.setting.now

    @property
    def me(self) -> Person:
        """The user whose browser the agent drives."""
        return self.setting.me

    def db(self, site: str) -> sqlite3.Connection:
        """Return a site's database; rows are `sqlite3.Row`."""
        with self.lock:
            if site not in self._open:
                db = sqlite3.connect(":memory:", check_same_thread=False)
                db.deserialize(_filled(site, self.seed, self.size))
                db.row_factory = sqlite3.Row
                self._open[site] = db
            return self._open[site]

    def one(self, site: str, sql: str, *values: object) -> Any:
        """Return the first value of a query's first row; None if there is no row."""
        with self.lock:
            row = self.db(site).execute(sql, values).fetchone()
        return None if row is None else row[0]

    def rows(self, site: str, sql: str, *values: object) -> list[sqlite3.Row]:
        """Return a query's rows."""
        with self.lock:
            return self.db(site).execute(sql, values).fetchall()

    def change(self, site: str, sql: str, *values: object) -> None:
        """Execute one statement and commit the change."""
        with self.lock:
            db = self.db(site)
            db.execute(sql, values)
            db.commit()

    def restore(self) -> None:
        """Restore every site to its initial state."""
        with self.lock:
            for site, db in self._open.items():
                db.rollback()
                db.deserialize(_filled(site, self.seed, self.size))
            self._digests.clear()

    def fresh(self) -> "EpisodeState":
        """Return a new state equal to this one's initial state."""
        return EpisodeState(self.seed, self.size)

    def digest(self, *, traces: bool = True) -> str:
        """Return a hash of all sites' data; sites in their initial state do not contribute.

        Tables named `trace_…` record mere viewing, such as opened mail; `traces=False` ignores them.
        """
        with self.lock:
            changed = [(site, self._site_digest(site, traces)) for site in sorted(self._open)]
            parts = [(site, now) for site, now in changed if now != _digest_at_start(site, self.seed, self.size, traces)]
        return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()

    def _site_digest(self, site: str, traces: bool) -> str:
        db = self._open[site]
        at, known = self._digests.get((site, traces), (-1, ""))
        if at != db.total_changes:
            at, known = db.total_changes, _digest(db, traces)
            self._digests[site, traces] = at, known
        return known

    def close(self) -> None:
        """Close the databases and free their memory."""
        with self.lock:
            for db in self._open.values():
                db.close()
            self._open.clear()
            self._digests.clear()


@lru_cache(maxsize=256)
def _digest_at_start(site: str, seed: int, size: int, traces: bool) -> str:
    db = sqlite3.connect(":memory:")
    db.deserialize(_filled(site, seed, size))
    try:
        return _digest(db, traces)
    finally:
        db.close()


def _digest(db: sqlite3.Connection, traces: bool) -> str:
    """Return a hash of all rows of all tables, in any order; if not `traces`, without the tables named `trace_…`."""
    total = hashlib.blake2b(digest_size=8)
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall():
        if not traces and table.startswith("trace_"):
            continue
        total.update(f"{table}\n".encode())
        rows = sorted(repr(tuple(row)) for row in db.execute(f'SELECT * FROM "{table}"'))
        total.update("\n".join(rows).encode("utf-8", "surrogatepass"))
    return total.hexdigest()


def choose(rng: np.random.Generator, rows: Sequence[_Item], count: int) -> list[_Item]:
    """Return `count` distinct items in random order, or all if there are fewer."""
    return [rows[int(i)] for i in rng.permutation(len(rows))[:count]]
