"""Task families of the forum: questions about topics, and posting, commenting, voting, editing and subscribing."""

from collections import Counter
from collections.abc import Generator
from itertools import product

import numpy as np

from agentgym.envs.web import words
from agentgym.envs.web.family import (
    Ask,
    Made,
    NoSubject,
    TaskFamily,
    absent,
    change_data,
    contested,
    every_page,
    ordinal,
    question,
)
from agentgym.envs.web.plan import Answer, Click, Fill, Goto, ImpossibleTask, Page, Plan, Step
from agentgym.envs.web.sites.forum.data import title
from agentgym.envs.web.state import EpisodeState, choose

FORUM = "http://forum.test"


def open_board(name: str, order: str = "new") -> Generator[Step, Page, Page]:
    """Open a board by its name, with its topics sorted by `order`.

    Raises:
        ImpossibleTask: there is no such board.
    """
    page = yield Goto(f"{FORUM}/")
    if not page.has("link", name):
        raise ImpossibleTask
    page = yield Click("link", name)
    return page if order == "new" else (yield Goto(f"{page.url}?sort={order}"))


def open_topic(topic_title: str) -> Generator[Step, Page, Page]:
    """Search for a topic by its title and open it."""
    yield Goto(f"{FORUM}/")
    yield Fill("Search topics", topic_title)
    page = yield Click("button", "Search")
    while not page.has("link", topic_title):
        page = yield Click("link", "Next page")
    return (yield Click("link", topic_title))


def quoted(text: str) -> str:
    """Return a text in quotation marks."""
    return f'"{text}"'


