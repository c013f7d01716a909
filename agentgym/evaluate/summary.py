"""The numbers of a set of episodes, as plain JSON."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from agentgym.episode import Episode
from agentgym.evaluate.statistics import mean_pass_at_k, outcomes, success


def summarize(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return the results of all episodes, by world, and within each world by task type where tasks have one.

    Every row has `success` (mean, low, high, tasks, episodes, faults), `reward`, `turns`, `tokens` (sampled, an
    episode), `invalid` (share of turns), `pass_at` (by k, where every task had that many attempts), `reasons`
    (counts) and `metrics` (means). Faults enter `success.faults` and `reasons` only.
    """
    worlds: dict[str, Any] = {}
    for world in dict.fromkeys(episode.env for episode in episodes):
        mine = [episode for episode in episodes if episode.env == world]
        types = sorted({episode.labels["type"] for episode in mine if "type" in episode.labels})
        by_type = {name: _row([e for e in mine if e.labels.get("type") == name]) for name in types}
        worlds[world] = {**_row(mine), "by_type": by_type}
    return {**_row(episodes), "worlds": worlds}


def _row(episodes: Sequence[Episode]) -> dict[str, Any]:
    counted = [episode for episode in episodes if episode.success is not None]
    turns = [turn for episode in counted for turn in episode.turns]
    found = outcomes(counted)
    attempts = min((len(values) for values in found.values()), default=0)
    names = sorted({name for episode in counted for name in episode.metrics})
    return {
        "success": {name: _finite(value) for name, value in asdict(success(episodes)).items()},
        "reward": _mean(episode.reward for episode in counted),
        "turns": _mean(len(episode.turns) for episode in counted),
        "tokens": _mean(sum(len(turn.output_ids) for turn in episode.turns) for episode in counted),
        "invalid": _mean(not turn.valid for turn in turns),
        "pass_at": {str(k): mean_pass_at_k(found, k) for k in (1, 2, 4, 8, 16, 32, 64) if k <= attempts},
        "reasons": dict(Counter(episode.reason for episode in episodes).most_common()),
        "metrics": {name: _mean(e.metrics[name] for e in counted if name in e.metrics) for name in names},
    }


def _mean(values: Iterable[float]) -> float | None:
    drawn = [float(value) for value in values]
    return _finite(math.fsum(drawn) / len(drawn)) if drawn else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
