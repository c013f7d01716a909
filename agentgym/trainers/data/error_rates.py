"""Error rates of a verifier, estimated during a run."""

RECHECKED = "tinyv"
"""Key of `turn.extra` in an episode's last turn: True if the reward `tinyv` found a rejected answer right, else False."""


def false_negative_rate(state: dict[str, float], accepted: float, overturned: float, decay: float) -> float | None:
    """Add a step's counts to `state` and return the share of right answers that a verifier rejected.

    `accepted`: right answers that the verifier accepted. `overturned`: right answers that it rejected. The rate is
    overturned / (overturned + accepted), where a step that is n steps old counts with weight `decay`^n; it is None if no
    right answer counts.
    """
    state["accepted"] = decay * state.get("accepted", 0.0) + accepted
    state["overturned"] = decay * state.get("overturned", 0.0) + overturned
    correct = state["accepted"] + state["overturned"]
    return state["overturned"] / correct if correct else None
