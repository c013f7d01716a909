"""A selection: groups with a success rate between two bounds, from twice as many tasks."""

from typing import Annotated

import agentgym
from agentgym.trainers.seam import Within


@agentgym.select("between")
def between(
    groups, *, low: Annotated[float, Within(0, 1)] = 0.1, high: Annotated[float, Within(0, 1)] = 0.9, oversample=2.0, state
):
    chosen = [group for group in groups if low <= sum(bool(e.success) for e in group) / len(group) <= high]
    state["left_out"] = state.get("left_out", 0) + len(groups) - len(chosen)
    return chosen
