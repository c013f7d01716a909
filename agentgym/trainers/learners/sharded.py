"""The learner in several processes that each store a part of all weights, gradients and optimizer state (FSDP2)."""

# torch and accelerate are typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn
from transformers import PreTrainedModel

from agentgym.errors import BadData
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.packing import Batch
from agentgym.trainers.learners.interface import learner
from agentgym.trainers.learners.local import LocalLearner
from agentgym.trainers.learners.step import Scorer
from agentgym.trainers.model import sharding
from agentgym.trainers.model.scores import Scores
from agentgym.trainers.weights import saved_parts
from agentgym.trainers.weights.checkpoint import Checkpoint
from agentgym.trainers.weights.model_folder import write_adapter, write_model


class ShardedLearner(LocalLearner):
    """The learner whose policy is split over the processes of accelerate.

    The parts are also the fp32 masters: in bf16, a weight is rounded when it is gathered. An engine in this process
    samples from a separate whole copy.
    """

    _writing: saved_parts.PartWriter | None = None

    def _sampled(self) -> PreTrainedModel:
        """Return the model to sample from: a whole copy on the device if an engine here needs it, else the model."""
        return copy.deepcopy(self.model).to(self.accelerator.device) if self.config.copies_weights else self.model

    def _attention(self) -> str:
        device, config = self.accelerator.device, self.config
        return sharding.chosen_attention(self.model, config.attention, device, shared=config.share_prefixes)

    def _joined(self, scorer: Scorer) -> nn.Module:
        if not self.config.lora_rank:
            self._source = Checkpoint(self.model)  # while the model still has its compute dtypes
        computes_in = torch.bfloat16 if self.config.precision == "bf16" else None
        device, number = self.accelerator.device, self.accelerator.num_processes
        return sharding.shard(scorer, self.model, device, number, computes_in=computes_in)

    def _masters(self) -> None:
        """Return None: the fp32 parts of the model are already the masters."""

    def _base(self) -> "_Base":
        return _Base(self.model, self.trained.scorer)

    def _remember(self, folder: Path) -> None:
        """Write the current policy to a folder, all or nothing, unless an earlier session has done so."""
        if not any(gather_object([self.accelerator.is_main_process and folder.exists()])):
            self.save(folder.with_name(".reference"))
            if self.accelerator.is_main_process:
                folder.with_name(".reference").rename(folder)
        self.accelerator.wait_for_everyone()

    def _frozen(self, model: PreTrainedModel) -> nn.Module:
        """Return a scorer of a frozen model that is sharded like the policy."""
        config = self.config
        scorer = Scorer(model, config.temperature, self._method, shared=config.share_prefixes).eval().requires_grad_(False)
        return sharding.shard(scorer, model, self.accelerator.device, self.accelerator.num_processes)

    def save(self, folder: Path) -> None:
        """Write the policy as a model folder; each process writes some of its files.

        Raises:
            BadData: the folder cannot be written.
        """
        accelerator = self.accelerator
        accelerator.wait_for_everyone()  # until the folder is cleared
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if self.config.lora_rank:
                write_adapter(self.model, folder, accelerator.process_index)
            else:
                write_model(self._source, folder, accelerator.process_index, accelerator.num_processes)
            if accelerator.is_main_process:
                if not self.config.lora_rank:
                    self.model.config.save_pretrained(folder)
                    self.model.generation_config.save_pretrained(folder)
                self.tokenizer.save_pretrained(folder)
        except OSError as error:
            raise BadData(f"{folder}: the policy could not be written ({error})") from error
        accelerator.wait_for_everyone()

    def save_parts(self, folder: Path) -> None:
        """Start to write this process's part of masters and optimizer state to a checkpoint, without waiting."""
        if self._writing is None:
            self._writing = saved_parts.PartWriter()
        self._writing.begin(folder / saved_parts.PARTS, self.model, self._updating)

    def parts_written(self, *, wait: bool = False) -> bool:
        """Return True if no write that `save_parts` began is pending in this process.

        `wait`: block until the write has finished.

        Raises:
            BadData: the write failed.
        """
        return self._writing is None or self._writing.done(wait=wait)

    @property
    def _updating(self) -> list[torch.optim.Optimizer]:
        return [optimizer.optimizer for optimizer in self.trained.optimizers]

    def state_dict(self) -> dict[str, object]:
        """Return the state that is equal in all processes; `save_parts` writes the rest."""
        return {"critic": self.trained.critic.saved() if self.trained.critic else {}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the critic from `state`, and this process's part from the checkpoint that the policy was loaded from."""
        if self.trained.critic is not None:
            self.trained.critic.load(state["critic"])
        saved_parts.load(self.folder / saved_parts.PARTS, self.model, self._updating)


class _Base:
    """The policy with its adapters off, computed by the same forward pass, which gathers the sharded weights."""

    def __init__(self, model: PreTrainedModel, scorer: Callable[[Batch], Scores]) -> None:
        self.model, self.scorer = model, scorer

    def __call__(self, batch: Batch) -> Scores:
        trained = [value for value in self.model.parameters() if value.requires_grad]
        self.model.disable_adapters()
        for value in trained:  # peft froze them, and weights gathered first would stay frozen
            value.requires_grad_(True)
        try:
            with torch.no_grad():
                return self.scorer(batch)
        finally:
            self.model.enable_adapters()


@learner("local")
def local(accelerator: Accelerator, config: TrainConfig, folder: Path, *, state: Mapping[str, Any]) -> LocalLearner:
    """Return the local learner: with a copy of the policy in each process or, with `sharding`, a part of it."""
    kind = ShardedLearner if config.sharded else LocalLearner
    return kind(accelerator, config, folder, state=state)
