"""A training run's configuration: the same for flags, TOML recipes and Python."""

import copy
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from agentgym.agents.phrases import ACT
from agentgym.agents.spec import NAMED, AgentSpec
from agentgym.engines.kinds import EngineKind, training_kind
from agentgym.errors import BadConfig
from agentgym.trainers.config import checks
from agentgym.trainers.config.settings import (
    AgentConfig,
    BranchingConfig,
    CreditConfig,
    EngineConfig,
    EnvSpec,
    EvalConfig,
    GenerationConfig,
    LearnerConfig,
    LoraConfig,
    LossConfig,
    ModelConfig,
    NeedsConfig,
    PolicyConfig,
    RewardConfig,
    RolloutSettings,
    SamplerConfig,
    SelectConfig,
    SFTConfig,
    TrackConfig,
)
from agentgym.trainers.learners.interface import kind_of
from agentgym.trainers.learners.kinds import LearnerKind

RANDOM_TASKS = 20
"""Maximum number of tasks per environment in the evaluation of random weights, which succeed almost never and play long."""
STATE = "trainer.pt"
"""Name of the file with the trainer's state in a checkpoint folder."""


@dataclass(frozen=True)
class TrainConfig(
    TrackConfig,
    EvalConfig,
    LearnerConfig,
    LossConfig,
    CreditConfig,
    NeedsConfig,
    SelectConfig,
    RewardConfig,
    GenerationConfig,
    RolloutSettings,
    BranchingConfig,
    SamplerConfig,
    SFTConfig,
    LoraConfig,
    AgentConfig,
    EngineConfig,
    PolicyConfig,
    ModelConfig,
):
    """A training run: the settings of every stage; this class inherits from the dataclass of each stage."""

    def __post_init__(self) -> None:
        checks.check(self)

    def with_found(self, **values: object) -> Self:
        """Return the run with values determined at its start (splits, the model's folder); they are not checked."""
        config = copy.copy(self)
        vars(config).update(values)
        return config

    @property
    def mix(self) -> tuple[EnvSpec, ...]:
        """The environments of the run: `envs`, or `env` alone; an environment without splits or a horizon gets the run's."""
        splits = {name: getattr(self, name) for name in ("train_split", "valid_split", "test_split")}
        if not self.envs:
            return (EnvSpec(self.env, options=self.env_options, horizon=self.horizon, **splits),)
        return tuple(
            dataclasses.replace(
                spec, horizon=spec.horizon or self.horizon, **{name: getattr(spec, name) or splits[name] for name in splits}
            )
            for spec in self.envs
        )

    @property
    def where(self) -> str:
        """Names of the training environments, for messages."""
        return ", ".join(env.name for env in self.mix)

    @property
    def spec(self) -> AgentSpec:
        """The built-in agent that plays the episodes, without its model."""
        values: dict[str, Any] = {name: getattr(self, name) for name in NAMED}
        return AgentSpec(prompt=self.prompt_asked, **values)

    @property
    def prompt_asked(self) -> str | None:
        """The requested prompt, or None for the agent's default.

        A policy made from scratch gets `bare` by default, except for the agent `completion`.
        """
        own_model = self.model == "init" or homemade(self.model)
        return self.prompt or ("bare" if own_model and self.agent != "completion" else None)

    @property
    def engine_kind(self) -> EngineKind:
        """Properties of the engine; with the default engine `hf`, those of the learner's server if it has one.

        Raises:
            UnknownName: a run cannot have this engine.
        """
        own = self.learner_kind.engine if self.engine == type(self).engine else None
        return own or training_kind(self.engine)

    @property
    def learner_kind(self) -> LearnerKind:
        """Properties of the learner."""
        return kind_of(self.learner)

    @property
    def served(self) -> bool:
        """True if a server samples and manages its own weights."""
        return self.engine_kind.served

    @property
    def differs(self) -> bool:
        """True if ratios use the trainer's own scores and each token is weighted by trainer / engine.

        With `old_logprobs = "auto"`, it is True if the engine computes differently from the trainer: an engine outside
        this process does, and so does the trainer's own model in bf16. Tokens of an earlier policy version do not
        matter: their ratio to the sampled log-probabilities is exact.
        """
        if self.old_logprobs != "auto":
            return self.old_logprobs == "trainer"
        return not self.engine_kind.in_process or self.precision == "bf16"

    @property
    def copies_weights(self) -> bool:
        """True if an engine in this process samples from a copy of the trainer's weights."""
        return self.engine_kind.in_process and (self.async_level > 0 or self.sharded)

    @property
    def sleeps(self) -> bool:
        """True if the engine releases its memory during updates."""
        return self.engine_kind.gpu_share > 0 and bool(self.engine_options.get("enable_sleep_mode"))

    @property
    def updates(self) -> int:
        """Optimizer updates per step."""
        return self.minibatches * self.epochs

    @property
    def untrained_tasks(self) -> int:
        """Number of tasks of each environment in the first evaluation, before any update."""
        return min(self.test_tasks, RANDOM_TASKS) if self.model == "init" else self.test_tasks

    @property
    def sft_steps(self) -> int:
        """Updates of the SFT warm start."""
        return -(-self.sft_episodes // self.sft_batch)

    def horizon_at(self, step: int, stages: tuple[int, ...]) -> int | None:
        """Return the horizon of a step (counted from 0), in turns; None without stages.

        It depends on the step alone, so resuming skips no stage.
        """
        return stages[min(step // self.horizon_steps, len(stages) - 1)] if stages else None

    def lr_at(self, step: int) -> float:
        """Return the learning rate of a step (counted from 0)."""
        warm = min(1.0, (step + 1) / self.lr_warmup) if self.lr_warmup else 1.0
        return self.lr * warm * (1.0 + (self.min_lr_ratio - 1.0) * step / max(1, self.steps - 1))


def defaults() -> dict[str, object]:
    """Return the default of every field of a run."""
    fields = dataclasses.fields(TrainConfig)
    return {f.name: f.default_factory() if callable(f.default_factory) else f.default for f in fields}


def settings_in(config: TrainConfig, env: EnvSpec) -> TrainConfig:
    """Return the run with the agent settings of one of its environments and without `envs`.

    If the environment has no agent settings, return the run unchanged.

    Raises:
        BadConfig: the settings are invalid for this environment; the message names the environment.
    """
    if not env.agent:
        return config
    try:
        return dataclasses.replace(config, envs=(), **env.agent)
    except BadConfig as error:
        raise BadConfig(f"agent of environment {env.name}: {error}") from error


def homemade(model: str) -> bool:
    """Return True if a folder has a policy made by `init-policy` or trained from one (the tokenizer has a marker)."""
    try:
        return ACT in (Path(model) / "tokenizer_config.json").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def newest_checkpoint(folder: str | Path) -> Path | None:
    """Return the newest complete checkpoint folder of a run (a model folder with the trainer's state), or None."""
    complete = sorted(path for path in Path(folder).glob("checkpoints/step-*") if (path / STATE).exists())
    return complete[-1] if complete else None
