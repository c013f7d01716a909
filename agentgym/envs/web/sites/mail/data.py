"""Generated content of a mailbox: messages of colleagues and firms, folders and contacts."""

import sqlite3
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from agentgym.envs.web.formats import day, money
from agentgym.envs.web.sites.calendar.data import ROOMS, clock
from agentgym.envs.web.sites.tracker.data import unused_titles
from agentgym.envs.web.state import EpisodeState, Person, Setting, choose
from agentgym.envs.web.words import ADJECTIVES, NOUNS, PLACES, TOPICS, paragraph, pick

SCHEMA = """
CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE message (id INTEGER PRIMARY KEY, folder TEXT NOT NULL, sender TEXT NOT NULL, recipients TEXT NOT NULL,
    subject TEXT NOT NULL, body TEXT NOT NULL, sent TEXT NOT NULL, starred INTEGER NOT NULL, kind TEXT NOT NULL,
    refers INTEGER);
CREATE TABLE contact (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE, phone TEXT NOT NULL,
    company TEXT NOT NULL);
CREATE TABLE trace_opened (message_id INTEGER PRIMARY KEY);
CREATE INDEX message_of_folder ON message (folder, sent);
"""
SYSTEM = ("Inbox", "Sent", "Archive", "Trash")
"""Built-in folders of every mailbox; the table `folder` contains only the user's own folders."""
FOLDERS = ("Receipts", "Travel", "Projects", "Family", "Ideas", "Club", "House", "Insurance", "Recipes", "School")
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


@dataclass(frozen=True)
class Draft:
    """A message whose date is not yet set."""

    sender: str
    subject: str
    body: str


def fill(db: sqlite3.Connection, rng: np.random.Generator, size: int, setting: Setting) -> None:
    """Insert at most 34 messages (12 more per level of size), three folders, and contacts."""
    firms = _fill_contacts(db, rng, size, setting)
    own = sorted(choose(rng, list(FOLDERS), 3))
    db.executemany("INSERT INTO folder (name) VALUES (?)", [(name,) for name in own])
    drafts = [*talk(rng, size, setting), *invoices(rng, size, setting, firms), *bookings(rng, size, setting, firms)]
    drafts += [*meetings(rng, size, setting), *requests(rng, size, setting), *problems(rng, size, setting, firms)]
    drafts = choose(rng, drafts, len(drafts))
    for number, draft in enumerate(drafts):
        age = timedelta(hours=9 * (len(drafts) - number) + int(rng.integers(1, 9)), minutes=int(rng.integers(0, 60)))
        sent, foreign = (setting.now - age).isoformat(timespec="minutes"), draft.sender != setting.me.email
        people = setting.me.email if foreign else pick(rng, setting.others).email
        folder = "Sent" if not foreign else "Inbox" if rng.random() < 0.8 else pick(rng, ("Archive", *own))
        row = (folder, draft.sender, people, draft.subject, draft.body, sent, int(rng.random() < 0.1))
        message = db.execute(
            "INSERT INTO message (folder, sender, recipients, subject, body, sent, starred, kind) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, 'new')",
            row,
        ).lastrowid
        if folder != "Inbox" or rng.random() < 0.7:
            db.execute("INSERT INTO trace_opened VALUES (?)", (message,))


def _fill_contacts(db: sqlite3.Connection, rng: np.random.Generator, size: int, setting: Setting) -> list[tuple[str, str]]:
    """Insert colleagues and firms as contacts; return the firms as (name, mail address)."""
    firms: dict[str, str] = {}
    while len(firms) < 6 + 2 * size:
        town, trade = pick(rng, PLACES), pick(rng, TOPICS)
        name = f"{town} {trade.capitalize()}"
        firms[name if name not in firms else f"{name} {len(firms)}"] = f"office@{trade}-{town.lower()}-{len(firms)}.test"
    rows = [(person.name, person.email, phone(rng), "Colleague") for person in setting.others]
    rows += [(name, email, phone(rng), "Firm") for name, email in firms.items()]
    db.executemany("INSERT INTO contact (name, email, phone, company) VALUES (?, ?, ?, ?)", rows)
    return list(firms.items())


def phone(rng: np.random.Generator) -> str:
    """Return a random telephone number."""
    return f"0{int(rng.integers(20, 100))} {int(rng.integers(100, 1000))} {int(rng.integers(1000, 10000))}"


def talk(rng: np.random.Generator, size: int, setting: Setting) -> list[Draft]:
    """Return small-talk messages, some of them sent by the user."""
    subjects = [f"{adjective.capitalize()} {noun}" for adjective in ADJECTIVES for noun in NOUNS]
    drafts: list[Draft] = []
    for subject in choose(rng, subjects, 16 + 6 * size):
        sender = setting.me if rng.random() < 0.25 else pick(rng, setting.others[:12])
        drafts.append(Draft(sender.email, subject, paragraph(rng, int(rng.integers(1, 5)))))
    return drafts


