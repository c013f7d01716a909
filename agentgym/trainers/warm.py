"""The warm start: imitation of expert episodes with mistakes in them, in the agent's exact tokens."""

import math
from collections.abc import Sequence
from typing import Any

from agentgym.agents.demonstrator import Demonstrator
from agentgym.agents.players import Noise
from agentgym.core import Task
from agentgym.episode import Episode
from agentgym.rollout import acollect
from agentgym.seeding import derive
from agentgym.trainers.config import TrainConfig


async def demonstrate(agent: Any, config: TrainConfig, tasks: Sequence[Task], step: int) -> list[Episode]:
    """Play the expert on tasks, with the noise of the recipe, in the tokens the agent would see."""
    noise = Noise(random=config.warm_noise, invalid=config.warm_invalid, forget=config.warm_forget)
    player = Demonstrator(agent, noise)
    episodes = await acollect(
        player,
        config.env,
        tasks=tasks,
        seed=derive("demonstrate", config.seed, step),
        concurrency=len(tasks),
        env_options=config.env_options,
    )
    return [episode for episode in episodes if not episode.fault]


def schedule(step: int, steps: int) -> float:
    """Return the share of the peak learning rate: a short rise, then a cosine to a tenth."""
    rise = max(1, steps // 50)
    if step < rise:
        return (step + 1) / rise
    return 0.55 + 0.45 * math.cos(math.pi * (step - rise) / max(1, steps - rise))
