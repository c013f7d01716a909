"""The reward stage: rewards added to the environment's own, by functions over whole episodes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from agentgym.core.env import TextEnv
from agentgym.episodes.episode import FAULTS, Episode, view
from agentgym.errors import BadConfig, EngineDead, Fault
from agentgym.trainers.needs.interface import finished
from agentgym.trainers.run import trial
from agentgym.trainers.seam import Seam, Stage, Target, options_of, shared_out, unfolded

if TYPE_CHECKING:
    from agentgym.trainers.run.stages import FreshRun

REWARDS = Seam(
    "reward",
    {
        name: f"agentgym.trainers.rewards.{name}:{name}"
        for name in (
            *("calibration", "denoise", "evidence", "judge", "length", "noise", "patch_similarity", "query_diversity"),
            *("repetition", "retry", "tool_calls", "ufo"),
        )
    },
    {"check": None, "reach": None, "fits": None},
)
SCHEDULE = "schedule"
"""An option of every reward that has a `weight`."""

Parts = Mapping[str, float | Sequence[float]]
"""By name, what an episode is paid: a number, paid in its last turn, or one a turn."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A weight that follows the step: linear between points (step, weight), constant before the first and after the last."""

    points: tuple[tuple[int, float], ...]

    def at(self, step: int) -> float:
        """Return the weight at a step, counted from 0."""
        steps, weights = zip(*self.points, strict=True)
        return float(np.interp(step, steps, weights))


def reward(
    name: str,
    check: Callable[..., None] | None = None,
    reach: Callable[..., object] | None = None,
    fits: Callable[[TextEnv, str], None] | None = None,
) -> Callable[[Target], Target]:
    """Declare a function `(episodes, *, options) -> named parts of each`, async or not, and give it a short name.

    It sees the episodes that are no faults (in self-play, each role's view of them) and returns, for each, a mapping
    from names to what is paid, or a `Fault` where it could not judge: the episode is then a fault, which is never trained
    on. Keyword-only parameters are its options; `step`, `state` and `run` are handed in. An option `weight` may follow
    the step: `schedule` gives its points.
    Whether an episode succeeded stays the environment's word.

    `check` is called with the options (all but `weight`) whenever the reward is chosen, and `reach`, async or not, before a
    run is started; each raises BadConfig for what cannot work. `fits` is called with each environment of a run and its
    name, before anything is loaded, and raises BadConfig for one that the reward cannot judge.
    """
    return REWARDS.declare(name, check=check, reach=reach, fits=fits)


def check(run: "FreshRun") -> None:
    """Raise BadConfig where rewards would not be paid, or one of them is not for an environment of the run."""
    if run.stages.rewards and not run.config.steps:
        raise BadConfig(
            f"reward {run.stages.rewards[0].name!r} has no effect with steps = 0: rewards are paid in steps of "
            "reinforcement learning, not in an SFT warm start or an evaluation"
        )
    for stage in run.stages.rewards:
        if stage.attributes["fits"]:
            for spec, env in run.envs:
                stage.attributes["fits"](env, spec.name)
        trial.attempt(run, stage, lambda stage, alone, group: _try(stage, group.episodes, alone))


def _try(stage: Stage, episodes: Sequence[Episode], alone: trial.TrialRun) -> None:
    """Pay made-up episodes; BadConfig for what cannot be paid. A Fault is the reward's right."""
    try:
        parts = _weighed(stage, 0)(episodes, step=0, run=alone)
    except Fault:
        return
    if trial.awaited(parts):
        return
    for episode, paid in zip(episodes, _counted(stage, parts, len(episodes)), strict=True):
        if not isinstance(paid, Fault):
            _add(episode, stage.name, paid)


def resolve_rewards(names: Sequence[str], options: Mapping[str, object]) -> list[Stage]:
    """Return the reward stages of a run; an option belongs to the one that has it.

    Raises UnknownName or BadConfig, with the closest name, for what is unknown or would do nothing.
    """
    bare = [REWARDS.looked_up(name) for name in names]
    if len({stage.name for stage in bare}) < len(bare):
        raise BadConfig(f"reward is {', '.join(names)}; expected each name once")
    if options and not bare:
        raise BadConfig(f"reward.{next(iter(options))} has no effect without a reward: give --reward NAME")
    options = unfolded(options, {stage.name for stage in bare})
    schedules = {key: value for key, value in options.items() if key.rpartition(".")[2] == SCHEDULE}
    scheduled = {_scheduled(key, bare).name: _points(key, value) for key, value in schedules.items()}
    own = shared_out("reward", bare, {key: value for key, value in options.items() if key not in schedules})
    return [_resolved(name, own[stage.name], scheduled.get(stage.name)) for name, stage in zip(names, bare, strict=True)]


async def reach(stages: Sequence[Stage]) -> None:
    """Raise BadConfig where a reward leans on something that is not there, such as a server that does not answer."""
    for stage in stages:
        if stage.attributes["reach"]:
            await finished(stage.attributes["reach"](**_values(stage)))


async def pay(episodes: Sequence[Episode], stages: Sequence[Stage], *, step: int, run: object) -> None:
    """Add to each episode what the stages pay, one stage after another; what is paid stands in its turns' `rewards`.

    Of an episode in which several roles moved, each role is paid by its own view of it.
    """
    for stage in stages:
        pairs = [(e, seen) for e in episodes if not e.fault and e.turns for seen in _as_seen(e)]
        for (episode, seen), paid in zip(pairs, await _parts(stage, [seen for _, seen in pairs], step, run), strict=True):
            if isinstance(paid, Fault):
                episode.reason = paid.reason if paid.reason in FAULTS else "crash"
                episode.success, episode.error = None, f"reward {stage.name!r}: {paid}"
            else:
                _add(seen, stage.name, paid)
                episode.final_rewards |= seen.final_rewards
                episode.reward = sum((turn.reward for turn in episode.turns), 0.0)


