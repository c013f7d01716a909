"""Generated content of a tracker: projects with issues, labels, milestones, comments and merge requests."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import numpy as np

from agentgym.envs.web.sites.tracker import words
from agentgym.envs.web.state import Setting
from agentgym.envs.web.words import pick

SCHEMA = """
CREATE TABLE project (id INTEGER PRIMARY KEY, slug TEXT NOT NULL UNIQUE, description TEXT NOT NULL);
CREATE TABLE member (project_id INTEGER NOT NULL, username TEXT NOT NULL, role TEXT NOT NULL,
    PRIMARY KEY (project_id, username));
CREATE TABLE label (id INTEGER PRIMARY KEY, project_id INTEGER NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL,
    UNIQUE (project_id, name));
CREATE TABLE milestone (id INTEGER PRIMARY KEY, project_id INTEGER NOT NULL, title TEXT NOT NULL, due TEXT NOT NULL,
    state TEXT NOT NULL, UNIQUE (project_id, title));
CREATE TABLE issue (id INTEGER PRIMARY KEY, project_id INTEGER NOT NULL, number INTEGER NOT NULL, title TEXT NOT NULL,
    body TEXT NOT NULL, state TEXT NOT NULL, author TEXT NOT NULL, assignee TEXT NOT NULL, milestone_id INTEGER,
    due TEXT NOT NULL, created TEXT NOT NULL, UNIQUE (project_id, number));
CREATE TABLE issue_label (issue_id INTEGER NOT NULL, label_id INTEGER NOT NULL, PRIMARY KEY (issue_id, label_id));
CREATE TABLE merge_request (id INTEGER PRIMARY KEY, project_id INTEGER NOT NULL, number INTEGER NOT NULL,
    title TEXT NOT NULL, body TEXT NOT NULL, state TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL,
    author TEXT NOT NULL, assignee TEXT NOT NULL, reviewer TEXT NOT NULL, pipeline TEXT NOT NULL, created TEXT NOT NULL,
    UNIQUE (project_id, number));
CREATE TABLE change (id INTEGER PRIMARY KEY, merge_request_id INTEGER NOT NULL, path TEXT NOT NULL, diff TEXT NOT NULL);
CREATE TABLE review (merge_request_id INTEGER NOT NULL, username TEXT NOT NULL, verdict TEXT NOT NULL,
    PRIMARY KEY (merge_request_id, username));
CREATE TABLE comment (id INTEGER PRIMARY KEY, issue_id INTEGER, merge_request_id INTEGER, author TEXT NOT NULL,
    body TEXT NOT NULL, created TEXT NOT NULL);
CREATE INDEX comment_of_issue ON comment (issue_id);
"""
ROLES = ("Guest", "Reporter", "Developer", "Maintainer")
Item = TypeVar("Item")


def fill(db: sqlite3.Connection, rng: np.random.Generator, size: int, setting: Setting) -> None:
    """Insert 3 projects of 14 issues and 6 merge requests each; every level of size adds to all three numbers."""
    titles = unused_titles(rng, (3 + size) * (14 + 6 * size))
    slugs = [f"{first}-{second}" for first in words.FIRST for second in words.SECOND]
    for slug in rng.permutation(slugs)[: 3 + size]:
        project, members = _fill_project(db, rng, setting, str(slug))
        milestones = _ids(db, "milestone", project)
        labels = _ids(db, "label", project)
        for number in range(1, 15 + 6 * size):
            _fill_issue(db, rng, setting.now, (project, number, titles.pop()), members, milestones, labels)
        for number in range(1, 7 + 2 * size):
            _fill_merge_request(db, rng, setting, (project, number), members)


def unused_titles(rng: np.random.Generator, count: int) -> list[str]:
    """Return `count` distinct random issue titles."""
    plain = len(words.PARTS) * len(words.FAULTS) * len(words.WHEN)
    titles: list[str] = []
    for drawn in rng.choice(plain * (1 + count // plain), count, replace=False):
        again, number = divmod(int(drawn), plain)
        number, when = divmod(number, len(words.WHEN))
        part, fault = divmod(number, len(words.FAULTS))
        title = f"{words.PARTS[part]} {words.FAULTS[fault]} {words.WHEN[when]}"
        titles.append(title if not again else f"{title} (build {again})")
    return titles


def _ids(db: sqlite3.Connection, table: str, project: int) -> list[int]:
    return [row[0] for row in db.execute(f"SELECT id FROM {table} WHERE project_id = ? ORDER BY id", (project,))]


def _sampled(rng: np.random.Generator, items: Sequence[Item], count: int) -> list[Item]:
    return [items[int(position)] for position in rng.permutation(len(items))[:count]]


def _fill_project(db: sqlite3.Connection, rng: np.random.Generator, setting: Setting, slug: str) -> tuple[int, list[str]]:
    """Insert a project with members, labels and milestones; return its id and its members' user names."""
    description = pick(rng, words.PURPOSES).format(slug.partition("-")[0].capitalize()) + "."
    project = db.execute("INSERT INTO project (slug, description) VALUES (?, ?)", (slug, description)).lastrowid or 0
    roles = {setting.me.username: "Maintainer"}
    roles |= {person.username: pick(rng, ROLES) for person in _sampled(rng, setting.others, 9)}
    db.executemany("INSERT INTO member VALUES (?, ?, ?)", [(project, name, roles[name]) for name in sorted(roles)])
    labels = [(project, name, words.LABELS[name]) for name in sorted(_sampled(rng, list(words.LABELS), 7))]
    db.executemany("INSERT INTO label (project_id, name, description) VALUES (?, ?, ?)", labels)
    major = int(rng.integers(1, 9))
    for minor in range(4):
        due = setting.now.date() + timedelta(days=35 * minor - 40 + int(rng.integers(0, 12)))
        db.execute(
            "INSERT INTO milestone (project_id, title, due, state) VALUES (?, ?, ?, ?)",
            (project, f"{major}.{minor}", due.isoformat(), "closed" if minor == 0 else "open"),
        )
    return project, sorted(roles)


