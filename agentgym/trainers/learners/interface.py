"""The learner stage: base class, table of names and decorator."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.trainers.data.segments import Segment
from agentgym.trainers.learners.kinds import LOCAL, OWN, TINKER, LearnerKind
from agentgym.trainers.needs.interface import SCORED, Values
from agentgym.trainers.seam import Seam, Stage, Stateful, Target, unwritten

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig
    from agentgym.trainers.data.minibatches import MiniBatch
    from agentgym.trainers.learners.updates import UpdateResult
    from agentgym.trainers.run.stages import FreshRun

KINDS = {kind.name: kind for kind in (LOCAL, TINKER)}
LEARNERS = Seam("learner", {name: kind.path for name, kind in KINDS.items()})


class Learner(Stateful, ABC):
    """Base class of learners, which store and update the policy; `update`, `publish` and `save` are abstract.

    Every process has a learner, and all call the same methods in the same order.
    """

    tokenizer: Any
    engine: Any
    """The engine that samples from the policy."""

    @abstractmethod
    def update(self, minibatch: "MiniBatch", loss: Stage, step: int) -> "UpdateResult":
        """Take one optimizer step on the weighted loss of this process's rows, and return the metrics.

        The loss is the sum of weight times loss over the tokens of all rows. A process may have no rows.
        """

    @abstractmethod
    async def publish(self, version: int) -> None:
        """Make the engine sample from the current weights, as policy version `version`."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the policy as a model folder."""

    def imitate(self, episodes: Sequence[Episode], lr: float) -> dict[str, float]:
        """Update the policy on demonstrations (SFT warm start, `agentgym sft`); return metrics over all processes."""
        raise NotImplementedError

    def score(self, rows: list[Segment]) -> Values:
        """Return `logprobs` and `entropy` of the trained tokens under the current weights, [tokens] per row.

        Called only for a credit or a loss that needs these values.
        """
        raise NotImplementedError

    @property
    def reads(self) -> tuple[str, ...]:
        """Keys of `turn.extra` that the learner reads per token."""
        return ()

    def old_logprobs(self, rows: list[Segment], loss: Stage) -> Sequence[npt.NDArray[np.float32]] | None:
        """Return the log-probabilities that importance ratios divide by, [tokens] per row.

        None stands for the engine's, or for the trainer's if `update` computes them itself. Called once, before the first
        update of a step.
        """
        return None

    def embed(self, rows: list[Segment], *, alone: bool = False) -> list[npt.NDArray[np.float32]]:
        """Return the hidden states that predict the trained tokens of rows, [trained, width] per row.

        The states are inputs of small predictors, such as a value function. All processes must call this together; with
        `alone`, one process may call it by itself.
        """
        raise NotImplementedError

    def begin(self, phase: str, folder: Path) -> None:
        """Prepare for the phase `sft` or `rl`; a learner may store data about the policy so far in the run's `folder`."""

    async def release_engine_memory(self) -> None:
        """Let the engine release memory until `publish`; the engine does not sample during an update."""

    def about(self) -> dict[str, object]:
        """Return metadata for the log: number of parameters, trained parameters, precision, attention."""
        return {}

    def close(self) -> None:
        """Close the engine and its connection to the weights."""
        self.engine.close()


@runtime_checkable
class PartitionedLearner(Protocol):
    """A learner whose processes each store a part of the weights; every process calls `save`, then `save_parts`."""

    def save_parts(self, folder: Path) -> None:
        """Start to write this process's part of the current state to a checkpoint, without waiting."""
        ...

    def parts_written(self, *, wait: bool = False) -> bool:
        """Return True if no write that `save_parts` began is pending in this process.

        `wait`: block until the write has finished. The checkpoint is complete when the result is True in all processes.
        """
        ...


def learner(name: str) -> Callable[[Target], Target]:
    """Register a class as a learner under a name.

    The run makes it as `CLASS(accelerator, config, folder, *, state, **options)`. `state` has `resumed`, `top` (number
    of likeliest tokens that the loss reads) and, if the run has a critic, `critic` (the critic's options). `overlaps =
    True` in the class declares that `update` may run in a thread while its engine samples (`async_level`).
    """
    return LEARNERS.declare(name)


def kind_of(reference: str) -> LearnerKind:
    """Return the properties of a learner by its name, without importing it."""
    name, colon, _ = reference.partition(":")
    kind = KINDS.get(name, OWN)
    return kind if kind.addressed or not colon else OWN


def resolve_learner(config: "TrainConfig") -> Stage:
    """Return the learner of a run with its options; the address of `tinker:URL` becomes an option."""
    name, colon, address = config.learner.partition(":")
    if colon and kind_of(config.learner).addressed:
        return LEARNERS.resolve(name, {**config.learner_options, "url": address})
    return LEARNERS.resolve(config.learner, config.learner_options)


def check(run: "FreshRun") -> None:
    """Check that the learner supports all settings of the run.

    Raises:
        BadConfig: the learner lacks something that the run uses.
        UnknownName: there is no such learner.
    """
    config, needed = run.config, run.stages.needs
    kind = kind_of(config.learner)
    kind.check_needs(needed, config)
    # built-in learners import torch, and their properties are known without
    target = run.stages.learner.target if kind is OWN or config.learner_options else None
    if kind is OWN:
        _check_methods(target, config, [stage.name for stage in needed])
    if config.async_level and not (kind.overlaps or getattr(target, "overlaps", False)):
        raise BadConfig(
            f"async_level is {config.async_level}, and learner {config.learner!r} does not declare that its engine samples "
            "from its own copy of the weights during an update: leave it at 0, or declare `overlaps = True` in its class"
        )
    for stage in needed:
        if stage.attributes["embeds"]:
            check_embeds(config, f"{stage.kind} {stage.name!r}")


def check_embeds(config: "TrainConfig", what: str) -> None:
    """Check that the learner provides hidden states; `what` names the stage that needs them, for the error message.

    Raises:
        BadConfig: the learner does not provide hidden states.
    """
    kind = kind_of(config.learner)
    if not kind.embeds or (kind is OWN and _inherited(resolve_learner(config).target, "embed")):
        raise BadConfig(
            f"{what} with learner {config.learner!r}, which gives no hidden states (embed()): take learner 'local', or "
            f"leave {what} out"
        )


def _check_methods(target: object, config: "TrainConfig", needed: Sequence[str]) -> None:
    """Check that the user's learner class implements the methods that the run calls.

    Raises:
        BadConfig: the class lacks a method.
    """
    mine = f"learner {config.learner!r}"
    if missing := unwritten(target, Learner):
        raise BadConfig(f"{mine} lacks {missing}; let its class inherit from agentgym.trainers.Learner")
    if config.sft_episodes and _inherited(target, "imitate"):
        raise BadConfig(f"sft_episodes is {config.sft_episodes} with {mine}, which has no imitate(): give --sft-episodes 0")
    if (scores := [name for name in needed if name in SCORED]) and _inherited(target, "score"):
        raise BadConfig(f"needs {scores[0]!r} with {mine}, which has no score(): choose another credit or loss")


def _inherited(target: object, method: str) -> bool:
    return getattr(target, method, None) is getattr(Learner, method)
