"""A run that is about to be started, for the `check(run)` of a seam."""

from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.run.stages import FreshRun, Stages


def fresh(config: TrainConfig) -> FreshRun:
    """Return the run of a configuration, its stages not looked at yet."""
    return FreshRun(config, Stages(config))
