"""Training: credit, segments, losses and the loop. Importing this package does not import torch."""

import importlib
from typing import Any

_LAZY = {
    "TrainConfig": "agentgym.trainers.config.train_config",
    "train": "agentgym.trainers.loop",
    "resume": "agentgym.trainers.loop",
    "Generation": "agentgym.trainers.generation.interface",
    "Learner": "agentgym.trainers.learners.interface",
    "LocalLearner": "agentgym.trainers.learners.local",
    "Tokens": "agentgym.trainers.losses.policy",
    "UpdateResult": "agentgym.trainers.learners.updates",
    "Branch": "agentgym.rollout.branched",
    "GroupInProgress": "agentgym.rollout.branched",
    "Sampler": "agentgym.trainers.samplers.interface",
    "build": "agentgym.trainers.data.segments",
    "load_policy": "agentgym.trainers.model.policy",
    "save_policy": "agentgym.trainers.model.policy",
    "init_policy": "agentgym.trainers.model.policy",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
