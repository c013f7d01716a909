"""The reward stage: functions over whole episodes that add rewards to the environment's own."""

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
            *(
                "calibration",
                "denoise",
                "evidence",
                "fewest_calls",
                "judge",
                "length",
                "noise",
                "patch_similarity",
                "query_diversity",
            ),
            *("repetition", "retry", "tinyv", "tool_calls", "ufo", "verif"),
        )
    },
    {"check": None, "reach": None, "fits": None},
)
MEASURES = "measures"
"""Key of a reward's state with numbers to log as `reward/NAME/KEY`, equal in all processes."""
SCHEDULE = "schedule"
"""Option that every reward with a `weight` has: the weight as a function of the step."""

Parts = Mapping[str, float | Sequence[float]]
"""Rewards of an episode by name: one number, paid in the last turn, or a sequence of one number per turn."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A weight that depends on the step: linear between points (step, weight), and constant outside of them."""

    points: tuple[tuple[int, float], ...]

    def at(self, step: int) -> float:
        """Return the weight at `step`; the first step is 0."""
        steps, weights = zip(*self.points, strict=True)
        return float(np.interp(step, steps, weights))


def reward(
    name: str,
    check: Callable[..., None] | None = None,
    reach: Callable[..., object] | None = None,
    fits: Callable[[TextEnv, str], None] | None = None,
) -> Callable[[Target], Target]:
    """Declare a function `(episodes, *, options) -> one mapping per episode`, async or not, and give it a short name.

    It gets the episodes without faults (in self-play, each role's view of them). For each episode it returns a mapping
    from names to rewards, or a `Fault` if it could not judge; the episode is then a fault and not trained on.
    Keyword-only parameters are its options, except `step`, `state` and `run`, which the run passes. An option `weight`
    can have a `schedule` over steps. A reward does not change the success of an episode: only the environment decides
    it.

    `check` is called with the options (except `weight`) when the reward is chosen. `reach`, async or not, is called
    with the same options before a run starts, to check servers. Both raise BadConfig if something cannot work. `fits`
    is called with each environment of a run and its name before anything is loaded, and raises BadConfig if the reward
    cannot judge that environment.
    """
    return REWARDS.declare(name, check=check, reach=reach, fits=fits)


def check(run: "FreshRun") -> None:
    """Check that the run pays its rewards and that they suit its environments.

    Raises:
        BadConfig: the run has no steps, or a reward does not suit an environment or fails on made-up episodes.
    """
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
    """Call the reward on made-up episodes and pay the result, unless it is a Fault.

    Raises:
        BadConfig: the result cannot be paid.
    """
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
    """Return the rewards `names` with their options; an option belongs to the reward that has a parameter of that name.

    Raises:
        UnknownName: there is no such reward.
        BadConfig: an option is unknown, invalid or without effect, or a name occurs twice.
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
    """Check that the servers and models that the rewards depend on are available.

    Raises:
        BadConfig: one of them is unavailable.
    """
    for stage in stages:
        if stage.attributes["reach"]:
            await finished(stage.attributes["reach"](**_values(stage)))


async def pay(episodes: Sequence[Episode], stages: Sequence[Stage], *, step: int, run: object) -> None:
    """Add the rewards of each stage to the episodes, in order; they appear by name in the turns' `rewards`.

    In an episode with several roles, each role is judged and paid by its own view of the episode. Episodes with a fault
    are not paid, and an episode becomes a fault if a stage returns a Fault for it.
    """
    for stage in stages:
        pairs = [(e, seen_by_role) for e in episodes if not e.fault and e.turns for seen_by_role in _as_seen(e)]
        for (episode, seen_by_role), paid in zip(
            pairs, await _parts(stage, [seen_by_role for _, seen_by_role in pairs], step, run), strict=True
        ):
            if isinstance(paid, Fault):
                episode.reason = paid.reason if paid.reason in FAULTS else "crash"
                episode.success, episode.error = None, f"reward {stage.name!r}: {paid}"
            else:
                _add(seen_by_role, stage.name, paid)
                episode.final_rewards |= seen_by_role.final_rewards
                episode.reward = sum((turn.reward for turn in episode.turns), 0.0)


def measures(stages: Sequence[Stage]) -> dict[str, float]:
    """Return the numbers that rewards have measured, by `reward/NAME/KEY`."""
    return {f"reward/{stage.name}/{key}": value for stage in stages for key, value in stage.state.get(MEASURES, {}).items()}


def _as_seen(episode: Episode) -> list[Episode]:
    """Return each role's view of an episode; if only one role moved, return the episode itself."""
    roles = dict.fromkeys(turn.role for turn in episode.turns)
    return [view(episode, role) for role in roles] if len(roles) > 1 else [episode]


