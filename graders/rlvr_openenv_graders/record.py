"""The record of an episode that a server keeps itself, in its state, against what was sent and answered."""

from collections.abc import Mapping, Sequence
from typing import Any

from openenv.validation.graders import Subject

from rlvr_openenv_graders.base import NotMeasured, ServedGrader
from rlvr_openenv_graders.wire import Object, Served

FIELDS = ("trajectory", "trajectory_record")
"""Fields of a state that hold a record: a list of `{"action", "reward", "done"}`, one entry a step."""


class TrajectoryRecord(ServedGrader):
    """The record in the state has one entry for each step, with its action, reward and end, and nothing of other episodes.

    A server without a record is not judged: OpenEnv 0.10.0 asks for none.
    """

    check_id = "runtime.trajectory_record"
    remediation = (
        "Append one entry for each step, with the action as received and the reward and done as sent; clear it in reset."
    )

    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Play the plan after another episode of its session, and read the record after each message."""
        with served.session() as wire:
            other = served.episode(served.arguments(seed=served.plan.reset.seed ^ 1), wire=wire)
            answers = served.episode(wire=wire)
        field = next((name for name in FIELDS if any(_is_record(state.get(name)) for state in other[1::2])), None)
        if field is None:
            raise NotMeasured(f"no state has a record: a field {' or '.join(FIELDS)} with a list of action, reward and done")
        found = list[str]()
        for number, state in enumerate(answers[1::2]):
            record = state.get(field)
            entries = record if isinstance(record, list) else []
            steps = [entry for entry in entries if not isinstance(entry, dict) or entry.get("action") is not None]
            if len(steps) != number:
                found.append(f"after step {number} the record has {len(steps)} steps")
                continue
            for place, (entry, action) in enumerate(zip(steps, served.plan.actions, strict=False), 1):
                found += [f"after step {number}, entry {place}: {why}" for why in _wrong(entry, action, answers[2 * place])]
        return list(dict.fromkeys(found)), {"field": field, "steps": len(answers) // 2 - 1}


def _is_record(value: object) -> bool:
    """Return True for a list with an entry of a step; an empty list shows nothing."""
    return isinstance(value, list) and any(isinstance(entry, dict) and "action" in entry for entry in value)


def _wrong(entry: object, action: Mapping[str, Any], answer: Object) -> Sequence[str]:
    """Return what an entry says otherwise than what was sent and answered."""
    if not isinstance(entry, dict):
        return [f"it is {str(entry)[:40]!r}, no object"]
    noted = entry.get("action")
    sent = noted if not isinstance(noted, dict) else {name: noted.get(name) for name in action}
    found = [] if sent == dict(action) else [f"the action is {str(noted)[:60]}; {str(dict(action))[:60]} was sent"]
    for name, plain in (("reward", None), ("done", False)):
        if entry.get(name, plain) != answer.get(name, plain):
            found.append(f"{name} is {str(entry.get(name))[:40]}; {str(answer.get(name))[:40]} was answered")
    return found
