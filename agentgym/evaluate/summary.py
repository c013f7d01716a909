"""Summary of a set of episodes as plain JSON."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agentgym.episodes.confidence import calibration
from agentgym.episodes.episode import Episode, fault_share, unhinted
from agentgym.episodes.usage import output_tokens
from agentgym.evaluate.aggregates import (
    THRESHOLDS,
    Aggregate,
    interquartile_interval,
    profile_intervals,
    score_table,
)
from agentgym.evaluate.attempts import avg_at_k, mean_over_tasks, pass_at_k, pass_hat_k, useful_ks
from agentgym.evaluate.replies import finishes
from agentgym.evaluate.spending import Price, requests, spending
from agentgym.evaluate.statistics import Outcomes, outcomes, success

MEASURES = {"avg_at": avg_at_k, "pass_at": pass_at_k, "pass_hat": pass_hat_k}


def summarize(episodes: Sequence[Episode], price: Price | None = None) -> dict[str, object]:
    """Return the results of all episodes, by environment, and within each environment by task type and difficulty.

    Every row has `success` (mean, low, high, tasks, episodes, faults), `fault_share`, and means over episodes: `reward`,
    `turns`, `tokens` (sampled; only over episodes with known counts) and `seconds` (of turns); `invalid` and
    `unparsed` (shares of turns); `replies` (number) and `finish` (shares of replies by finish reason); `usage`, `cost`,
    `latency` and `uncounted` (see `spending`); `avg_at`, `pass_at`, and `pass_hat` (by k, if every task had that many
    attempts), `reasons` (counts) and `metrics` (means); if replies state a confidence, `calibration` (see
    `agentgym.episodes.confidence`). The rows of all episodes and of environments also have `iqm` and `profile`
    (`agentgym.evaluate.aggregates`; None without a complete attempt). Faults count only in `success.faults`,
    `fault_share`, `reasons` and the entries of `spending`. Episodes with a hint, which come from training, never count.
    """
    episodes = unhinted(episodes)
    envs: dict[str, object] = {}
    for env in dict.fromkeys(episode.env for episode in episodes):
        mine = [episode for episode in episodes if episode.env == env]
        types = sorted({episode.labels["type"] for episode in mine if "type" in episode.labels})
        by_type = {name: _row([e for e in mine if e.labels.get("type") == name], price) for name in types}
        levels = sorted({episode.labels["difficulty"] for episode in mine if "difficulty" in episode.labels}, key=level)
        by_difficulty = {name: _row([e for e in mine if e.labels.get("difficulty") == name], price) for name in levels}
        envs[env] = {**_row(mine, price), **_aggregated(mine), "by_type": by_type, "by_difficulty": by_difficulty}
    return {**_row(episodes, price), **_aggregated(episodes), "envs": envs}


def level(difficulty: str) -> tuple[int, str]:
    """Return the sort key of a difficulty, which orders numbers by value."""
    return (int(difficulty) if difficulty.isdecimal() and len(difficulty) < 19 else 0, difficulty)


def divided(row: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return labeled rows: an environment's task types, and its difficulties if there are several."""
    levels: Mapping[str, Mapping[str, Any]] = row["by_difficulty"] if len(row["by_difficulty"]) > 1 else {}
    return [*row["by_type"].items(), *((f"difficulty {name}", part) for name, part in levels.items())]


def _row(episodes: Sequence[Episode], price: Price | None) -> dict[str, object]:
    counted = [episode for episode in episodes if episode.success is not None]
    turns = [turn for episode in counted for turn in episode.turns]
    by_task = outcomes(counted)
    names = sorted({name for episode in counted for name in episode.metrics})
    return {
        "success": {name: _finite(value) for name, value in asdict(success(episodes)).items()},
        "fault_share": fault_share(episodes),
        "reward": _mean(episode.reward for episode in counted),
        "turns": _mean(len(episode.turns) for episode in counted),
        "tokens": _mean(tokens for episode in counted if (tokens := _sampled(episode)) is not None),
        "seconds": _mean(math.fsum(turn.seconds for turn in episode.turns) for episode in counted),
        "invalid": _mean(not turn.valid for turn in turns),
        "unparsed": _mean(not turn.parsed for turn in turns),
        **_finish(counted),
        **spending(episodes, price),
        **_by_k(by_task),
        "reasons": dict(Counter(episode.reason for episode in episodes).most_common()),
        **({"calibration": stated} if (stated := calibration(counted)) else {}),
        "metrics": {name: _mean(e.metrics[name] for e in counted if name in e.metrics) for name in names},
    }


def _sampled(episode: Episode) -> int | None:
    """Return the tokens of an episode's replies, using the server's count where token ids are missing; None if uncounted."""
    if any(usage is None for _, usage in requests([episode])):
        return None
    return sum(output_tokens(turn.sampled, turn.extra) for turn in episode.turns)


def _finish(episodes: Sequence[Episode]) -> dict[str, object]:
    counts = finishes(episodes)
    total = sum(counts.values())
    return {"replies": total, "finish": {name: count / total for name, count in counts.items()} if total else {}}


def _by_k(by_task: Outcomes) -> dict[str, dict[str, float]]:
    ks = useful_ks(min((len(values) for values in by_task.values()), default=0))
    return {name: {str(k): mean_over_tasks(by_task, k, measure) for k in ks} for name, measure in MEASURES.items()}


def _aggregated(episodes: Sequence[Episode]) -> dict[str, object]:
    scores = score_table(episodes)
    if not scores.size:
        return {"iqm": None, "profile": None}
    runs, columns = scores.shape
    points = profile_intervals(scores)
    return {
        "iqm": {**_bounds(interquartile_interval(scores)), "runs": runs, "columns": columns},
        "profile": [{"above": above, **_bounds(point)} for above, point in zip(THRESHOLDS, points, strict=True)],
    }


def _bounds(aggregate: Aggregate) -> dict[str, float | None]:
    return {name: _finite(value) for name, value in asdict(aggregate).items()}


def _mean(values: Iterable[float]) -> float | None:
    drawn = [float(value) for value in values]
    return _finite(math.fsum(drawn) / len(drawn)) if drawn else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