async def _parts(stage: Stage, episodes: Sequence[Episode], step: int, run: object) -> Sequence[object]:
    """Return a stage's result for each episode. If the stage raises a Fault, return that Fault for all of them.

    Raises:
        EngineDead: an engine is permanently unavailable.
    """
    try:
        parts = await finished(_weighed(stage, step)(episodes, step=step, run=run))
    except EngineDead:
        raise
    except Fault as fault:
        return [fault] * len(episodes)
    return _counted(stage, parts, len(episodes))


def _weighed(stage: Stage, step: int) -> Stage:
    """Return the stage with the weight that its schedule has at `step`; unchanged without a schedule."""
    weight = stage.options.get("weight")
    return replace(stage, options={**stage.options, "weight": weight.at(step)}) if isinstance(weight, Schedule) else stage


def _counted(stage: Stage, parts: object, episodes: int) -> Sequence[object]:
    """Check that a stage returned one result per episode, and return them.

    Raises:
        BadConfig: it returned something else.
    """
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        raise BadConfig(f"reward {stage.name!r} returned {parts!r:.80}; expected a list with a mapping for each episode")
    results = cast("Sequence[object]", parts)
    if len(results) != episodes:
        raise BadConfig(f"reward {stage.name!r} returned {len(results)} results for {episodes} episodes")
    return results


def _add(episode: Episode, stage: str, parts: object) -> None:
    """Pay the parts of an episode. A part for the whole episode is recorded in the last turn even if it is 0.

    Raises:
        BadConfig: `parts` is not a mapping from names to finite numbers.
    """
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
    """Return the options of a stage, including defaults, without its weight."""
    return {name: stage.option(name, None) for name in options_of(stage.target) if name != "weight"}


def _scheduled(key: str, stages: Sequence[Stage]) -> Stage:
    """Return the stage whose weight a schedule controls.

    Raises:
        BadConfig: no stage matches, or several do.
    """
    name = key.rpartition(".")[0]
    owners = [stage for stage in stages if name in ("", stage.name) and "weight" in options_of(stage.target)]
    if not owners:
        raise BadConfig(f"reward.{key} has no effect: no reward {name or 'of this run'} has a weight to follow it")
    if len(owners) > 1:
        names = " and ".join(stage.name for stage in owners)
        raise BadConfig(f"{key} could be for {names}; say which: --reward.{owners[0].name}.{SCHEDULE} VALUE")
    return owners[0]


def _points(key: str, value: Any) -> tuple[tuple[int, float], ...]:
    """Check the points of a schedule and return them as (step, weight) pairs.

    Raises:
        BadConfig: they are not pairs of increasing steps and weights.
    """
    message = (
        f"reward.{key} is {value!r:.80}; expected pairs of a step and a weight, the steps rising, for example "
        "[[0, 0], [100, 0.5]]"
    )
    try:
        points = tuple((step, float(weight)) for step, weight in value)
    except (TypeError, ValueError):
        raise BadConfig(message) from None
    steps = [step for step, _ in points]
    if not all(type(step) is int and step >= 0 for step in steps) or not steps or steps != sorted(set(steps)):
        raise BadConfig(message)
    return points
