"""The warm start: imitation of expert episodes with mistakes in them, in the agent's exact tokens."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from agentgym.agents.demonstrator import Demonstrator
from agentgym.agents.players import Noise
from agentgym.core import Task
from agentgym.episode import Episode
from agentgym.rollout import acollect
from agentgym.seeding import derive
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.muon import Muon


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


def optimizers(model: Any, config: TrainConfig) -> list[Any]:
    """Return the optimizers of the warm start: Muon for the matrices inside the layers, AdamW for the rest."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if not config.warm_muon:
        return [torch.optim.AdamW([p for _, p in named], lr=config.warm_lr, weight_decay=0.0, foreach=True)]
    inner = [p for name, p in named if p.ndim == 2 and "embed" not in name and "lm_head" not in name]
    chosen = {id(p) for p in inner}
    rest = [p for _, p in named if id(p) not in chosen]
    muon = Muon([{"params": inner, "share": 5.0}], lr=5 * config.warm_lr)
    return [muon, torch.optim.AdamW(rest, lr=config.warm_lr, weight_decay=0.0, foreach=True)]
