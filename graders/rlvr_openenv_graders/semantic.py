"""Rewards: the solution earns the most, doing nothing and canaries earn the least, and the same state earns the same."""

import json
from typing import Any

from openenv.validation.graders import Subject
from openenv.validation.types import Level

from rlvr_openenv_graders.base import NotMeasured, ServedGrader
from rlvr_openenv_graders.oracle import read, solved
from rlvr_openenv_graders.wire import Refused, Served, difference, rewards

IDLE = 3
"""Harmless actions of an episode that does nothing."""
AGAIN = 5
"""Times that one state is judged."""
ROUNDING = 1e-9
DETERMINISM = ("runtime.startup", "runtime.episode_determinism")


class OracleMax(ServedGrader):
    """The solved state is paid the maximum of the declared range, less the declared tolerance."""

    check_id = "semantic.oracle_max"
    level = Level.SEMANTIC
    depends_on = DETERMINISM
    remediation = "Declare capabilities.oracle, and let the verifier pay its state the maximum of reward.range."

    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Set the solved state; where the reset pays nothing, take one harmless action."""
        reset = solved(served, subject)
        if reset is None:
            return ["the package declares no oracle"], {}
        declared = subject.manifest.reward
        least = declared.range[1] - declared.oracle_tolerance
        reward = judged(served, reset)
        if reward is None:
            return ["the server refuses the solved state, or pays no number for it"], {"least": least}
        found = [] if reward >= least - ROUNDING else [f"the solved state is paid {reward}"]
        return found, {"oracle_reward": reward, "least": least}


class FloorGap(ServedGrader):
    """An episode that does nothing is paid at least the declared margin less than the maximum."""

    check_id = "semantic.floor_gap"
    level = Level.SEMANTIC
    depends_on = DETERMINISM
    remediation = "Pay nothing for the first state and for actions that do nothing; look for conditions that are always met."

    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Play a few harmless actions, and compare what they were paid."""
        declared = subject.manifest.reward
        floor = measured_floor(served)
        gap = declared.range[1] - floor
        found = [] if gap >= declared.floor_margin - ROUNDING else [f"doing nothing is paid {floor}; the gap is {gap}"]
        return found, {"measured_floor": floor, "declared_margin": declared.floor_margin}


class CanaryFloor(ServedGrader):
    """No canary of the package is paid more than doing nothing.

    The file is a list of `{"name", "reset": {…}, "actions": [{…}]}`.
    """

    check_id = "semantic.canary_floor"
    level = Level.SEMANTIC
    requires_capabilities = frozenset({"canaries"})
    depends_on = DETERMINISM
    remediation = "Find out why the verifier pays an episode that solves nothing; text that an agent wrote is no evidence."

    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Play each."""
        listed = read(subject.root, str(subject.manifest.capabilities.canaries))
        if not isinstance(listed, list) or not listed or not all(isinstance(one, dict) for one in listed):
            raise NotMeasured("the canaries are no list of {name, reset, actions}")
        floor, paid, found = measured_floor(served), dict[str, float](), list[str]()
        for place, canary in enumerate(listed):
            name = str(canary.get("name") or place)[:80]
            reset = {key: value for key, value in (canary.get("reset") or {}).items() if key != "injected_state"}
            answers = served.episode(served.arguments(**reset), canary.get("actions") or [])
            paid[name] = max([0.0, *rewards(answers)] if floor >= 0 else rewards(answers) or [floor])
            if paid[name] > max(floor, 0.0) + ROUNDING:
                found.append(f"the canary {name!r} is paid {paid[name]}; doing nothing is paid {floor}")
        return found, {"measured_floor": floor, "paid": paid}


class VerifierDeterminism(ServedGrader):
    """The same state is paid the same each time it is judged: the solved one, and those of the public plan."""

    check_id = "semantic.verifier_determinism"
    level = Level.SEMANTIC
    depends_on = ("runtime.startup",)
    remediation = "Let the reward depend on the state alone: no clock, no chance, no count of evaluations."

    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Judge each several times."""
        found, measured = list[str](), dict[str, Any]()
        plays = [rewards(served.episode()) for _ in range(AGAIN)]
        if any(play != plays[0] for play in plays):
            found.append("the public plan is paid differently from time to time")
            measured["plan"] = plays
        try:
            reset = solved(served, subject)
        except NotMeasured:
            reset = None
        if reset is not None:
            measured["oracle"] = [judged(served, reset) for _ in range(AGAIN)]
            if len(set(measured["oracle"])) > 1:
                found.append(f"the solved state is paid {measured['oracle']}")
        return found, measured


class Replayability(ServedGrader):
    """What the validator recorded leads to the same answers when its requests are sent again."""

    check_id = "semantic.replayability"
    level = Level.SEMANTIC
    depends_on = DETERMINISM
    remediation = (
        "Let a recorded episode (arguments of reset, actions) be played again at any time: serve no task once only."
    )

    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Send the recorded requests in a new session, and compare all answers."""
        evidence = subject.runtime_evidence
        if evidence is None or evidence.failure_reason or not evidence.exchanges:
            raise NotMeasured("the validator recorded no whole episode")
        requests = [json.loads(row.request_json) for row in evidence.exchanges]
        answers = [json.loads(row.response_json)["data"] for row in evidence.exchanges]
        again = list[dict[str, Any]]()
        with served.session() as wire:
            for request in requests:
                data = request.get("data") or {}
                kind = request["type"]
                again.append(wire.state() if kind == "state" else wire.step(data) if kind == "step" else wire.reset(**data))
        where = difference(answers, again)
        return [f"the recorded episode played again: {where}"] if where else [], {"exchanges": len(requests)}


def judged(served: Served, reset: dict[str, Any]) -> float | None:
    """Return what a state is paid: with the reset that sets it, or else with the step after it.

    None if the server refuses the state or pays no number: `semantic.oracle_max` finds that, and no other check does.
    """
    with served.session() as wire:
        try:
            answer = wire.reset(**reset)
            paid = rewards([answer])
            if not paid and answer.get("done") is not True:
                paid = rewards([wire.step(served.idle())])
        except Refused:
            return None
    return paid[-1] if paid else None


def measured_floor(served: Served) -> float:
    """Return the most that an episode of harmless actions is paid at once; a server may refuse them, which pays nothing."""
    with served.session() as wire:
        answer = wire.reset(**served.arguments())
        paid = rewards([answer])
        for _ in range(IDLE):
            if answer.get("done") is True:
                break
            try:
                answer = wire.step(served.idle())
            except Refused:
                break
            paid += rewards([answer])
    return max(paid, default=0.0)
