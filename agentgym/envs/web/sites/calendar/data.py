"""Generated content of a calendar: events of the user and of others, with attendees and their replies."""

import sqlite3
from datetime import date, timedelta

import numpy as np

from agentgym.envs.web.state import Setting, choose
from agentgym.envs.web.words import NOUNS, PLACES, pick, sentence

SCHEMA = """
CREATE TABLE event (id INTEGER PRIMARY KEY, calendar TEXT NOT NULL, organiser TEXT NOT NULL, title TEXT NOT NULL,
    day TEXT NOT NULL, start TEXT NOT NULL, finish TEXT NOT NULL, place TEXT NOT NULL, notes TEXT NOT NULL);
CREATE TABLE attendee (event_id INTEGER NOT NULL, username TEXT NOT NULL, reply TEXT NOT NULL,
    PRIMARY KEY (event_id, username));
CREATE INDEX event_of_day ON event (day, start);
"""
CALENDARS = ("Work", "Personal", "Travel")
REPLIES = ("accepted", "tentative", "declined", "no reply")
KINDS = (
    "review",
    "planning",
    "workshop",
    "interview",
    "walk-through",
    "kick-off",
    "demo",
    "retrospective",
    "check-up",
    "course",
)
ROOMS = ("Room Ash", "Room Birch", "Room Cedar", "Room Elm", "Room Oak", "Room Pine", "Room Willow")
WEEKS = 4
"""Number of weeks with events before the week of the episode's date, and as many after it, at size 0."""
_MOST_A_DAY = 11
"""Maximum number of events per day; events and the gaps between them last at least half an hour each."""


def fill(db: sqlite3.Connection, rng: np.random.Generator, size: int, setting: Setting) -> None:
    """Fill a database with one to three events per day, on the first five to seven days of each week.

    Each level of size adds a week at both ends, and every second level adds an event per day, if the day has room.
    """
    titles = event_titles(rng, size)
    today = setting.now.date()
    monday = today - timedelta(days=today.weekday())
    for week in range(-WEEKS - size, WEEKS + size + 1):
        for weekday in range(5 + int(rng.integers(0, 3))):
            _fill_day(db, rng, size, setting, monday + timedelta(days=7 * week + weekday), titles)


def event_titles(rng: np.random.Generator, size: int) -> list[str]:
    """Return distinct event titles in random order, over a fifth more than a calendar of this size can use.

    Large calendars also have titles with a number, such as "Bridge 2 review", which a search for "Bridge review"
    misses.
    """
    most = 7 * (2 * (WEEKS + size) + 1) * min(3 + size // 2, _MOST_A_DAY)
    series = range(1, 2 + most * 6 // 5 // (len(NOUNS) * len(KINDS)))
    things = [noun.capitalize() if number == 1 else f"{noun.capitalize()} {number}" for number in series for noun in NOUNS]
    titles = [f"{thing} {kind}" for thing in things for kind in KINDS]
    return [titles[int(position)] for position in rng.permutation(len(titles))]


def _fill_day(
    db: sqlite3.Connection, rng: np.random.Generator, size: int, setting: Setting, day: date, titles: list[str]
) -> None:
    """Insert the events of a day, one after another with gaps."""
    minute = 8 * 60 + 30 * int(rng.integers(0, 4))
    for _ in range(int(rng.integers(1, 4)) + size // 2):
        length = 30 * int(rng.integers(1, 5))
        if minute + length > 19 * 60:
            return
        others = choose(rng, list(setting.others), int(rng.integers(0, 5)))
        foreign = bool(others) and rng.random() < 0.3
        calendar = "Work" if others and rng.random() < 0.7 else pick(rng, CALENDARS)
        event = db.execute(
            "INSERT INTO event VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                calendar,
                others[0].username if foreign else setting.me.username,
                titles.pop(),
                day.isoformat(),
                clock(minute),
                clock(minute + length),
                pick(rng, ROOMS) if calendar == "Work" else pick(rng, PLACES),
                sentence(rng) if rng.random() < 0.5 else "",
            ),
        ).lastrowid
        invited = [*others[1:], setting.me] if foreign else others
        rows = [(event, person.username, REPLIES[int(rng.integers(4))]) for person in invited]
        db.executemany("INSERT INTO attendee VALUES (?, ?, ?)", rows)
        minute += length + 30 * int(rng.integers(1, 5))


def clock(minute: int) -> str:
    """Format a minute of the day as a time such as 09:30."""
    return f"{minute // 60:02d}:{minute % 60:02d}"


def minutes(text: str) -> int:
    """Parse a time such as 09:30 into the minute of the day, from 0."""
    return int(text[:2]) * 60 + int(text[3:])
