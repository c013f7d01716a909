"""Task families that report facts from another site by mail."""

import re

import numpy as np

from agentgym.envs.web.family import Ask, Made, TaskFamily, absent, change_data
from agentgym.envs.web.formats import day
from agentgym.envs.web.plan import Click, Fill, Goto, ImpossibleTask, Plan
from agentgym.envs.web.sites.mail.chores import MAIL, address_of, send
from agentgym.envs.web.sites.shop.questions import SHOP
from agentgym.envs.web.sites.tracker.questions import TRACKER
from agentgym.envs.web.sites.wiki.data import town_name
from agentgym.envs.web.sites.wiki.tasks import NUMBERS, facts_of, open_page, titles_of
from agentgym.envs.web.state import EpisodeState, choose
from agentgym.envs.web.words import pick


def colleagues(rng: np.random.Generator, state: EpisodeState, count: int) -> list[str]:
    """Return the sorted names of `count` random people other than the user."""
    return sorted(person.name for person in choose(rng, list(state.setting.others), count))


def write_letter(people: list[str], subject: str, body: str) -> Plan:
    """Write and send a message to these people."""
    yield Goto(f"{MAIL}/compose")
    yield Fill("To", ", ".join(people))
    yield Fill("Subject", subject)
    yield Fill("Message", body)
    yield Click("button", "Send")


class MilestoneLetter(TaskFamily):
    """Report a tracker milestone's due date by mail."""

    name = "tracker-mail-milestone"
    sites = ("tracker", "mail")

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        sql = "SELECT title, due, slug FROM milestone JOIN project ON project.id = project_id ORDER BY milestone.id"
        rows = state.rows("tracker", sql)
        row = pick(rng, rows)
        known = [other["title"] for other in rows if other["slug"] == row["slug"]]
        title = row["title"] if possible else absent(known, lambda: f"{int(rng.integers(1, 9))}.{int(rng.integers(4))}")
        people = colleagues(rng, state, 1 + difficulty)
        text = (
            f"Write one mail to {', '.join(people)} with the subject {row['slug']} {title}. Its text is just the date on "
            f"which the milestone {title} of the project {row['slug']} in the tracker is due, written like "
            f"{day(state.now)}."
        )
        return text, change_data({"project": row["slug"], "milestone": title, "people": people})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = "SELECT due FROM milestone JOIN project ON project.id = project_id WHERE slug = ? AND title = ?"
        due = state.one("tracker", sql, ask["project"], ask["milestone"])
        people = [address_of(state, name) for name in ask["people"]]
        send(state, people, f"{ask['project']} {ask['milestone']}", day(due))

    def solve(self, ask: Ask) -> Plan:
        page = yield Goto(f"{TRACKER}/{ask['project']}/milestones")
        due = next((row["Due"] for row in page.records("Milestone") if row["Milestone"] == ask["milestone"]), None)
        if due is None:
            raise ImpossibleTask
        yield from write_letter(ask["people"], f"{ask['project']} {ask['milestone']}", due)


class TownLetter(TaskFamily):
    """Report one of the wiki's facts about a town by mail."""

    name = "wiki-mail-town"
    sites = ("wiki", "mail")

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        towns, fact = titles_of(state, "Towns"), pick(rng, NUMBERS)
        town = pick(rng, towns) if possible else absent(towns, lambda: town_name(rng))
        people = colleagues(rng, state, 1 + difficulty)
        text = (
            f"Write one mail to {', '.join(people)} with the subject {town}. Its text is just what the wiki gives as "
            f'"{fact}" for {town}.'
        )
        return text, change_data({"town": town, "fact": fact, "people": people})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        people = [address_of(state, name) for name in ask["people"]]
        send(state, people, ask["town"], facts_of(state, ask["town"])[ask["fact"]])

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_page(ask["town"])
        yield from write_letter(ask["people"], ask["town"], page.fact(ask["fact"]))


class OrderLetter(TaskFamily):
    """Report the status of a shop order by mail."""

    name = "shop-mail-order"
    sites = ("shop", "mail")

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = [str(row["id"]) for row in state.rows("shop", "SELECT id FROM purchase ORDER BY id")]
        order = pick(rng, rows)
        if not possible:
            order = absent(rows, lambda: str(int(order) + int(rng.integers(1, 30))))
        people = colleagues(rng, state, 1 + difficulty)
        text = (
            f"Write one mail to {', '.join(people)} with the subject Order {order}. Its text is just the one word "
            f"that the shop gives as the status of my order {order}."
        )
        return text, change_data({"order": order, "people": people})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        status = state.one("shop", "SELECT status FROM purchase WHERE id = ?", int(ask["order"]))
        send(state, [address_of(state, name) for name in ask["people"]], f"Order {ask['order']}", status)

    def solve(self, ask: Ask) -> Plan:
        page = yield Goto(f"{SHOP}/orders/{ask['order']}")
        status = page.fact("Status")
        if not re.fullmatch(r"\w+", status):
            raise ImpossibleTask
        yield from write_letter(ask["people"], f"Order {ask['order']}", status)