def _fill_issue(
    db: sqlite3.Connection,
    rng: np.random.Generator,
    now: datetime,
    name: tuple[int, int, str],
    members: list[str],
    milestones: list[int],
    labels: list[int],
) -> None:
    """Insert an issue with labels and comments; `name` is (project id, number, title)."""
    created = now - timedelta(days=200 - 3 * min(name[1], 60) + int(rng.integers(0, 3)), minutes=int(rng.integers(0, 500)))
    due = now.date() + timedelta(days=int(rng.integers(2, 60)))
    issue = db.execute(
        "INSERT INTO issue (project_id, number, title, body, state, author, assignee, milestone_id, due, created) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *name,
            pick(rng, words.BODIES),
            "closed" if rng.random() < 0.35 else "open",
            pick(rng, members),
            pick(rng, members) if rng.random() < 0.6 else "",
            pick(rng, milestones) if rng.random() < 0.6 else None,
            due.isoformat() if rng.random() < 0.5 else "",
            created.isoformat(timespec="minutes"),
        ),
    ).lastrowid
    own_labels = sorted(_sampled(rng, labels, int(rng.integers(0, 3))))
    db.executemany("INSERT INTO issue_label VALUES (?, ?)", [(issue, label) for label in own_labels])
    for position in range(int(rng.integers(0, 4))):
        written = created + timedelta(hours=5 * (position + 1))
        db.execute(
            "INSERT INTO comment (issue_id, author, body, created) VALUES (?, ?, ?, ?)",
            (issue, pick(rng, members), pick(rng, words.COMMENTS), written.isoformat(timespec="minutes")),
        )


def _fill_merge_request(
    db: sqlite3.Connection, rng: np.random.Generator, setting: Setting, name: tuple[int, int], members: list[str]
) -> None:
    """Insert a merge request with its changes and reviews; `name` is (project id, number)."""
    verb, area = pick(rng, words.VERBS), words.SETTINGS[(name[1] - 1) % len(words.SETTINGS)]
    part, author = pick(rng, words.PARTS).lower(), pick(rng, members)
    others = [member for member in members if member != author]
    created = setting.now - timedelta(days=60 - min(name[1], 50), minutes=int(rng.integers(0, 500)))
    request = db.execute(
        "INSERT INTO merge_request (project_id, number, title, body, state, source, target, author, assignee, reviewer, "
        "pipeline, created) VALUES (?, ?, ?, ?, ?, ?, 'main', ?, ?, ?, ?, ?)",
        (
            *name,
            f"{verb} the {area} of the {part}",
            f"The {area} did not fit what we measured for the {part}.",
            pick(rng, ("open", "open", "open", "merged", "closed")),
            f"{verb.lower()}-{area.replace(' ', '-')}-{name[1]}",
            author,
            pick(rng, members) if rng.random() < 0.5 else "",
            pick(rng, others) if rng.random() < 0.5 else "",
            "passed" if rng.random() < 0.7 else "failed",
            created.isoformat(timespec="minutes"),
        ),
    ).lastrowid
    for path, diff in diffs(rng, area):
        db.execute("INSERT INTO change (merge_request_id, path, diff) VALUES (?, ?, ?)", (request, path, diff))
    for username in sorted(set(_sampled(rng, others, int(rng.integers(0, 3)))) - {setting.me.username}):
        verdict = "approved" if rng.random() < 0.7 else "changes requested"
        db.execute("INSERT INTO review VALUES (?, ?, ?)", (request, username, verdict))


def diffs(rng: np.random.Generator, area: str) -> list[tuple[str, str]]:
    """Return one to three changed files as (path, unified diff); the first diff changes the setting named by `area`."""
    paths = [f"{folder}/{file}.py" for folder in words.FOLDERS for file in words.FILES]
    diffs_found: list[tuple[str, str]] = []
    for position, path in enumerate(_sampled(rng, paths, int(rng.integers(1, 4)))):
        old, new, line = int(rng.integers(1, 60)) * 5, int(rng.integers(61, 120)) * 5, int(rng.integers(3, 80))
        other = f"{pick(rng, words.SETTINGS)} {position}"
        constant = (area if position == 0 else other).upper().replace(" ", "_")
        added = ["+    print('DEBUG', value)"] if rng.random() < 0.25 else []
        lines = [f"@@ -{line},4 +{line},{4 + len(added)} @@", " import os", f"-{constant} = {old}", f"+{constant} = {new}"]
        diffs_found.append((path, "\n".join([*lines, " ", " def load(value):", *added, "     return value or os.environ"])))
    return diffs_found