def invoices(rng: np.random.Generator, size: int, setting: Setting, firms: list[tuple[str, str]]) -> list[Draft]:
    """Return invoice messages with number, amount and due date."""
    drafts: list[Draft] = []
    for number in choose(rng, list(range(1000, 9999)), 5 + 2 * size):
        firm, email = pick(rng, firms)
        due = setting.now + timedelta(days=int(rng.integers(3, 40)))
        body = (
            f"Dear {setting.me.name},\n\nthank you for your order. The amount of invoice {number} is "
            f"{money(int(rng.integers(900, 90000)))}. Please pay by {day(due)}.\n\n{paragraph(rng, 1)}\n\n{firm}"
        )
        drafts.append(Draft(email, f"Invoice {number}", body))
    return drafts


def bookings(rng: np.random.Generator, size: int, setting: Setting, firms: list[tuple[str, str]]) -> list[Draft]:
    """Return messages that confirm a hotel booking, with code, town, date of arrival and number of nights."""
    drafts: list[Draft] = []
    for town in choose(rng, list(PLACES), min(3 + size, len(PLACES) - 5)):  # leaves some towns unused
        code = "".join(LETTERS[int(position)] for position in rng.integers(0, len(LETTERS), 6))
        arrival, nights = setting.now + timedelta(days=int(rng.integers(5, 60))), int(rng.integers(1, 8))
        body = (
            f"Dear {setting.me.name},\n\nyour room in {town} is booked for {nights} night{'s' * (nights > 1)} from "
            f"{day(arrival)}. Your booking code is {code}.\n\n{paragraph(rng, 2)}"
        )
        drafts.append(Draft(pick(rng, firms)[1], f"Your hotel in {town}", body))
    return drafts


def meetings(rng: np.random.Generator, size: int, setting: Setting) -> list[Draft]:
    """Return messages that propose a meeting, with day, time and room."""
    drafts: list[Draft] = []
    for noun in choose(rng, list(NOUNS), 4 + size):
        when = setting.now + timedelta(days=int(rng.integers(2, 30)))
        start = 30 * int(rng.integers(16, 34))
        finish = start + 30 * int(rng.integers(1, 5))
        body = (
            f"Hello,\n\n{paragraph(rng, 1)}\nLet us meet on {day(when)} from {clock(start)} to {clock(finish)} in "
            f"{pick(rng, ROOMS)}. Is that all right?\n\nBest wishes"
        )
        drafts.append(Draft(pick(rng, setting.others).email, f"Meeting about the {noun}", body))
    return drafts


def requests(rng: np.random.Generator, size: int, setting: Setting) -> list[Draft]:
    """Return messages in which authors of the tracker's merge requests ask for a review."""
    state = EpisodeState(setting.seed, size)
    rows = state.rows(
        "tracker",
        "SELECT m.number, m.title, m.author, slug FROM merge_request AS m JOIN project ON project.id = m.project_id "
        "WHERE m.state = 'open' AND m.author <> ? ORDER BY m.id",
        setting.me.username,
    )
    people: dict[str, Person] = {person.username: person for person in setting.people}
    drafts: list[Draft] = []
    for row in choose(rng, rows, 3 + size):
        body = (
            f"Hello,\n\nwould you please look at my merge request !{row['number']} in {row['slug']}? It is called "
            f'"{row["title"]}".\n{paragraph(rng, 1)}\n\nThank you'
        )
        drafts.append(Draft(people[row["author"]].email, f"Review of !{row['number']} in {row['slug']}", body))
    state.close()
    return drafts


def problems(rng: np.random.Generator, size: int, setting: Setting, firms: list[tuple[str, str]]) -> list[Draft]:
    """Return messages in which customers report a problem, each about a project of the tracker."""
    state = EpisodeState(setting.seed, size)
    slugs = [row["slug"] for row in state.rows("tracker", "SELECT slug FROM project ORDER BY id")]
    known = {row["title"] for row in state.rows("tracker", "SELECT title FROM issue")}
    state.close()
    titles = [title for title in unused_titles(rng, 10 + 4 * size) if title not in known]
    drafts: list[Draft] = []
    for number, title in zip(choose(rng, list(range(100, 999)), 3 + size), titles, strict=False):
        body = (
            f"Dear {setting.me.name},\n\nwe have a problem with {pick(rng, slugs)}:\n{title}.\n{paragraph(rng, 2)}\n\n"
            "Please let us know under which number you look into it."
        )
        drafts.append(Draft(pick(rng, firms)[1], f"Trouble, our case {number}", body))
    return drafts
