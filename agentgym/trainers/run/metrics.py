"""Metrics of a training step, as one flat row of numbers."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from agentgym.core.outcome import Finish
from agentgym.episodes.episode import TRAINED, Episode, Group, groups, unhinted
from agentgym.trainers.credit.gigpo import ANCHORS, anchor_statistics
from agentgym.trainers.rewards.interface import measures

if TYPE_CHECKING:
    from agentgym.trainers.run.assemble import Run
    from agentgym.trainers.run.rollouts import Rollouts

SUMS = (
    *("groups", "groups_equal", "groups_alone", "groups_trained", "groups_dropped"),
    *("episodes", "faults", "hinted", "started", "tokens", "tokens_per_second"),
)
"""Metrics that are summed over processes, in addition to `COUNTED`."""
COUNTED = ("branched_episodes", "branched_tokens", "branched_turns_shared", "branched_lost")
LIMIT = 20.0
"""Limit of the absolute log-ratio, so that exp stays finite."""


class Clock:
    """Stopwatch of a step; it starts when it is created."""

    def __init__(self, rollouts: "Rollouts") -> None:
        self._rollouts, self._before = rollouts, rollouts.seconds
        self.started = self._rolled = time.perf_counter()

    def rollout_ends(self) -> None:
        """Record the end of the rollout and the start of the update."""
        self.in_envs, self._rolled = self._rollouts.seconds - self._before, time.perf_counter()

    def shares(self, episodes: list[Episode]) -> dict[str, float]:
        """Return throughput and the shares of the step's time; the update ends at this call."""
        return shares(episodes, self.in_envs, self._rolled - self.started, time.perf_counter() - self._rolled)


class Mean(NamedTuple):
    """Numerator and denominator of a mean; `merged` sums both over processes before dividing."""

    total: float
    number: int


def played(episodes: list[Episode]) -> dict[str, Any]:
    """Return the metrics of a step's episodes in this process.

    Rates and means are over whole episodes: from the beginning of the task, not branched, without a hint. Episodes with
    a hint, and episodes that began inside a demonstration, have separate success rates. `cut`: the share of the model's
    calls that ended at the token limit; `reply_tokens`: the mean number of tokens in a reply.
    """
    faultless = [e for e in episodes if not e.fault]
    scored, hinted = unhinted(whole(episodes)), [e for e in faultless if e.hint is not None]
    started = [e for e in faultless if e.started and not e.forks]
    turns = [turn for episode in scored for turn in episode.turns]
    calls = [call for turn in turns for call in turn.calls if call.output_ids]
    others: dict[str, Any] = {}
    for name, subset in (("hinted", hinted), ("started", started)):
        if subset:
            others |= {f"success_{name}": Mean(sum(e.success is True for e in subset), len(subset)), name: len(subset)}
    if hinted:
        others["hint_level"] = Mean(sum(e.hint.level for e in hinted if e.hint), len(hinted))
    return {
        "success_train": Mean(sum(e.success is True for e in scored), len(scored)),
        "reward": Mean(sum(e.reward for e in scored), len(scored)),
        "turns": Mean(len(turns), len(scored)),
        "valid": Mean(sum(t.valid for t in turns), len(turns)),
        "parsed": Mean(sum(t.parsed for t in turns), len(turns)),
        "cut": Mean(sum(call.finish == Finish.LENGTH for call in calls), len(calls)),
        "reply_tokens": Mean(sum(len(call.output_ids) for call in calls), len(calls)),
        "faults": len(episodes) - len(faultless),
        **others,
    }


def whole(episodes: Sequence[Episode]) -> list[Episode]:
    """Return the episodes that measure the policy: faultless, from the beginning of the task, and not branched off."""
    return [episode for episode in episodes if not episode.fault and not episode.forks and not episode.started]


