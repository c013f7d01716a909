"""One training step outside a run, on a given model and optimizers, for benchmarks and tests."""

# accelerate is typed in parts only
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from accelerate.utils import gather_object

from agentgym.episodes.episode import Group
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import Credit
from agentgym.trainers.learners.local import LocalLearner
from agentgym.trainers.learners.step import TrainedModel
from agentgym.trainers.loop import learn
from agentgym.trainers.losses.interface import resolve_loss
from agentgym.trainers.seam import Stage


class ModelLearner(LocalLearner):
    """A learner that updates a given model; the learning rates of its optimizers never change."""

    def __init__(self, trained: TrainedModel, config: TrainConfig) -> None:
        self.trained, self.config, self.accelerator = trained, config, trained.accelerator

    def _set_lr(self, step: int) -> None:
        """Do nothing, so that the optimizers keep their learning rates."""


@dataclass(frozen=True, slots=True)
class UpdateRun:
    """Stand-in for a run, with the attributes that `learn` reads."""

    config: TrainConfig
    learner: LocalLearner
    credit: Credit
    loss: Stage

    def gather(self, items: list[Any]) -> list[Any]:
        """Return the items of all processes."""
        return items if self.learner.accelerator.num_processes == 1 else gather_object(items)


def reinforce(
    trained: TrainedModel,
    groups: Sequence[Group],
    credit: Credit,
    config: TrainConfig,
    step: int,
    loss: Stage | None = None,
) -> dict[str, float]:
    """Update a model on groups as a step of a run does, and return the metrics; `loss` defaults to the configuration's."""
    return learn(UpdateRun(config, ModelLearner(trained, config), credit, loss or resolve_loss(config)), groups, step)
