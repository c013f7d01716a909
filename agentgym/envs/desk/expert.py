"""Policies of the desk: an oracle, and an expert that uses only what it observed."""

import json
from functools import partial
from typing import Any, Protocol

from agentgym.core.actions import spell
from agentgym.envs.desk.database import Database, NotShownYet, Place, Row
from agentgym.envs.desk.domain import FREE, Decision, Domain
from agentgym.envs.desk.people import plain
from agentgym.envs.desk.user import WHO, Mood, agreed, facts_of

STRANGER = -1
"""Number that stands for the report of a caller who is not the customer, in place of a matter's number."""


class NotAskedYet(Exception):
    """The expert needs an answer that it has not asked the customer for."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"{topic} was not asked")
        self.topic = topic


class Case(Protocol):
    """Attributes of the environment that the oracle and the expert use."""

    scenario: dict[str, Any]
    mood: Mood
    base: dict[str, dict[str, Row]]
    changes: dict[Place, Row]
    seen: set[Place]
    verified: bool
    finished: set[int]

    @property
    def domain(self) -> Domain:
        """The domain over the current database."""
        ...


def call(name: str, arguments: Row) -> str:
    """Return a tool call as JSON."""
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


def announce(text: str, *, propose: bool) -> str:
    """Return a `say` action that states a decision; with `propose`, it also asks for the customer's agreement."""
    return spell("say", f"{text}." + (" Do you agree?" if propose else ""))


def oracle_action(case: Case) -> str:
    """Return the next action of a correct solution."""
    matters = case.scenario["matters"]
    who = case.scenario["who"]
    if case.scenario["stranger"]:
        return spell("done") if STRANGER in case.finished else spell("report_stranger", who["name"])
    if not case.verified:
        return call(
            "verify_customer", {"customer_id": case.scenario["customer"], **{k: who[k] for k in ("birth_date", "zip_code")}}
        )
    if case.mood.opened < len(matters):
        return spell("say", "Is there anything else?")
    for number, matter in enumerate(matters):
        informed = all(case.mood.stated.get((number, kind)) == value for kind, value in facts_of(matter))
        if matter["write"] is not None and number not in case.finished:
            if matter["write"][0] not in FREE and not agreed(case.mood, number, facts_of(matter)):
                return announce(matter["text"], propose=True)
            return call(*matter["write"])
        if not informed:
            return announce(matter["text"], propose=False)
    return spell("done")


def expert_action(case: Case, rules: Row | None = None) -> str:
    """Return the next action, using only the policy, the customer's words and the tools' output.

    `rules` are the numbers of the policy; None: those of the task.
    """
    heard, who = case.mood.heard, case.scenario["who"]
    if not heard.issuperset(WHO):
        return spell("say", "May I have your full name, your date of birth and your ZIP code, please?")
    name = plain(who["name"])
    if ("names", name) not in case.seen:
        return spell("find_customer", who["name"])
    if not case.verified:
        candidates = [key for key, row in case.base["customers"].items() if plain(row["name"]) == name]
        untried = [key for key in candidates if ("tried", key) not in case.seen]
        if not untried:
            return spell("done") if STRANGER in case.finished else spell("report_stranger", who["name"])
        return call("verify_customer", {"customer_id": untried[0], **{k: who[k] for k in ("birth_date", "zip_code")}})
    for number in range(case.mood.opened):
        action = _work(case, number, rules)
        if action is not None:
            return action
    return spell("done") if "all" in heard else spell("say", "Is there anything else that I can do for you?")


def _work(case: Case, number: int, rules: Row | None) -> str | None:
    """Return the next action for one matter, by its number; None if nothing is left to do for the matter.

    `rules` are the numbers of the policy; None: those of the task.
    """
    domain, matter, mood = case.domain, case.scenario["matters"][number], case.mood
    if number in case.finished or mood.agreed.get(number, {}) is None:
        return None
    if f"{number} ref" not in mood.heard:
        return spell("say", f"What is the {domain.noun} number, please?")
    view = type(domain)(Database(case.base, case.changes, case.seen, view=True), rules or domain.r)
    try:
        ref = _find(view, matter, case)
        decision: Decision = getattr(view, f"decide_{matter['intent']}")(ref, partial(_ask, case, number))
    except NotShownYet as unseen:
        if unseen.fields is not None:
            tool = domain.searchers[unseen.table]
            return call(tool, unseen.fields) if len(unseen.fields) > 1 else spell(tool, *unseen.fields.values())
        return spell(domain.readers[unseen.table], unseen.key)
    except NotAskedYet as unheard:
        question = domain.intents[matter["intent"]].topics[unheard.topic].question
        return spell("say", f"Could you please tell me {question}?")
    informed = all(mood.stated.get((number, kind)) == value for kind, value in decision.facts)
    if decision.write is None:
        return None if informed else announce(decision.text, propose=False)
    free = decision.write[0] in FREE
    if informed and (free or agreed(mood, number, decision.facts)):
        return call(*decision.write)
    return announce(decision.text, propose=not free)


def _find(view: Domain, matter: Row, case: Case) -> str:
    """Return a matter's reference, from the customer or from the listed row that fits the customer's description.

    A changed row belongs to another matter, even if it now fits the description.
    """
    if not matter["hint"]:
        return matter["ref"]
    rows = view.db.where(view.table, customer_id=case.scenario["customer"])
    others = [case.scenario["matters"][number]["ref"] for number in case.finished]
    return next(key for key, row in rows.items() if key not in others and view.hint.format(**row) == matter["hint"])


def _ask(case: Case, number: int, topic: str) -> str:
    if f"{number} {topic}" not in case.mood.heard:
        raise NotAskedYet(topic)
    return case.scenario["matters"][number]["details"][topic]
