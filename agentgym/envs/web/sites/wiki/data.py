"""Initial content of the wiki."""

import re
import sqlite3
from datetime import timedelta

import numpy as np

from agentgym.envs.web import words
from agentgym.envs.web.state import Setting

SCHEMA = """
CREATE TABLE page (id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, category TEXT NOT NULL, facts TEXT NOT NULL,
    body TEXT NOT NULL);
CREATE TABLE version (id INTEGER PRIMARY KEY, page INTEGER NOT NULL REFERENCES page, username TEXT NOT NULL,
    at TEXT NOT NULL, summary TEXT NOT NULL, facts TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE watch (page INTEGER PRIMARY KEY REFERENCES page);
CREATE INDEX version_page ON version (page);
"""
CATEGORIES = ("Towns", "Regions", "Rivers", "Crafts")
PREFIXES = ("", "New", "Old", "Upper", "Lower", "Great", "Little", "North", "South", "East", "West")
SUMMARIES = (
    "Better wording",
    "A missing word",
    "Facts checked",
    "More detail",
    "Shorter",
    "Spelling",
    "As the census has it",
)
PER_REGION = 6


def slug(title: str) -> str:
    """Return the form of a page title that is used in URLs."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "-"


def town_name(rng: np.random.Generator) -> str:
    """Return a random town name."""
    return f"{words.pick(rng, PREFIXES)} {words.pick(rng, words.PLACES)}".strip()


def fill(db: sqlite3.Connection, rng: np.random.Generator, size: int, setting: Setting) -> None:
    """Insert pages of 24 towns (6 more per level of size), and of regions, rivers and crafts, with their versions.

    The user watches four of the pages.
    """
    count = min(24 + 6 * size, len(PREFIXES) * len(words.PLACES) - 30)  # leaves names for absent towns
    names = [f"{prefix} {place}".strip() for prefix in PREFIXES for place in words.PLACES]
    towns = [names[int(i)] for i in rng.permutation(len(names))[:count]]
    regions = [f"{names[int(i)]} County" for i in rng.permutation(len(names))[: count // PER_REGION]]
    rivers = [f"River {words.LAST_NAMES[int(i)]}" for i in rng.permutation(len(words.LAST_NAMES))[:5]]
    populations = [int(i) for i in rng.permutation(90_000)[:count] + 1000]
    for at, name in enumerate(towns):
        facts = {
            "Region": f"[[{regions[at // PER_REGION % len(regions)]}]]",
            "River": f"[[{words.pick(rng, rivers)}]]",
            "Population": str(populations[at]),
            "Founded": str(int(rng.integers(900, 1900))),
            "Mayor": f"{words.pick(rng, words.FIRST_NAMES)} {words.pick(rng, words.LAST_NAMES)}",
            "Postcode": f"{int(rng.integers(10000, 100000))}",
            "Twin town": f"[[{towns[(at + 1 + int(rng.integers(count - 1))) % count]}]]",
        }
        _page(db, rng, setting, name, "Towns", facts)
    for at, name in enumerate(regions):
        inside = [f"[[{town}]]" for town in towns[at * PER_REGION : (at + 1) * PER_REGION]]
        _page(db, rng, setting, name, "Regions", {"Towns": ", ".join(inside), "Area": f"{int(rng.integers(200, 9000))} km²"})
    for name in rivers:
        _page(db, rng, setting, name, "Rivers", {"Length": f"{int(rng.integers(30, 900))} km"})
    for at in rng.permutation(len(words.TOPICS))[:8]:
        facts = {"Home": f"[[{words.pick(rng, towns)}]]", "Tools": str(int(rng.integers(2, 30)))}
        _page(db, rng, setting, words.TOPICS[int(at)].title(), "Crafts", facts)
    pages = db.execute("SELECT count(*) FROM page").fetchone()[0]
    for page in rng.permutation(pages)[:4]:
        db.execute("INSERT INTO watch VALUES (?)", (int(page) + 1,))


def _page(
    db: sqlite3.Connection, rng: np.random.Generator, setting: Setting, title: str, category: str, facts: dict[str, str]
) -> None:
    """Insert a page and one to four versions; the last version equals the page."""
    text = "\n".join(f"{name}: {value}" for name, value in facts.items())
    body = words.paragraph(rng, 2)
    page = db.execute("INSERT INTO page VALUES (NULL, ?, ?, ?, ?)", (title, category, text, body)).lastrowid
    versions = int(rng.integers(1, 5))
    days = sorted(int(day) for day in rng.permutation(700)[:versions])[::-1]
    editors = [setting.others[int(i)].username for i in rng.permutation(len(setting.others))[:versions]]
    for at, (day, editor) in enumerate(zip(days, editors, strict=True), 1):
        when = setting.now - timedelta(days=day + 1, minutes=int(rng.integers(600)))
        version_body = body if at == versions else words.paragraph(rng, 2)
        summary = words.pick(rng, SUMMARIES) if at > 1 else "New page"
        values = (page, editor, f"{when:%Y-%m-%d %H:%M}", summary, text, version_body)
        db.execute("INSERT INTO version VALUES (NULL, ?, ?, ?, ?, ?, ?)", values)
