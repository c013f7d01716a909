"""A small model with adapters."""

from dataclasses import replace

import torch
from tiny_rows import tiny_model

from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.model.lora import add_adapters


def config(**changes):
    return replace(TrainConfig(model="some/where", lora_rank=4, lora_alpha=8), **changes)


def adapted(seed=0, fill=True, moe=False, **changes):
    model = tiny_model(seed, moe)
    torch.manual_seed(seed + 1)
    add_adapters(model, config(**changes))
    if fill:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(std=0.2)
    return model
