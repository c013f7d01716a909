"""What a step of training amounts to, in one flat row of numbers."""

from typing import Any

import numpy as np

from agentgym.episode import Episode, Group


def played(episodes: list[Episode]) -> dict[str, Any]:
    """Return what the episodes of a step amount to."""
    scored = [e for e in episodes if not e.fault]
    return {
        "success_train": mean([float(e.success is True) for e in scored]),
        "reward": mean([e.reward for e in scored]),
        "turns": mean([len(e.turns) for e in scored]),
        "valid": mean([float(t.valid) for e in scored for t in e.turns]),
        "faults": len(episodes) - len(scored),
    }


def shares(episodes: list[Episode], world: float, rollout: float, update: float) -> dict[str, float]:
    """Return throughput and where the time of a step went."""
    whole = rollout + update
    return {
        "tokens_per_second": sum(t.sampled for e in episodes for t in e.turns) / whole,
        "share_env": world / whole,
        "share_rollout": (rollout - world) / whole,
        "share_train": update / whole,
    }


def merged(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the metrics of all processes as one: sums of what is counted, means of the rest."""
    counted = ("groups_dropped", "episodes", "faults", "tokens_per_second")
    names = dict.fromkeys(name for row in rows for name in row)
    values = {name: [row[name] for row in rows if name in row] for name in names}
    return {name: sum(v) if name in counted else float(np.mean(v)) for name, v in values.items()}


def uniform(group: Group) -> bool:
    """Return whether all episodes of a group were paid the same."""
    return len({episode.reward for episode in group}) == 1


def mean(values: list[Any]) -> float:
    """Return the mean; nan of nothing."""
    return float(np.mean(values)) if values else float("nan")
