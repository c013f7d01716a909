"""The learner in this process; with several processes of accelerate, each has a copy of the policy."""

# torch and accelerate are typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from accelerate import Accelerator
from torch import nn
from transformers import PreTrainedModel

from agentgym.episodes.episode import Episode
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.minibatches import MiniBatch
from agentgym.trainers.data.segments import Segment
from agentgym.trainers.learners import parts
from agentgym.trainers.learners.classifying_critic import critic_of
from agentgym.trainers.learners.critic import TARGET
from agentgym.trainers.learners.embedding import embedded
from agentgym.trainers.learners.interface import Learner
from agentgym.trainers.learners.optimizers import optimizers
from agentgym.trainers.learners.step import (
    BaseScorer,
    Scorer,
    StepMeasures,
    TrainedModel,
    apply,
    differentiable,
    imitate,
    losses,
    scored,
)
from agentgym.trainers.learners.updates import UpdateResult
from agentgym.trainers.model import lora, precision
from agentgym.trainers.model.policy import load_policy, save_policy, set_threads
from agentgym.trainers.model.precision import MasterWeights, masters
from agentgym.trainers.needs.interface import Values
from agentgym.trainers.seam import Stage
from agentgym.trainers.weights import sync


class LocalLearner(Learner):
    """The learner in this process; with several processes of accelerate, each has a copy of the policy."""

    overlaps = True

    def __init__(self, accelerator: Accelerator, config: TrainConfig, folder: Path, *, state: Mapping[str, object]) -> None:
        self.accelerator, self.config, self.folder = accelerator, config, folder
        self.model, self.tokenizer = load_policy(folder, precision.DTYPES[config.precision])
        set_threads(self.model, config.threads)
        if config.lora_rank and not state.get("resumed"):  # a checkpoint has its adapters
            lora.add_adapters(self.model, config)
        self.freeze()
        device = accelerator.device
        self.engine = parts.engine(config, folder, self._sampled(), self.tokenizer, device)
        try:
            copied = config.copies_weights
            self.weights = None if config.served else sync.weight_sync(self.model, self.engine, copied=copied, device=device)
            scorer = Scorer(
                self.model,
                config.temperature,
                self._attention(),
                gradient_checkpointing=config.gradient_checkpointing,
                compiled=config.compile,
                shared=config.share_prefixes,
                states="critic" in state,
                top=cast("int", state.get("top", 0)),
                entropy_gradient=config.entropy_bonus > 0,
            )
            self.trained = TrainedModel(accelerator, self._joined(scorer), [])
            if "critic" in state:
                options = cast("dict[str, Any]", state["critic"])
                self.trained.critic = critic_of(accelerator, self.model.config.get_text_config().hidden_size, options)
            self.trained.masters = self._masters()
        except BaseException:
            self.engine.close()
            raise

    def freeze(self) -> None:
        """Do nothing; a subclass may turn off gradients of weights that stay fixed, before the model is wrapped."""

    def _sampled(self) -> PreTrainedModel:
        """Move the model to its training device and return the model that an engine in this process samples from.

        It is a copy if `copies_weights` is True, else the model itself.
        """
        self.model.to(self.accelerator.device)
        copied = self.config.copies_weights  # else updates change the model that the engine uses
        return copy.deepcopy(self.model) if copied else self.model

    def _attention(self) -> str:
        return self.config.attention

    def _joined(self, scorer: Scorer) -> nn.Module:
        """Return a scorer whose gradients are reduced over all processes."""
        return self.accelerator.prepare(scorer)

    def _masters(self) -> MasterWeights | None:
        return masters(self.model, self.config.precision, self.accelerator.num_processes)

    def about(self) -> dict[str, object]:
        """Return metadata for the log: number of parameters, trained parameters, attention, precision."""
        return {
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "trained": sum(p.numel() for p in self.model.parameters() if p.requires_grad),
            "attention": self._method,
            "precision": self.config.precision,
        }

    @property
    def _method(self) -> str:
        return self.accelerator.unwrap_model(self.trained.scorer).method

    def begin(self, phase: str, folder: Path) -> None:
        """Make the optimizers of a phase and, before reinforcement learning, the reference of the KL penalty."""
        config, updated = self.config, self.trained.masters or self.model
        if phase == "sft":
            fresh = optimizers(updated, config.sft_lr, muon=config.sft_muon, kind=config.optimizer)
        else:
            decay = config.weight_decay
            fresh = optimizers(updated, config.lr, muon=config.muon, weight_decay=decay, kind=config.optimizer)
            self.trained.reference = self._reference(folder / "reference")
        self.trained.optimizers = [self.accelerator.prepare(optimizer) for optimizer in fresh]

    def _reference(self, folder: Path) -> Any:
        """Return a scorer of the KL penalty's reference, or None without a KL penalty.

        The reference is the policy at the start of RL, which `folder` stores, or with adapters the base model.
        """
        config = self.config
        if not config.kl:
            return None
        if config.lora_rank:
            return self._base()
        self._remember(folder)
        return self._frozen(load_policy(folder, precision.DTYPES[config.precision])[0])

    def _base(self) -> Any:
        """Return a scorer of the model without its adapters."""
        return BaseScorer(self.model, self.config.temperature, self._method, shared=self.config.share_prefixes)

    def _remember(self, folder: Path) -> None:
        """Write the current policy to a folder, all or nothing, unless an earlier session has done so."""
        if self.accelerator.is_main_process and not folder.exists():
            save_policy(self.model, self.tokenizer, folder.with_name(".reference")).rename(folder)
        self.accelerator.wait_for_everyone()

    def _frozen(self, model: PreTrainedModel) -> nn.Module:
        """Return a scorer of a model that is never trained."""
        config, frozen = self.config, model.to(self.accelerator.device)
        scorer = Scorer(frozen, config.temperature, config.attention, shared=config.share_prefixes)
        return scorer.eval().requires_grad_(False)

    def imitate(self, episodes: Sequence[Episode], lr: float) -> dict[str, float]:
        """Update the policy on demonstrations and return the metrics over all processes."""
        self.trained.set_lr(lr)
        return imitate(self.trained, episodes, self.config)

    @property
    def reads(self) -> tuple[str, ...]:
        """Keys of `turn.extra` that the critic reads; empty without a critic."""
        return ("values", TARGET) if self.trained.critic else ()

    def old_logprobs(self, rows: list[Segment], loss: Stage) -> Sequence[npt.NDArray[np.float32]] | None:
        """Return the trainer's log-probabilities, [tokens] per row, in nats; None if no extra forward pass is needed.

        The pass is needed if ratios use the trainer's log-probabilities, and the step has several updates or the loss reads
        the current log-probabilities. A single update otherwise computes them in its own forward pass.
        """
        again = self.config.updates > 1 or loss.attributes["present"]
        return self.score(rows)["logprobs"] if self.config.differs and again else None

    def update(self, minibatch: MiniBatch, loss: Stage, step: int) -> UpdateResult:
        """Take one optimizer step on the rows of a mini-batch and return the metrics."""
        self._set_lr(step)
        measured = StepMeasures()
        for value in differentiable(self.trained, losses(self.trained, minibatch, measured, self.config, loss, step)):
            self.accelerator.backward(value)
        norm = apply(self.trained, self.config)
        if self.trained.critic:
            self.trained.critic.update(self.config.grad_clip)
        return measured.updated(norm)

    def _set_lr(self, step: int) -> None:
        self.trained.set_lr(self.config.lr_at(step))

    def score(self, rows: list[Segment]) -> Values:
        """Return `logprobs`, `entropy` and, with a critic, `values` of the trained tokens, [tokens] per row."""
        return scored(self.trained, rows, self.config)

    async def release_engine_memory(self) -> None:
        """Release the engine's GPU memory if the engine option `enable_sleep_mode` is set."""
        if self.config.sleeps:
            await self.engine.sleep()

    def embed(self, rows: list[Segment], *, alone: bool = False) -> list[npt.NDArray[np.float32]]:
        """Return the hidden states that predict the trained tokens of rows, [trained, width] per row."""
        return embedded(self.trained, rows, self.config, alone=alone)

    async def publish(self, version: int) -> None:
        """Send the weights to the engine as policy version `version`; a server with fixed weights gets nothing."""
        if self.weights is not None:  # None: a server was verified to serve the same weights, and they never change
            await self.weights.push(version)

    def save(self, folder: Path) -> None:
        """Write the policy as a model folder."""
        save_policy(self.model, self.tokenizer, folder)

    def state_dict(self) -> dict[str, object]:
        """Return the state of optimizers, fp32 masters and critic."""
        trained = self.trained
        return {
            "optimizers": [optimizer.state_dict() for optimizer in trained.optimizers],
            "masters": trained.masters.state_dict() if trained.masters else {},
            "critic": trained.critic.saved() if trained.critic else {},
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Restore the state of optimizers, fp32 masters and critic."""
        if self.trained.masters is not None:
            self.trained.masters.load_state_dict(cast("dict[str, Any]", state["masters"]))
        if self.trained.critic is not None:
            self.trained.critic.load(cast("dict[str, Any]", state["critic"]))
        for optimizer, saved in zip(
            self.trained.optimizers, cast("list[dict[str, Any]]", state["optimizers"]), strict=False
        ):
            optimizer.load_state_dict(saved)

    def close(self) -> None:
        """Close the engine and the connection to its weights."""
        if self.weights is not None:
            self.weights.close()
        self.engine.close()
