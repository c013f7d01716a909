"""The reward stage: what is paid beside the environment's own reward, by functions over whole episodes."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig, Fault
from agentgym.trainers.stages.needs import finished
from agentgym.trainers.stages.seams import Seam, Stage, Target, shared_out

REWARDS = Seam("reward", {})

Parts = Mapping[str, float | Sequence[float]]
"""By name, what an episode is paid: a number, paid in its last turn, or one a turn."""


def reward(name: str) -> Callable[[Target], Target]:
    """Declare a function `(episodes, *, options) -> named parts of each`, async or not, and give it a short name.

    It sees the episodes that are no faults and returns, for each, a mapping from names to what is paid, or a `Fault`
    where it could not judge: the episode is then a fault, which is never trained on. Keyword-only parameters are its
    options; `step`, `state` and `run` are handed in. Whether an episode succeeded stays the environment's word.
    """
    return REWARDS.declare(name)


def resolve_rewards(names: Sequence[str], options: Mapping[str, Any]) -> list[Stage]:
    """Return the reward stages of a run; an option belongs to the one that has it."""
    if len(set(names)) < len(names):
        raise BadConfig(f"reward is {', '.join(names)}; expected each name once")
    bare = [REWARDS.looked_up(name) for name in names]
    if options and not bare:
        raise BadConfig(f"reward.{next(iter(options))} does nothing without a reward: give --reward NAME")
    own = shared_out("reward", bare, options)
    return [REWARDS.resolve(name, own[stage.name]) for name, stage in zip(names, bare, strict=True)]


async def pay(episodes: Sequence[Episode], stages: Sequence[Stage], *, step: int, run: Any) -> None:
    """Add to each episode what the stages pay, one stage after another; what is paid stands in its turns' `rewards`."""
    for stage in stages:
        judged = [episode for episode in episodes if not episode.fault and episode.turns]
        parts = cast("Sequence[Any]", await finished(stage(judged, step=step, run=run)))
        if len(parts) != len(judged):
            raise BadConfig(f"reward {stage.name!r} returned {len(parts)} results for {len(judged)} episodes")
        for episode, paid in zip(judged, parts, strict=True):
            if isinstance(paid, Fault):
                episode.reason, episode.success, episode.error = paid.reason, None, f"reward {stage.name!r}: {paid}"
            else:
                _add(episode, stage.name, paid)


def _add(episode: Episode, stage: str, parts: Parts) -> None:
    where = f"reward {stage!r}, task {episode.task_id!r}, attempt {episode.attempt}"
    for name, amount in parts.items():
        amounts = [0.0] * (len(episode.turns) - 1) + [amount] if isinstance(amount, int | float) else list(amount)
        if len(amounts) != len(episode.turns) or not all(math.isfinite(value) for value in amounts):
            raise BadConfig(
                f"{where}: {name} is {amount!r:.80}; expected a finite number, or one a turn ({len(episode.turns)})"
            )
        for turn, value in zip(episode.turns, amounts, strict=True):
            if value:
                turn.rewards = {**turn.rewards, name: turn.rewards.get(name, 0.0) + value}
                turn.reward += value
                episode.final_rewards[turn.role] = episode.final_rewards.get(turn.role, 0.0) + value
    episode.reward = sum((turn.reward for turn in episode.turns), 0.0)