def signal(episodes: Sequence[Episode], selected: Sequence[Group]) -> dict[str, int]:
    """Return the numbers of groups with a faultless attempt: all, with equal rewards, with one attempt, trained, dropped."""
    every = groups(episodes)
    several = [group for group in every if len(group) > 1]
    return {
        "groups": len(every),
        "groups_equal": sum(len({episode.reward for episode in group}) == 1 for group in several),
        "groups_alone": len(every) - len(several),
        "groups_trained": len(selected),
        "groups_dropped": len(every) - len(selected),
    }


def branched(episodes: Sequence[Episode], lost: int) -> dict[str, Any]:
    """Return this process's metrics of a step's branches; `lost`: number of branches that could not start."""
    branched = [episode for episode in episodes if episode.forks]
    scored = [episode for episode in branched if not episode.fault]
    return {
        "branched_episodes": len(branched),
        "branched_tokens": sum(episode.sampled for episode in branched),
        "branched_turns_shared": sum(episode.shared for episode in branched),
        "branched_lost": lost,
        "branched_success": Mean(sum(e.success is True for e in scored), len(scored)),
    }


def shares(episodes: list[Episode], env: float, rollout: float, update: float) -> dict[str, float]:
    """Return throughput and the shares of a step's time; the times are in seconds, and `rollout` includes `env`."""
    total = rollout + update
    tokens = sum(e.sampled for e in episodes)
    return {
        "tokens": tokens,
        "tokens_per_second": tokens / total,
        "share_env": env / total,
        "share_rollout": (rollout - env) / total,
        "share_train": update / total,
    }


def mismatch(gaps: npt.NDArray[np.float32]) -> dict[str, float]:
    """Return the mismatch of engine and trainer under the same weights; {} without tokens.

    `gaps`, [tokens]: the trainer's minus the engine's log-probability; NaN for tokens that no engine sampled, which are
    left out. `mismatch_mean` and `mismatch_q999`: mean and 99.9 % quantile of |gap|. `mismatch_kl`: the k3 estimate of
    KL(engine || trainer). `mismatch_ess`: (sum w)^2 / (n * sum w^2) of the token weights w = exp(gap) before
    truncation, the effective share of tokens sampled by the trainer; 1 if nothing differs.
    """
    known = gaps[~np.isnan(gaps)].astype(np.float64)
    if not len(known):
        return {}
    size, clipped = np.abs(known), np.clip(known, -LIMIT, LIMIT)
    weights = np.exp(clipped)
    return {
        "mismatch_mean": float(size.mean()),
        "mismatch_q999": float(np.quantile(size, 0.999)),
        "mismatch_kl": float((np.expm1(clipped) - clipped).mean()),
        "mismatch_ess": float(weights.sum() ** 2 / (len(weights) * (weights**2).sum())),
    }


