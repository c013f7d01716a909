"""Parts that a learner starts with: the policy's folder and the sampling engine."""

# accelerate is typed in parts only
# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

import asyncio
import os
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from agentgym.core.seeding import derive
from agentgym.engines.kinds import EngineRequirements
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.model.policy import init_policy, size_of
from agentgym.trainers.weights import sync


def policy_folder(accelerator: Accelerator, config: TrainConfig, run: Path) -> Path:
    """Return the folder of the model that a run starts from; `init` makes one in the run's own folder."""
    if config.model != "init":
        return Path(config.model)
    folder = run / "init"
    with accelerator.main_process_first():
        if accelerator.is_main_process:
            first, *others = config.mix
            beside = [(env.id, env.options) for env in others]
            size, number = size_of(config), config.policy_episodes
            init_policy(
                first.id,
                folder,
                env_options=first.options,
                size=size,
                episodes=number,
                seed=config.seed,
                beside=beside,
            )
    return folder


def engine(config: TrainConfig, folder: Path, model: Any, tokenizer: Any, device: torch.device) -> Any:
    """Return the sampling engine; a server with fixed weights must first score a text like the trainer's model.

    `device`: the device that this process computes on; the model may be elsewhere, for example before it is sharded.
    """
    kind = config.engine_kind
    kind.check_names(config.engine_options)
    target = config.engine.partition(":")[2] if kind.of_address else model if kind.in_process else str(folder)
    demand = EngineRequirements(
        config.concurrency,
        config.weight_transport,
        config.lora_rank,
        device=None if device.type == "cpu" else device.index or 0,
        processes=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        seed=derive("engine", config.seed, os.environ.get("RANK", "0")),
    )
    options = kind.run_options(demand, config.engine_options)
    loaded = kind.engine_class()(target, tokenizer=tokenizer, context=config.context_tokens or None, **options)
    if kind.served:
        asyncio.run(sync.prove(loaded, model, tokenizer))
    return loaded
