"""The stages that a configuration names, resolved once and shared by preflight, planner and run."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agentgym import registry
from agentgym.core.env import TextEnv
from agentgym.errors import UnknownName, no_such
from agentgym.trainers.branching.interface import resolve_branching
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.credit.interface import Credit, resolve
from agentgym.trainers.generation.interface import GENERATIONS
from agentgym.trainers.learners.interface import resolve_learner
from agentgym.trainers.loggers.interface import resolve_loggers
from agentgym.trainers.losses.interface import resolve_loss
from agentgym.trainers.needs.interface import resolve_needs
from agentgym.trainers.rewards.interface import resolve_rewards
from agentgym.trainers.samplers.interface import SAMPLERS, TaskSource
from agentgym.trainers.seam import Stage
from agentgym.trainers.selections.interface import SELECTIONS

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig


@dataclass(frozen=True)
class Stages:
    """The stages of a configuration; each is resolved at its first access and then cached.

    Raises:
        UnknownName: a stage does not exist; the message has the closest name.
        BadConfig: an option is unknown or invalid.
    """

    config: "TrainConfig"
    """Configuration that names the stages and sets their options."""

    @cached_property
    def sampler(self) -> Stage:
        """The task sampler; call it with the task sources."""
        return SAMPLERS.resolve(self.config.sampler, self.config.sampler_options)

    @cached_property
    def generation(self) -> Stage:
        """The generation, which plays drawn episodes; call it with the run."""
        return GENERATIONS.resolve(self.config.generation, self.config.generation_options)

    @cached_property
    def branching(self) -> Stage | None:
        """The branching method, which chooses where episodes branch off from others; None if the run has none."""
        return resolve_branching(self.config)

    @cached_property
    def rewards(self) -> list[Stage]:
        """Reward stages, in addition to the environment's own reward."""
        return resolve_rewards(self.config.reward, self.config.reward_options)

    @cached_property
    def selection(self) -> Stage:
        """The selection of groups to train on."""
        return SELECTIONS.resolve(self.config.select, self.config.select_options)

    @cached_property
    def needs(self) -> list[Stage]:
        """Stages that compute the values that credit and loss need."""
        named = self.named_loss
        return resolve_needs((*self.credit.needs, *(named.attributes["needs"] if named else ())), self.config.needs_options)

    @cached_property
    def credit(self) -> Credit:
        """The credit, which turns rewards into advantages."""
        return resolve(self.config.credit, **self.config.credit_options)

    @property
    def named_loss(self) -> Stage | None:
        """The loss if the run names it or sets its options; None for the default loss, which imports torch.

        The default loss has no needs and nothing to check.
        """
        chosen = self.config.loss != type(self.config).loss or self.config.loss_options
        return self.loss if chosen else None

    @cached_property
    def loss(self) -> Stage:
        """The loss; built-in losses import torch."""
        return resolve_loss(self.config)

    @cached_property
    def learner(self) -> Stage:
        """The learner, which stores and updates the weights; built-in learners import torch."""
        return resolve_learner(self.config)

    @cached_property
    def loggers(self) -> list[Stage]:
        """Loggers in addition to the files in the run's folder."""
        return resolve_loggers(self.config.loggers, self.config.logger_options)


@dataclass(frozen=True)
class FreshRun:
    """A run that is about to start; every seam's `check(run)` inspects it before anything heavy is loaded."""

    config: "TrainConfig"
    stages: Stages

    @cached_property
    def envs(self) -> list[tuple[EnvSpec, TextEnv]]:
        """Each environment's spec, with splits filled in, and an instance for inspection."""
        made = [(spec, registry.make(spec.id, **spec.options)) for spec in self.config.mix]
        return [(_with_splits(spec, env), env) for spec, env in made]

    @cached_property
    def sources(self) -> list[TaskSource]:
        """Sources of training tasks, one per environment."""
        seed = self.config.seed
        return [TaskSource(env, seed, spec.train_split or "train", spec.name, spec.weight) for spec, env in self.envs]

    @property
    def tasks_repeat(self) -> bool:
        """True if a task may be drawn more than once; a sampler that a user wrote is assumed to repeat tasks."""
        return self.config.sampler not in SAMPLERS.table or any(source.finite for source in self.sources)


def _with_splits(spec: EnvSpec, env: TextEnv) -> EnvSpec:
    splits = list(env.splits)
    first = "train" if "train" in splits or env.split not in splits else splits[0]  # a file may have no training split
    named: dict[str, Any] = {
        "train_split": spec.train_split or first,
        "valid_split": spec.valid_split or splits[:2][-1],
        "test_split": spec.test_split or splits[-1],
    }
    for name, split in named.items():
        if split not in splits:
            raise UnknownName(no_such(f"split of {spec.id} ({name}):", split, splits))
    return replace(spec, **named)
