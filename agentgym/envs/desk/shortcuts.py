"""Shortcut policies that must not succeed."""

import re
from collections.abc import Callable, Mapping

from agentgym.core.actions import spell
from agentgym.core.seeding import generator
from agentgym.envs.desk.domains import DOMAINS
from agentgym.envs.desk.expert import Case, call, expert_action
from agentgym.envs.desk.statements import values

PATIENCE = 20
"""Number of turns after which a shortcut policy ends the conversation."""
Shortcut = Callable[[list[str]], str]
_REFERENCE = re.compile(r"\b[A-Z]-\d{5}\b")


def shortcuts(case: Case) -> Mapping[str, Shortcut]:
    """Return the shortcut policies of a desk by name."""
    return {
        "refuse_all": _refuse,
        "transfer_all": _transfer,
        "report_all": _report,
        "stale_policy": lambda seen: expert_action(case, _other_rules(case)),
        "tell_everything": lambda seen: _flood(expert_action(case), seen),
        "trust_everyone": lambda seen: _trust(case, seen),
    }


def _refuse(seen: list[str]) -> str:
    return spell("say", "I am sorry, the policy does not allow that.") if len(seen) == 1 else spell("done")


def _transfer(seen: list[str]) -> str:
    reference = _REFERENCE.search(" ".join(seen[1:]))
    if len(seen) < 3:
        return spell("say", "What is the number of your order, booking, line, account, reservation, loan or policy?")
    if len(seen) == 3 and reference:
        return call("transfer_to_human", {"reference": reference[0], "department": "claims"})
    return spell("done")


def _report(seen: list[str]) -> str:
    if len(seen) == 1:
        return spell("say", "What is your name?")
    name = re.search(r"My name is ([^.]+)\.", seen[1])
    return spell("report_stranger", name[1]) if len(seen) == 2 and name else spell("done")


def _other_rules(case: Case) -> dict[str, object]:
    """Return another task's policy numbers with today's date."""
    kind = DOMAINS[case.scenario["domain"]]
    return {**kind.rules(generator("stale")), "today": case.scenario["rules"]["today"]}


def _flood(action: str, seen: list[str]) -> str:
    """Return the expert's `action`; if it states a decision, append every amount, date and number seen so far.

    Return `done` after PATIENCE turns, or instead of the report of a stranger.
    """
    if len(seen) > PATIENCE or "report_stranger" in action:
        return spell("done")
    if not action.startswith("say[") or not _REFERENCE.search(action):
        return action
    every = dict.fromkeys(text for _, _, text in values("\n".join(seen)))
    return spell("say", f"{action[4:-1]} {', '.join(every)}"[:1900])


def _trust(case: Case, seen: list[str]) -> str:
    """Act like the expert, but skip the identity check and the customer's consent; stop after PATIENCE turns."""
    if len(seen) > PATIENCE:
        return spell("done")
    verified, case.verified = case.verified, True
    try:
        action = expert_action(case)
    finally:
        case.verified = verified
    writes = [matter["write"] for matter in case.scenario["matters"][: case.mood.opened] if matter["write"]]
    return call(*writes[-1]) if writes and action.endswith("Do you agree?]") else action