def merged(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the metrics of all processes: sums of counts, means over all episodes or turns, else means over processes.

    `versions_behind_most` is the maximum over the processes. A mean over nothing is nan.
    """
    counted = (*SUMS, *COUNTED)
    names = dict.fromkeys(name for row in rows for name in row)
    values = {name: [row[name] for row in rows if name in row] for name in names}
    joined: dict[str, Any] = {name: sum(v) if name in counted else _joined(v) for name, v in values.items()}
    return joined | {name: max(v) for name, v in values.items() if name == "versions_behind_most"}


def _joined(values: list[Any]) -> float:
    if isinstance(values[0], Mean):
        total, count = sum(value.total for value in values), sum(value.number for value in values)
        return total / count if count else float("nan")
    return mean([value for value in values if value == value])


def staleness(episodes: Sequence[Episode], version: int) -> dict[str, Any]:
    """Return the mean and maximum age of the tokens of faultless episodes, in policy versions from sampling to `version`."""
    calls = [call for episode in episodes if not episode.fault for turn in episode.turns for call in turn.calls]
    behind = [(version - call.policy_version, len(call.output_ids)) for call in calls if call.output_ids]
    total = Mean(sum(age * tokens for age, tokens in behind), sum(tokens for _, tokens in behind))
    return {"versions_behind": total, "versions_behind_most": max((age for age, _ in behind), default=0)}


def success_by_part(name: str, episodes: Sequence[Episode]) -> dict[str, Mean]:
    """Return the success rate per environment (NAME/ENV) and per role of self-play (NAME/ROLE or NAME/ENV/ROLE).

    Episodes with a hint do not count.
    """
    by_part: dict[str, Mean] = {}
    for episode in unhinted(whole(episodes)):
        env = f"{name}/{episode.labels['env']}" if "env" in episode.labels else name
        parts = {env: episode.success is True} if env != name else {}
        if len({turn.role for turn in episode.turns}) > 1:
            trained = episode.labels.get(TRAINED)  # the others are a frozen opponent's
            parts |= {f"{env}/{r}": success for r, success in episode.role_success.items() if trained in (None, r)}
        for key, success in parts.items():
            total, number = by_part.get(key, (0.0, 0))
            by_part[key] = Mean(total + success, number + 1)
    return by_part


def part_names(episodes: Sequence[Episode]) -> set[str]:
    """Return the names of the reward parts of faultless episodes."""
    return {name for episode in episodes if not episode.fault for turn in episode.turns for name in turn.rewards}


def parts(episodes: Sequence[Episode], names: Sequence[str]) -> dict[str, Mean]:
    """Return each reward part's mean per whole episode (see `whole`) as `reward/NAME`; a missing part counts as 0."""
    scored = whole(episodes)
    return {
        f"reward/{name}": Mean(sum(turn.rewards.get(name, 0.0) for e in scored for turn in e.turns), len(scored))
        for name in sorted(set(names))
    }


def step_row(
    step: int,
    selected: list[Group],
    episodes: list[Episode],
    clock: Clock,
    metrics: dict[str, float],
    run: "Run",
) -> dict[str, Any]:
    """Return the metrics of a step over all processes; every process must call it, right after the update."""
    row: dict[str, Any] = {**played(episodes), **signal(episodes, selected), "episodes": len(episodes)}
    row |= success_by_part("success_train", episodes) | clock.shares(episodes)
    if run.rollouts.grower:
        row |= branched(episodes, run.rollouts.grower.take_lost())
    if run.rewards:
        row |= parts(episodes, run.gather(sorted(part_names(episodes)))) | measures(run.rewards)
    anchor = str(run.credit.stage.option("anchor", ""))  # a user's credit may use this name differently
    row |= of_engine(run.learner.engine)
    statistics = anchor_statistics(selected, anchor if anchor in ANCHORS else "observation")
    row |= {name: Mean(*value) for name, value in statistics.items()} | metrics
    state = {**run.rollouts.measures(step), **run.sampler.measures(step)}  # the same in all processes
    own = {"lr": run.config.lr_at(step), **curriculum(state)}
    return {"step": step + 1, "phase": "rl", **merged(run.gather([row])), **own}


def curriculum(state: Mapping[str, float | Mapping[str, float]]) -> dict[str, float]:
    """Return measures of task sampler and horizon as `curriculum/NAME`; for several environments, `curriculum/NAME/ENV`."""
    row: dict[str, float] = {}
    for name, value in state.items():
        if not isinstance(value, Mapping):
            row[f"curriculum/{name}"] = value
        elif len(value) == 1:
            row[f"curriculum/{name}"] = next(iter(value.values()))
        else:
            row |= {f"curriculum/{name}/{env}": number for env, number in value.items()}
    return row


def of_engine(engine: Any) -> dict[str, Any]:
    """Return an engine's measurements since the last step; {} if the engine measures nothing."""
    values: dict[str, Any] = engine.measured() if hasattr(engine, "measured") else {}
    return {name: Mean(*value) if isinstance(value, tuple) else value for name, value in values.items()}


def first_fault(episodes: list[Episode]) -> str:
    """Return the last line of the first fault's error message; an empty string if no episode is a fault."""
    for episode in episodes:
        if episode.fault:  # an environment puts its reason in the turn
            message = episode.error or (episode.turns[-1].error if episode.turns else None) or episode.reason
            return message.strip().split("\n")[-1]
    return ""


def mean(values: Sequence[float]) -> float:
    """Return the mean; nan for an empty sequence."""
    return float(np.mean(values)) if values else float("nan")
