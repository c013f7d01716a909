"""Configuration of `agentgym sft`: the files, the choice of episodes, and the updates."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agentgym.agents.decide import AUTO
from agentgym.errors import BadConfig, no_such
from agentgym.options import Options, Positional
from agentgym.trainers.config.caller_settings import with_caller
from agentgym.trainers.config.recipe_files import fitting, read_toml, rows
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.stored import Filter
from agentgym.trainers.model import lora

SHARED = (
    *("model", "out", "seed", "processes", "threads", "lora_rank", "lora_alpha", "lora_targets", "agent", "prompt", "tools"),
    *("history", "window_turns", "observation_tokens", "optimizer", "grad_clip", "batch_tokens", "attention", "precision"),
    *("gradient_checkpointing", "compile", "sharding", "loggers", "logger_options", "checkpoint_every"),
)
"""Fields that mean the same in a training run."""


@dataclass(frozen=True)
class ImitationConfig:
    """A run that imitates stored episodes."""

    files: Positional[tuple[str, ...]]
    """Files of episodes, folders of runs and evaluations, or logs of Harbor, inspect_ai and ATIF."""
    model: str
    """Folder or name of a causal language model, or the folder of a run."""
    out: str = "runs/sft"
    """Folder of the run."""
    weights: tuple[float, ...] = ()
    """Weight of each file in an epoch, relative to the others; by default its number of episodes."""
    success: bool = False
    """Use only successful episodes."""
    env: str = ""
    """Use only episodes of this environment."""
    min_reward: float = -math.inf
    """Use only episodes with at least this reward."""
    split: str = ""
    """Use only tasks of this split."""
    epochs: int = 1
    """Passes over the data; each draws as many episodes as the data has (with `weights`, up to rounding)."""
    batch: int = 8
    """Episodes per update."""
    lr: float = 1e-5
    """Peak learning rate (AdamW)."""
    lr_schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """Learning rate after the warm-up: `constant`, or `cosine` or `linear` decay to `min_lr_ratio` at the last update."""
    lr_warmup: int = 0
    """Updates of linear warm-up."""
    min_lr_ratio: float = 0.1
    """Learning rate at the last update as a share of `lr`."""
    muon: bool = False
    """Use Muon for the matrices (at five times the learning rate); for small models."""
    optimizer: Literal["adamw", "adamw8bit"] = "adamw"
    """Optimizer: `adamw`, or `adamw8bit` (8-bit state; needs torchao). With Muon, it updates only what Muon does not."""
    grad_clip: float = 1.0
    """Maximum gradient norm; larger gradients are scaled down."""
    batch_tokens: int = 4096
    """Maximum number of tokens per forward pass; a longer row gets its own pass."""
    attention: Literal["auto", "flash", "flex", "sdpa", "split", "rows", "small"] = "auto"
    """Attention implementation, as in `agentgym train`."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Number format: `fp32`, `bf16` (with fp32 masters), or `auto`: bf16 on a GPU that supports it."""
    gradient_checkpointing: bool = False
    """Keep only each layer's inputs and recompute the rest in the backward pass: less memory, a third more compute."""
    compile: bool = False
    """Compile the model's layers with torch.compile."""
    sharding: Literal["none", "fsdp2"] = "none"
    """Storage of weights, gradients and optimizer state: a copy per process (`none`) or a shard per process (`fsdp2`)."""
    lora_rank: int = 0
    """Rank of LoRA adapters; only these are then trained. 0 trains all weights."""
    lora_alpha: int = lora.ALPHA
    """LoRA alpha: the adapters' output is scaled by `lora_alpha / lora_rank`."""
    lora_targets: tuple[str, ...] = lora.TARGETS
    """Linear layers that get an adapter."""
    agent: str = "chat"
    """Agent that renders episodes without token ids: `chat`, `completion` or `window`."""
    prompt: str = ""
    """Prompt of `agent`: a name from agents/prompts or a file; by default as in `agentgym train`."""
    tools: str = AUTO
    """Form of tool calls in the encoded episodes: `native`, `text`, or `auto` (as in `agentgym train`)."""
    history: str = "keep"
    """Form of past turns for the agent `chat`: `keep` (the original tokens) or `template` (as the chat template renders
    them)."""
    window_turns: int = 2
    """Past turns that the agent `window` shows."""
    observation_tokens: int = 2048
    """Maximum number of tokens shown of an observation; longer ones are cut in the middle."""
    seed: int = 0
    """Seed of the order of the episodes and of new adapters."""
    processes: int = 1
    """Processes on this machine, each with its share of every update."""
    threads: int = 0
    """CPU threads of torch in each process; 0 means one for models below 50 M parameters, else torch's default."""
    loggers: tuple[str, ...] = ()
    """Loggers in addition to metrics.jsonl: names or MODULE:NAME."""
    logger_options: Options = field(default_factory=dict[str, object])
    """Options of the loggers: --logger.KEY VALUE."""
    checkpoint_every: int = 100
    """Updates between checkpoints."""

    def __post_init__(self) -> None:
        if not self.files:
            raise BadConfig("no file of episodes is given; for example: agentgym sft runs/demo/episodes.jsonl --model MODEL")
        if self.weights and (len(self.weights) != len(self.files) or not all(0 < w < math.inf for w in self.weights)):
            raise BadConfig(f"weights is {self.weights}; expected a number above 0 for each of {len(self.files)} files")
        if self.batch % self.processes:
            raise BadConfig(f"batch is {self.batch}; expected a multiple of processes, {self.processes}")
        for name, least, most in (
            ("epochs", 1, 10_000),
            ("batch", 1, 2**31),
            ("lr_warmup", 0, 2**31),
            ("min_lr_ratio", 0, 1),
        ):
            if not least <= getattr(self, name) <= most:
                raise BadConfig(f"{name} is {getattr(self, name)}; expected from {least} to {most}")
        if self.lr_schedule == "constant" and self.min_lr_ratio != ImitationConfig.min_lr_ratio:
            raise BadConfig(
                f"min_lr_ratio is {self.min_lr_ratio} and has no effect with lr_schedule 'constant': leave it out"
            )
        if self.lora_rank and self.muon:
            raise BadConfig("muon with lora_rank: Muon is for whole matrices, not for adapters; leave one of the two out")
        if self.model == "init":
            raise BadConfig("model is 'init'; stored episodes have the tokens of another model: make one with init-policy")
        if self.agent == "summary":
            raise BadConfig("agent 'summary' writes a memory that no file without token ids holds; use chat or window")
        _ = self.learning  # which checks the fields that both have

    @property
    def which(self) -> Filter:
        """The filter that chooses the episodes."""
        least = None if self.min_reward == -math.inf else self.min_reward
        return Filter(self.success, self.env, least, self.split)

    @property
    def learning(self) -> TrainConfig:
        """This run as a training configuration without rollouts, for the learner and the record."""
        shared: dict[str, Any] = {name: getattr(self, name) for name in SHARED}
        return TrainConfig(
            **shared, sft_lr=self.lr, sft_muon=self.muon, sft_batch=self.batch, steps=0, eval_every=0, test_tasks=0
        )

    def lr_at(self, position: int, updates: int) -> float:
        """Return the learning rate of update `position` (counted from 0) of `updates`."""
        warm = min(1.0, (position + 1) / self.lr_warmup) if self.lr_warmup else 1.0
        if self.lr_schedule == "constant":
            return self.lr * warm
        done = max(0, position - self.lr_warmup) / max(1, updates - 1 - self.lr_warmup)
        left = 1.0 - done if self.lr_schedule == "linear" else 0.5 + 0.5 * math.cos(math.pi * min(1.0, done))
        return self.lr * warm * (self.min_lr_ratio + (1.0 - self.min_lr_ratio) * max(0.0, left))

    def to_toml(self) -> str:
        """Return the text of the run's TOML file, which `read_imitation` reads back."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        options = values.pop("logger_options")
        return "\n".join(['command = "sft"', *rows(values), "", "[logger_options]", *rows(options)]) + "\n"


def read_imitation(
    folder: str | Path, caller: Mapping[str, object] | None = None, command: Sequence[str] = ()
) -> ImitationConfig:
    """Read the configuration of an `agentgym sft` run from its folder.

    A stranger may have written the folder: `caller` has the settings that only the caller may make (see
    `agentgym.trainers.config.caller_settings`).

    Raises:
        BadConfig: the folder has no `agentgym sft` run; or its `config.toml` has an unknown key, a value of the wrong
            type, or a field that the caller has to give.
    """
    path = Path(folder) / "config.toml"
    raw = read_toml(path) if path.exists() else {}
    if raw.pop("command", "") != "sft":
        raise BadConfig(f"{folder} holds no run of `agentgym sft`: expected a config.toml of one in it")
    defaults = {f.name: f.default for f in dataclasses.fields(ImitationConfig)}
    example = vars(ImitationConfig(files=("episodes.jsonl",), model="."))
    for key in raw:
        if key not in defaults:
            raise BadConfig(no_such(f"key in {path}:", key, defaults))
    values = {key: fitting(path, key, value, example[key]) for key, value in raw.items()}
    words = command or ["agentgym", "sft", "--resume", str(folder)]
    return ImitationConfig(**with_caller(path, values, example, caller or {}, words))
