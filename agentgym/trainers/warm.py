"""The warm start: imitation of expert episodes with mistakes in them, in the agent's exact tokens."""

import math
from collections.abc import Sequence
from typing import Any

from agentgym.agents.demonstrator import Demonstrator
from agentgym.agents.players import Noise
from agentgym.episode import Episode
from agentgym.rollout import acollect
from agentgym.seeding import derive
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.draws import Draw

MOST_LOST = 0.02
"""Largest share of the demonstrations that may be lost to faults."""


async def demonstrate(agent: Any, config: TrainConfig, draws: Sequence[Draw], step: int) -> list[Episode]:
    """Play the expert on tasks, with the noise of the recipe, in the tokens the agent would see; faults are among them."""
    noise = Noise(random=config.warm_noise, invalid=config.warm_invalid, forget=config.warm_forget)
    return await acollect(
        Demonstrator(agent, noise),
        config.env,
        tasks=[draw.task for draw in draws],
        repeats=[draw.epoch for draw in draws],
        seed=derive("demonstrate", config.seed, step),
        concurrency=len(draws),
        env_options=config.env_options,
        workers=config.workers,
        step_seconds=config.step_seconds,
    )


def too_many_lost(lost: int, shown: int, config: TrainConfig) -> bool:
    """Whether more demonstrations than `MOST_LOST` ended in a fault, of those shown so far (judged as 50 where they are
    fewer and more will come)."""
    return lost > MOST_LOST * max(shown, min(config.warm_episodes, 50))


def schedule(step: int, steps: int) -> float:
    """Return the share of the peak learning rate: a short rise, then a cosine to a tenth."""
    rise = max(1, steps // 50)
    if step < rise:
        return (step + 1) / rise
    return 0.55 + 0.45 * math.cos(math.pi * (step - rise) / max(1, steps - rise))