class Commenter(TaskFamily):
    """Find the person who has written the most comments on a topic."""

    name = "forum-commenter"
    sites = ("forum",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        names = {person.username: person.name for person in state.setting.people}
        sql = "SELECT topic, username FROM comment ORDER BY id"
        counts: dict[int, Counter[str]] = {}
        for row in state.rows("forum", sql):
            counts.setdefault(row["topic"], Counter())[row["username"]] += 1
        choices: list[tuple[int, str]] = []
        for topic, count in counts.items():
            best = count.most_common(2)
            if best[0][1] > 1 and (len(best) == 1 or best[1][1] < best[0][1]):
                choices.append((topic, best[0][0]))
        username = words.pick(rng, sorted({name for _, name in choices}))  # or frequent commenters would be likely
        topic = words.pick(rng, [topic for topic, name in choices if name == username])
        topic_title = state.one("forum", "SELECT title FROM topic WHERE id = ?", topic)
        text = (
            f"Who has written the most comments on the topic {quoted(topic_title)} in the forum? Answer with the full name."
        )
        return text, question({"topic": topic_title}, names[username])

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_topic(ask["topic"])
        count: Counter[str] = Counter()
        while True:
            for article in page.root.all("article"):
                count[article.children[0].text.partition(",")[0]] += 1
            if not page.has("link", "Next page"):
                break
            page = yield Click("link", "Next page")
        yield Answer(count.most_common(1)[0][0])


class MostVotes(TaskFamily):
    """Of the topics that a person started on a board, find the one with the most (or second most, …) votes."""

    name = "forum-votes"
    sites = ("forum",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        boards = {row["id"]: row["name"] for row in state.rows("forum", "SELECT id, name FROM board ORDER BY id")}
        topics = {key: list[str]() for key in product(boards, (person.username for person in state.setting.people))}
        for row in state.rows("forum", "SELECT title, board, username FROM topic ORDER BY votes DESC"):
            topics[row["board"], row["username"]].append(row["title"])
        place = contested(rng, [len(titles) for titles in topics.values()], 1 + difficulty)
        (board, username), titles = words.pick(rng, [item for item in topics.items() if (len(item[1]) >= place) == possible])
        name = next(person.name for person in state.setting.people if person.username == username)
        text = (
            f"Of the topics that {name} started on the board {boards[board]} of the forum, which has the "
            f"{ordinal(place)}most votes? Answer with its title."
        )
        ask = {"board": boards[board], "author": name, "place": place}
        return text, question(ask, titles[place - 1] if possible else "")

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_board(ask["board"], "votes")
        rows = yield from every_page(page, "Topic")
        titles: list[str] = [row["Topic"] for row in rows if row["Author"] == ask["author"]]
        place: int = ask["place"]
        if len(titles) < place:
            raise ImpossibleTask
        yield Answer(titles[place - 1])


class Post(TaskFamily):
    """Start a topic on a board."""

    name = "forum-post"
    sites = ("forum",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        boards = [row["name"] for row in state.rows("forum", "SELECT name FROM board ORDER BY id")]
        board = words.pick(rng, boards)
        if not possible:
            board = absent(boards, lambda: words.pick(rng, words.TOPICS).title())
        ask = {"board": board, "title": title(rng), "body": words.paragraph(rng, 1 + difficulty)}
        text = f"Start a topic on the board {board} of the forum, with the title {quoted(ask['title'])} and the text "
        return text + quoted(ask["body"]), change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = "INSERT INTO topic SELECT NULL, id, ?, ?, ?, ?, 0, 0 FROM board WHERE name = ?"
        at = f"{state.now:%Y-%m-%d %H:%M}"
        state.change("forum", sql, ask["title"], ask["body"], state.me.username, at, ask["board"])

    def solve(self, ask: Ask) -> Plan:
        yield from open_board(ask["board"])
        yield Click("link", "New topic")
        yield Fill("Title", ask["title"])
        yield Fill("Text", ask["body"])
        yield Click("button", "Save topic")


class Comment(TaskFamily):
    """Comment on a topic; impossible if the topic is locked."""

    name = "forum-comment"
    sites = ("forum",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows("forum", "SELECT title FROM topic WHERE locked <> ? ORDER BY id", possible)
        if not rows:
            raise NoSubject
        ask = {"topic": words.pick(rng, rows)["title"], "body": words.paragraph(rng, 1 + difficulty)}
        text = f"Comment on the topic {quoted(ask['topic'])} in the forum with the text {quoted(ask['body'])}"
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = "INSERT INTO comment SELECT NULL, id, ?, ?, ? FROM topic WHERE title = ?"
        state.change("forum", sql, state.me.username, ask["body"], f"{state.now:%Y-%m-%d %H:%M}", ask["topic"])

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_topic(ask["topic"])
        if not page.has("button", "Post comment"):
            raise ImpossibleTask
        yield Fill("Your comment", ask["body"])
        yield Click("button", "Post comment")


class Vote(TaskFamily):
    """Vote for all topics that a person started on a board."""

    name = "forum-vote"
    sites = ("forum",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        sql = """SELECT board.name AS board, username, count(*) AS n FROM topic JOIN board ON board.id = board
            GROUP BY board.id, username ORDER BY board.id, username"""
        rows = [row for row in state.rows("forum", sql) if row["username"] != state.me.username]
        fewest = min(1 + difficulty, max(row["n"] for row in rows))
        row = words.pick(rng, [row for row in rows if fewest <= row["n"] <= fewest + 2])
        author = next(person.name for person in state.setting.people if person.username == row["username"])
        text = f"Vote for every topic that {author} started on the board {row['board']} of the forum."
        return text, change_data({"board": row["board"], "author": author})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        username = next(person.username for person in state.setting.people if person.name == ask["author"])
        sql = "INSERT INTO vote SELECT topic.id FROM topic JOIN board ON board.id = board WHERE name = ? AND username = ?"
        state.change("forum", sql, ask["board"], username)

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_board(ask["board"], "old")
        board = page.url
        rows = yield from every_page(page, "Topic")
        titles: list[str] = [row["Topic"] for row in rows if row["Author"] == ask["author"]]
        for topic_title in titles:
            page = yield Goto(board)
            while not page.has("link", topic_title):
                page = yield Click("link", "Next page")
            yield Click("link", topic_title)
            yield Click("button", "Vote for this topic")


class Edit(TaskFamily):
    """Change the text of a topic; impossible if the topic belongs to another person."""

    name = "forum-edit"
    sites = ("forum",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows("forum", "SELECT title FROM topic WHERE (username = ?) = ?", state.me.username, possible)
        if not rows:
            raise NoSubject
        ask = {"topic": words.pick(rng, rows)["title"], "body": words.paragraph(rng, 1 + difficulty)}
        text = f"Replace the text of the topic {quoted(ask['topic'])} in the forum with {quoted(ask['body'])}"
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        state.change("forum", "UPDATE topic SET body = ? WHERE title = ?", ask["body"], ask["topic"])

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_topic(ask["topic"])
        if not page.has("link", "Edit topic"):
            raise ImpossibleTask
        yield Click("link", "Edit topic")
        yield Fill("Text", ask["body"])
        yield Click("button", "Save topic")


class DeleteComments(TaskFamily):
    """Delete the user's own comments on some topics."""

    name = "forum-delete"
    sites = ("forum",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        sql = "SELECT title FROM topic WHERE id IN (SELECT topic FROM comment WHERE username = ?) ORDER BY id"
        rows = choose(rng, state.rows("forum", sql, state.me.username), 1 + difficulty)
        if not rows:
            raise NoSubject
        topics = [row["title"] for row in rows]
        phrase = ", ".join(quoted(topic) for topic in topics)
        text = f"Delete all comments that I have written in the forum on the topic{'s' * (len(topics) > 1)} {phrase}."
        return text, change_data({"topics": topics})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = "DELETE FROM comment WHERE username = ? AND topic = (SELECT id FROM topic WHERE title = ?)"
        for topic in ask["topics"]:
            state.change("forum", sql, state.me.username, topic)

    def solve(self, ask: Ask) -> Plan:
        for topic in ask["topics"]:
            page = yield from open_topic(topic)
            while page.has("button", "Delete comment"):
                page = yield Click("button", "Delete comment")


class Subscribe(TaskFamily):
    """Subscribe to the boards that have at least a given number of topics, and unsubscribe from all others."""

    name = "forum-subscribe"
    sites = ("forum",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        sql = "SELECT (SELECT count(*) FROM topic WHERE board = board.id) AS n, id FROM board ORDER BY n"
        rows = state.rows("forum", sql)
        least = int(words.pick(rng, rows[1:])["n"])
        targets = {row["id"] for row in rows if row["n"] >= least}
        if targets == {row["board"] for row in state.rows("forum", "SELECT board FROM subscription")}:
            raise NoSubject
        text = (
            f"In the forum, subscribe me to every board that has at least {least} topics, and unsubscribe me from every "
            "board that has fewer."
        )
        return text, change_data({"least": least})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        state.change("forum", "DELETE FROM subscription")
        sql = "INSERT INTO subscription SELECT id FROM board WHERE (SELECT count(*) FROM topic WHERE board = board.id) >= ?"
        state.change("forum", sql, ask["least"])

    def solve(self, ask: Ask) -> Plan:
        page = yield Goto(f"{FORUM}/")
        for row in page.records("Board"):
            subscribed = int(row["Topics"]) >= ask["least"]
            if subscribed != (row["Subscribed"] == "yes"):
                yield Click("button", "Subscribe" if subscribed else "Unsubscribe", row=row["Board"])


class Profile(TaskFamily):
    """Change the user's own profile: set a given text, and copy another member's place."""

    name = "forum-profile"
    sites = ("forum",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        own = state.one("forum", "SELECT place FROM profile WHERE username = ?", state.me.username)
        others = [
            (person.name, place)
            for person in state.setting.others
            if (place := state.one("forum", "SELECT place FROM profile WHERE username = ?", person.username)) != own
        ]
        known = [person.name for person in state.setting.people]
        name = words.pick(rng, others)[0]
        if not possible:
            pick = words.pick
            name = absent(known, lambda: f"{pick(rng, words.FIRST_NAMES)} {pick(rng, words.LAST_NAMES)}")
        ask = {"like": name, "about": words.paragraph(rng, 1 + difficulty)}
        text = (
            f"In my profile in the forum, set the place to the one that {name} has there, and the text about me to "
            f"{quoted(ask['about'])}"
        )
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        username = next(person.username for person in state.setting.people if person.name == ask["like"])
        sql = "UPDATE profile SET about = ?, place = (SELECT place FROM profile WHERE username = ?) WHERE username = ?"
        state.change("forum", sql, ask["about"], username, state.me.username)

    def solve(self, ask: Ask) -> Plan:
        page = yield Goto(f"{FORUM}/members")
        members = yield from every_page(page, "Name")
        place = next((row["Place"] for row in members if row["Name"] == ask["like"]), None)
        if place is None:
            raise ImpossibleTask
        yield Goto(f"{FORUM}/settings")
        yield Fill("Place", place)
        yield Fill("About", ask["about"])
        yield Click("button", "Save settings")


FAMILIES: tuple[TaskFamily, ...] = (
    Commenter(),
    MostVotes(),
    Post(),
    Comment(),
    Vote(),
    Edit(),
    DeleteComments(),
    Subscribe(),
    Profile(),
)