def _as_seen(episode: Episode) -> list[Episode]:
    """Return an episode, or the views of it that the roles have which moved in it."""
    roles = dict.fromkeys(turn.role for turn in episode.turns)
    return [view(episode, role) for role in roles] if len(roles) > 1 else [episode]


async def _parts(stage: Stage, episodes: Sequence[Episode], step: int, run: object) -> Sequence[object]:
    """Return what a stage pays each episode; a Fault that it raises holds for all of them."""
    try:
        parts = await finished(_weighed(stage, step)(episodes, step=step, run=run))
    except EngineDead:
        raise
    except Fault as fault:
        return [fault] * len(episodes)
    return _counted(stage, parts, len(episodes))


def _weighed(stage: Stage, step: int) -> Stage:
    """Return a stage with the weight that its schedule says for a step."""
    weight = stage.options.get("weight")
    return replace(stage, options={**stage.options, "weight": weight.at(step)}) if isinstance(weight, Schedule) else stage


def _counted(stage: Stage, parts: object, episodes: int) -> Sequence[object]:
    """Return what a stage returned; BadConfig unless that is a result for each episode."""
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        raise BadConfig(f"reward {stage.name!r} returned {parts!r:.80}; expected a list with a mapping for each episode")
    results = cast("Sequence[object]", parts)
    if len(results) != episodes:
        raise BadConfig(f"reward {stage.name!r} returned {len(results)} results for {episodes} episodes")
    return results


def _add(episode: Episode, stage: str, parts: object) -> None:
    """Pay an episode; a part of a whole episode is noted also where it is 0."""
    where = f"reward {stage!r}, task {episode.task_id!r}, attempt {episode.attempt}"
    if not isinstance(parts, Mapping):
        raise BadConfig(f"{where}: returned {parts!r:.80}; expected a mapping from names to numbers, or a Fault")
    for name, amount in cast("Parts", parts).items():
        amounts = _amounts(f"{where}: {name}", amount, len(episode.turns))
        for turn, value in zip(episode.turns, amounts, strict=True):
            if value or turn is episode.turns[-1]:
                turn.pay(name, value)
                episode.final_rewards[turn.role] = episode.final_rewards.get(turn.role, 0.0) + value


def _amounts(what: str, amount: object, turns: int) -> list[float]:
    try:
        values = np.asarray(amount, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array([math.nan])
    amounts = [0.0] * (turns - 1) + [float(values)] if values.ndim == 0 else values.ravel().tolist()
    if isinstance(amount, str) or len(amounts) != turns or not all(map(math.isfinite, amounts)):
        raise BadConfig(f"{what} is {amount!r:.80}; expected a finite number, or one per turn ({turns})")
    return amounts


def _resolved(reference: str, options: Mapping[str, object], points: tuple[tuple[int, float], ...] | None) -> Stage:
    name = REWARDS.looked_up(reference).name
    if points is not None and "weight" in options:
        raise BadConfig(f"reward {name!r} has a weight and a schedule, which gives the weight: leave one out")
    for _, weight in points or ():  # within the bounds that the reward declares
        REWARDS.resolve(reference, {**options, "weight": weight})
    stage = REWARDS.resolve(reference, options if points is None else {**options, "weight": points[0][1]})
    if points is not None:
        stage.options["weight"] = Schedule(points)
    if not any(weight for _, weight in points or ((0, stage.option("weight", 1.0)),)):
        raise BadConfig(f"reward {name!r} has weight 0 and would pay nothing: leave it out of --reward")
    if stage.attributes["check"]:
        stage.attributes["check"](**_values(stage))
    return stage


def _values(stage: Stage) -> dict[str, Any]:
    """Return the options of a stage, those that were not given too, but for its weight."""
    return {name: stage.option(name, None) for name in options_of(stage.target) if name != "weight"}


def _scheduled(key: str, stages: Sequence[Stage]) -> Stage:
    """Return the stage whose weight a schedule is for."""
    name = key.rpartition(".")[0]
    owners = [stage for stage in stages if name in ("", stage.name) and "weight" in options_of(stage.target)]
    if not owners:
        raise BadConfig(f"reward.{key} has no effect: no reward {name or 'of this run'} has a weight to follow it")
    if len(owners) > 1:
        names = " and ".join(stage.name for stage in owners)
        raise BadConfig(f"{key} could be for {names}; say which: --reward.{owners[0].name}.{SCHEDULE} VALUE")
    return owners[0]


def _points(key: str, value: Any) -> tuple[tuple[int, float], ...]:
    """Return the points of a schedule as they were given, checked."""
    wrong = BadConfig(
        f"reward.{key} is {value!r:.80}; expected pairs of a step and a weight, the steps rising, for example "
        "[[0, 0], [100, 0.5]]"
    )
    try:
        points = tuple((step, float(weight)) for step, weight in value)
    except (TypeError, ValueError):
        raise wrong from None
    steps = [step for step, _ in points]
    if not all(type(step) is int and step >= 0 for step in steps) or not steps or steps != sorted(set(steps)):
        raise wrong
    return points
