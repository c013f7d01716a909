"""The solution reaches nobody who plays: not over the interface, and not in what is observed."""

import json
import re
from typing import Any

import httpx
from openenv.validation.graders import Subject
from openenv.validation.types import Level

from rlvr_openenv_graders.base import NotMeasured, ServedGrader
from rlvr_openenv_graders.oracle import containers, leaves, solved
from rlvr_openenv_graders.semantic import DETERMINISM, judged, measured_floor
from rlvr_openenv_graders.wire import Refused, Served, rewards

PAGES = ("/", "/web", "/openapi.json", "/schema", "/metadata", "/state", "/docs")
OTHERS = 4
"""Other seeds, whose first observations show which words say nothing about the task."""
SHORTEST = 3
"""Characters of a text that can be recognized."""


class OracleContainment(ServedGrader):
    """No page of the server and no answer of a public episode has the solution, and no action of an agent sets the state."""

    check_id = "runtime.oracle_containment"
    requires_capabilities = frozenset({"oracle"})
    remediation = "Keep the oracle's file out of the image, its state out of answers, and injected_state out of actions."

    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Read pages, play the public plan, and send the solution as an action."""
        oracle = subject.manifest.capabilities.oracle
        assert oracle is not None
        reset = solved(served, subject) or {}
        state = reset["injected_state"]
        secret = [json.dumps(part, sort_keys=True) for part in containers(state) if len(list(leaves(part))) > 1]
        found = list[str]()
        whole = (subject.root / oracle.location).read_bytes().strip()
        with httpx.Client(base_url=served.url, timeout=30, trust_env=False) as client:
            places = [
                oracle.location,
                f"static/{oracle.location}",
                f"files/{oracle.location}",
                oracle.location.rpartition("/")[2],
            ]
            for page in (*PAGES, *(f"/{place}" for place in places)):
                answer = client.get(page)
                if answer.is_success and (whole in answer.content or _within(secret, _parsed(answer.text))):
                    found.append(f"GET {page} returns the solution")
        for answer in served.episode():
            if _within(secret, answer):
                found.append("an answer of the public episode contains the solution's state")
                break
        with served.session() as wire:
            wire.reset(**served.arguments())
            try:
                paid = rewards([wire.step({**served.idle(), "injected_state": state})])
            except Refused:
                paid = []
        most = judged(served, reset)
        if paid and most is not None and paid[-1] >= most > measured_floor(served):
            found.append("an action with the field injected_state sets the solved state")
        return found, {"pages": len(PAGES) + len(places)}


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _within(secret: list[str], value: object) -> bool:
    """Return whether a part of the solution with several values is an object or list of an answer, or written in a text."""
    parts = {json.dumps(part, sort_keys=True) for part in containers(value)}
    texts = [text for text in leaves(value) if len(text) >= SHORTEST]
    return any(one in parts or any(one in text for text in texts) for one in secret)


class NoSolutionLeakage(ServedGrader):
    """The first observation and state do not contain all values of the solution.

    Values that the public plan says, that the beginnings of other seeds contain too, or that stand in a list of choices
    tell nothing of this task. Some values are no leak: a command that is listed may be a step of the solution.
    """

    check_id = "semantic.no_solution_leakage"
    level = Level.SEMANTIC
    requires_capabilities = frozenset({"oracle"})
    depends_on = DETERMINISM
    remediation = "Take the answer out of the observation, its metadata and the state."

    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Look for every value of the solution in what is seen first."""
        reset = solved(served, subject) or {}
        state = reset.pop("injected_state")
        known = {*leaves(reset), *leaves([dict(action) for action in served.plan.actions])}
        values = [value for value in dict.fromkeys(leaves(state)) if len(value) >= SHORTEST and value not in known]
        beginning = _texts(served.episode(reset, ()))
        others = list[str]()
        for seed in range(1, OTHERS + 1):
            try:
                others.append(_texts(served.episode({"seed": reset["seed"] + seed, "episode_id": "other"}, ())))
            except Refused:
                continue
        telling = [value for value in values if not any(_has(text, value) for text in others)]
        if not telling:
            raise NotMeasured("the solution has no value of three characters that other tasks do not show")
        leaked = [value for value in telling if _has(beginning, value)]
        found = [f"what is seen first contains the solution ({len(leaked)} values)"] if len(leaked) == len(telling) else []
        return found, {"values": len(telling), "shown": len(leaked)}


def _texts(answers: list[dict[str, Any]]) -> str:
    """Return all texts of answers in lines, without lists of choices."""

    def kept(value: object) -> object:
        if isinstance(value, dict):
            return {name: kept(child) for name, child in value.items()}
        if isinstance(value, list):
            return (
                [] if len(value) > 1 and all(isinstance(child, str) for child in value) else [kept(child) for child in value]
            )
        return value

    return "\n".join(text for answer in answers for text in leaves(kept(answer)))


def _has(text: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None
