"""Initial content of the forum."""

import sqlite3
from datetime import timedelta

import numpy as np

from agentgym.envs.web import words
from agentgym.envs.web.state import Setting

SCHEMA = """
CREATE TABLE board (id INTEGER PRIMARY KEY, slug TEXT NOT NULL UNIQUE, name TEXT NOT NULL);
CREATE TABLE topic (id INTEGER PRIMARY KEY, board INTEGER NOT NULL REFERENCES board, title TEXT NOT NULL, body TEXT NOT NULL,
    username TEXT NOT NULL, at TEXT NOT NULL, votes INTEGER NOT NULL, locked INTEGER NOT NULL);
CREATE TABLE comment (id INTEGER PRIMARY KEY, topic INTEGER NOT NULL REFERENCES topic, username TEXT NOT NULL,
    body TEXT NOT NULL, at TEXT NOT NULL);
CREATE TABLE vote (topic INTEGER PRIMARY KEY REFERENCES topic);
CREATE TABLE subscription (board INTEGER PRIMARY KEY REFERENCES board);
CREATE TABLE profile (username TEXT PRIMARY KEY, place TEXT NOT NULL, about TEXT NOT NULL);
CREATE INDEX comment_topic ON comment (topic);
CREATE INDEX topic_board ON topic (board);
"""
BOARDS = 8
_QUESTIONS = (
    "How do I {v} a {a} {n}?",
    "My {n} does not {v} any more",
    "Where can I {v} {a} {n}s?",
    "Looking for a {a} {n}",
    "What I learned about the {a} {n}",
    "The {n} and the {n2}: which first?",
    "Never {v} a {n} without this",
)


def title(rng: np.random.Generator) -> str:
    """Return a random topic title."""
    headline = words.pick(rng, _QUESTIONS).format(
        v=words.pick(rng, words.VERBS), a=words.pick(rng, words.ADJECTIVES), n=words.pick(rng, words.NOUNS),
        n2=words.pick(rng, words.NOUNS)
    )  # fmt: skip
    return words.with_articles(headline)


def fill(db: sqlite3.Connection, rng: np.random.Generator, size: int, setting: Setting) -> None:
    """Insert eight boards of four to nine topics (two more per level of size), with comments and votes.

    The user subscribes to three boards, and every person has a profile.
    """
    names = [words.TOPICS[int(i)] for i in rng.permutation(len(words.TOPICS))[:BOARDS]]
    titles: set[str] = set()
    comments: list[tuple[object, ...]] = []
    topic = 0
    for board, name in enumerate(sorted(names), 1):
        db.execute("INSERT INTO board VALUES (?, ?, ?)", (board, name, name.title()))
        authors = [setting.people[int(i)] for i in rng.permutation(len(setting.people))[:5]]
        votes = [int(i) for i in rng.permutation(90 + 10 * size)]
        for _ in range(int(rng.integers(4, 10)) + 2 * size):
            topic += 1
            while (topic_title := title(rng)) in titles:
                pass
            titles.add(topic_title)
            at = setting.now - timedelta(minutes=int(rng.integers(3000, 400_000)))
            author = setting.me if rng.random() < 0.12 else words.pick(rng, authors)
            locked = int(rng.random() < 0.15)
            values = (
                topic,
                board,
                topic_title,
                words.paragraph(rng, 3),
                author.username,
                f"{at:%Y-%m-%d %H:%M}",
                votes.pop(),
                locked,
            )
            db.execute("INSERT INTO topic VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
            for _ in range(int(rng.integers(0, 9))):
                at += timedelta(minutes=int(rng.integers(1, 300)))
                writer = setting.me if rng.random() < 0.15 else words.pick(rng, authors)
                comments.append((topic, writer.username, words.paragraph(rng, 2), f"{at:%Y-%m-%d %H:%M}"))
    db.executemany("INSERT INTO comment (topic, username, body, at) VALUES (?, ?, ?, ?)", comments)
    for board in rng.permutation(BOARDS)[:3]:
        db.execute("INSERT INTO subscription VALUES (?)", (int(board) + 1,))
    for person in setting.people:
        values = (person.username, words.pick(rng, words.PLACES), words.sentence(rng))
        db.execute("INSERT INTO profile VALUES (?, ?, ?)", values)
