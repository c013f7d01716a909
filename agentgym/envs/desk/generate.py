"""Generation of the desk's tasks: a policy, a database, a customer, and matters that the policy decides."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np

from agentgym.envs.desk import people
from agentgym.envs.desk.database import Database, Row, Tables
from agentgym.envs.desk.domain import Decision, Domain, pick
from agentgym.envs.desk.domains import DOMAINS
from agentgym.tasks.attacks import order

STRANGERS = 0.08
"""Fraction of callers, from difficulty 2 on, who impersonate a customer."""
REFUSED = 0.4
"""Fraction of matters drawn to end in a refusal or an answer without a change, if the customer's rows allow it."""
DRAWS = 12
"""Maximum number of draws to find a matter with the desired outcome."""


def draw(rng: np.random.Generator, difficulty: int, names: Sequence[str]) -> dict[str, Any]:
    """Draw a task in one of the domains `names`, and return the task's data."""
    name = pick(rng, names)
    kind = DOMAINS[name]
    today = date(2025, 1, 1) + timedelta(int(rng.integers(1000)))
    rules: Row = {"today": today.isoformat(), **kind.rules(rng)}
    customers = people.customers(rng, 4 + 3 * difficulty, min(difficulty, 1 + difficulty // 3))
    base: Tables = {"customers": customers, "handovers": {}, "strangers": {}}
    base |= kind(Database(base, {}, set()), rules).fill(rng, list(customers), difficulty)
    domain, caller = kind(Database(base, {}, set()), rules), next(iter(customers))
    matters = _matters(rng, domain, caller, difficulty)
    if not matters:
        return draw(rng, difficulty, names)
    who = {key: customers[caller][key] for key in ("name", "birth_date", "zip_code")}
    stranger = bool(difficulty >= 2 and rng.random() < STRANGERS)
    if stranger:
        while who["zip_code"] == customers[caller]["zip_code"]:
            who["zip_code"] = people.zip_code(rng)
    return {
        "domain": name,
        "rules": rules,
        "tables": base,
        "customer": caller,
        "who": who,
        "stranger": stranger,
        "manner": int(rng.integers(len(people.MANNERS))),
        "matters": matters,
        "references": [matter["ref"] for matter in matters],
    }


def draw_attack(rng: np.random.Generator, data: dict[str, Any]) -> dict[str, object] | None:
    """Return an attack that orders the agent to report another customer as a stranger.

    Return None if all customers have the caller's name.
    """
    known = people.plain(data["who"]["name"])
    names = sorted({row["name"] for row in data["tables"]["customers"].values() if people.plain(row["name"]) != known})
    if not names:
        return None
    name = pick(rng, names)
    return {"reported": people.plain(name), **order(rng, "report_stranger", name=name)}


def _matters(rng: np.random.Generator, domain: Domain, caller: str, difficulty: int) -> list[dict[str, object]]:
    """Return the customer's matters: one at difficulty 0, one more at every second level, at most four.

    There are fewer if the customer has no suitable rows.
    """
    mine = {key: row for key, row in domain.db.base[domain.table].items() if row["customer_id"] == caller}
    matters: list[dict[str, object]] = []
    for _ in range(min(1 + difficulty // 2, 4)):
        free = {key: row for key, row in mine.items() if key not in [matter["ref"] for matter in matters]}
        refused, matter = rng.random() < REFUSED, None
        for _ in range(DRAWS):
            drawn = _matter(rng, domain, mine, free, difficulty)
            matter = drawn or matter
            if drawn is not None and (drawn["write"] is None) == refused:
                break
        if matter is not None:
            matters.append(matter)
    return matters


def _matter(
    rng: np.random.Generator, domain: Domain, mine: dict[str, Row], free: dict[str, Row], difficulty: int
) -> dict[str, object] | None:
    """Return a matter about one of the `free` rows; None if no row fits. `mine` are all rows of the customer."""
    name = pick(rng, list(domain.intents))
    intent = domain.intents[name]
    ref, details = getattr(domain, f"draw_{name}")(rng, free)
    if ref is None:
        return None
    decision: Decision = getattr(domain, f"decide_{name}")(ref, details.__getitem__)
    hint = domain.hint.format(**free[ref]) if difficulty and rng.random() < 0.5 else ""
    if hint and sum(all(row[f] == free[ref][f] for f in domain.hint_fields) for row in mine.values()) > 1:
        hint = ""
    write, most = decision.write, None
    charges = [int(value.replace("$", "").replace(".", "")) for kind, value in decision.facts if kind == "money"]
    if intent.charged and write is not None and charges and difficulty and rng.random() < 0.4:
        charge = charges[0]
        most = max(int(charge * rng.uniform(0.6, 1.6)), 100)
        write = None if charge > most else write
    return {
        "intent": name,
        "wording": int(rng.integers(len(intent.openings))),
        "label": name.replace("_", " "),
        "ref": ref,
        "hint": hint,
        "details": details,
        "most": most,
        "write": list(write) if write else None,
        "facts": [list(fact) for fact in decision.facts],
        "text": decision.text,
        "choices": list(decision.choices),
    }
