"""A credit that keeps a state between steps: `--credit examples.stages.best_so_far:best_so_far`."""

import agentgym


@agentgym.credit("best_so_far")
def best_so_far(group, *, state: dict, share: float = 0.5):
    """Credit every turn with the reward minus a share of the best reward that this process has seen."""
    state["best"] = max(state.get("best", 0.0), *(float(episode.reward) for episode in group))
    return [[e.reward - share * state["best"]] * len(e.turns) for e in group]
