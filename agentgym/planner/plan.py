"""Memory plan of a run before it starts: bytes by part and phase.

Weights are never loaded; a model folder with only a config.json is enough.
"""

# torch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import functools
import json
import math
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

import torch

from agentgym.agents.table import AGENTS
from agentgym.engines.slots import PREFILL
from agentgym.errors import BadConfig
from agentgym.planner.dry_run import Rollout, Rows, Update, cut, rollout_bytes, update_bytes
from agentgym.planner.shapes import KNOWN, published
from agentgym.planner.stand_in import stand_in
from agentgym.planner.trial_play import Play, assumed, trial_play
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.model.memory import FIRST_USE, Memory, available, process_bytes
from agentgym.trainers.model.policy import env_text, train_tokenizer
from agentgym.trainers.model.precision import resolve
from agentgym.trainers.run.fits import cache_bytes, context, engine_slots, parameters, read_shape

PHASES = ("rollout", "update", "optimizer step")
MARGIN = 1.25
"""A run is refused if it needs more than this many times `Memory.limit`; the plan's error is far smaller."""
SHARED_FIELDS = ("model", "temperature", "precision", "lora_rank", "lora_alpha", "lora_targets")
UPDATE_FIELDS = (*SHARED_FIELDS, "muon", "optimizer", "gradient_checkpointing", "attention", "compile")
GATHERED = 2
"""Number of layers that a sharded model holds unsharded at once: the current one, and the next, which is prefetched."""
ROLLOUT_FIELDS = (*SHARED_FIELDS, "concurrency", "context_tokens", "turn_tokens")
"""Fields of a configuration that determine the memory of a rollout."""
SPARE = 0.03
"""Fraction of a GPU that a plan leaves unused by trainer and engine."""
LEAST_SHARE = 0.05
"""Smallest fraction of a GPU with which an engine is worth starting."""
VLLM_OWN = 2 * 2**30
"""Bytes that vLLM needs on a GPU in addition to weights and cache: graphs, and the logits of a step."""


@dataclass(frozen=True)
class Workload:
    """The model's architecture and the shape of its episodes."""

    architecture: Any
    """Configuration object of the model (transformers)."""
    play: Play


@dataclass(frozen=True)
class Part:
    """One consumer of memory, such as weights or activations."""

    name: str
    bytes: tuple[int, int, int]
    """Bytes in each phase: rollout, update, optimizer step."""
    note: str = ""


@dataclass(frozen=True)
class MemoryPlan:
    """Memory of one process of a run, by part and phase."""

    parts: tuple[Part, ...]
    memory: Memory
    sharing: int
    """Number of processes that share the memory."""
    host: int
    """Bytes of main memory if there is a GPU, otherwise 0: the process, and weights while loading or saving."""
    parameters: int
    trained: int
    row: int
    """Number of tokens in the longest row."""
    batch: Rows
    token: int
    """Bytes that each token of a micro-batch keeps for the backward pass."""

    @property
    def phases(self) -> tuple[int, int, int]:
        """Bytes of one process in each phase: rollout, update, optimizer step."""
        totals = [sum(part.bytes[phase] for part in self.parts) for phase in range(len(PHASES))]
        return totals[0], totals[1], totals[2]

    @property
    def need(self) -> int:
        """Peak bytes of all processes that share the memory."""
        return max(self.phases) * self.sharing

    @property
    def fits(self) -> bool:
        """True if the run fits into the free memory."""
        return self.need <= self.memory.free

    @property
    def hopeless(self) -> bool:
        """True if the run needs more than `MARGIN` times `memory.limit`."""
        return self.need > MARGIN * self.memory.limit


def read_architecture(config: TrainConfig) -> Any:
    """Return the configuration of a run's model, without access to the Hugging Face hub.

    Raises:
        BadConfig: no configuration is found.
    """
    from transformers import AutoConfig

    if (shape := read_shape(config)) is not None:
        return shape
    if not Path(config.model).is_dir() and (known := published(config.model)) is not None:
        return AutoConfig.for_model(**known)
    try:
        return AutoConfig.from_pretrained(config.model, local_files_only=True, trust_remote_code=False).get_text_config()
    except Exception as error:  # transformers raises many types for a damaged folder
        message = str(error).split("\n")[0]
        raise BadConfig(
            f"{config.model}: no model configuration ({message:.200}); expected a folder with config.json (which is enough "
            f"to plan), or a name whose shape is known: {', '.join(KNOWN)}"
        ) from error


def read_workload(config: TrainConfig) -> Workload:
    """Return the architecture of a run's model and the shape of its episodes.

    If the model's tokenizer is not here, lengths are counted with a substitute trained on the environment's text. Raises
    BadConfig if the model does not exist.
    """
    architecture = read_architecture(config)
    play = None
    if config.agent in AGENTS:
        play = trial_play(config, _tokenizer(config))
    return Workload(architecture, play or assumed(config, context(config, architecture)))


def _tokenizer(config: TrainConfig) -> object:
    from transformers import AutoTokenizer

    envs = [(env.id, dict(env.options)) for env in config.mix]
    if config.model == "init":  # a tokenizer trained on less text has almost as many tokens of almost the same length
        text = chain.from_iterable(env_text(name, options, 100, config.seed) for name, options in envs)
        return train_tokenizer(text, config.vocabulary, config.pre_tokenizer)
    if has_tokenizer(config):
        return AutoTokenizer.from_pretrained(config.model, local_files_only=True, trust_remote_code=False)
    return stand_in(envs, config.seed)


def has_tokenizer(config: TrainConfig) -> bool:
    """Return True if the run's own tokenizer is in the model's folder or in the local cache of the hub."""
    from huggingface_hub import try_to_load_from_cache

    if config.model == "init" or Path(config.model).is_dir():
        return config.model == "init" or any(Path(config.model).glob("tokenizer*"))
    return isinstance(try_to_load_from_cache(config.model, "tokenizer_config.json"), str)


def resolved(config: TrainConfig, memory: Memory) -> TrainConfig:
    """Return the run with precision "auto" replaced by the one that the device supports."""
    if config.precision != "auto":  # training checks that the device supports it
        return config
    if memory.elsewhere:  # all recent GPUs for training support it
        return replace(config, precision="bf16")
    return replace(config, precision=resolve("auto", torch.device(memory.device)))


def plan(config: TrainConfig, workload: Workload, memory: Memory | None = None) -> MemoryPlan:
    """Return the memory plan of a run, on this machine or in the given memory.

    Raises:
        BadConfig: the model's code cannot be traced.
    """
    try:
        return _planned(config, workload, memory or available())
    except BadConfig:
        raise
    except Exception as error:  # the model's own code, run on tensors without content
        reason = f"{type(error).__name__}: {error}".split("\n")[0]
        raise BadConfig(
            f"{config.model}: its memory cannot be planned, because its code does not run over tensors without content "
            f"({reason:.200}). Training may still work"
        ) from error


def _planned(config: TrainConfig, workload: Workload, memory: Memory) -> MemoryPlan:
    config = resolved(config, memory)
    row = workload.play.row(context(config, workload.architecture))
    batch = largest_batch(config, workload)
    update = _traced(config, workload, batch, memory.device != "cpu")
    parts = [*_permanent(config, workload, memory, update), *_passing(config, workload, update)]
    return MemoryPlan(
        parts=tuple(part for part in parts if any(part.bytes)),
        memory=memory,
        sharing=-(-config.processes // memory.devices),
        host=process_bytes() + max(update.weights, _copied(config, update)) if memory.device != "cpu" else 0,
        parameters=update.parameters,
        trained=update.trained,
        row=row,
        batch=batch,
        token=update.activations // (batch.rows * batch.tokens),
    )


def recomputed_token(config: TrainConfig, workload: Workload, memory: Memory) -> int:
    """Return the bytes per token that gradient checkpointing would keep; 0 if it is already on or unsupported."""
    if config.gradient_checkpointing or config.attention == "small":
        return 0
    config = replace(resolved(config, memory), gradient_checkpointing=True)
    batch = largest_batch(config, workload)
    try:
        return _traced(config, workload, batch, memory.device != "cpu").activations // (batch.rows * batch.tokens)
    except BadConfig:  # a model whose layers cannot be recomputed
        return 0


def largest_batch(config: TrainConfig, workload: Workload) -> Rows:
    """Return the shape of the largest micro-batch: rows of maximum length, as many as `batch_tokens` and a minibatch
    allow.
    """
    own = context(config, workload.architecture)
    row = workload.play.row(own)
    episodes = max(config.tasks_per_step * config.group_size // config.processes // config.minibatches, 1)
    there = max(round(episodes * workload.play.rows), 1)
    rows = min(max(config.batch_tokens // row, 1), there)
    return Rows(rows, row, workload.play.trained(own, config.turn_tokens), batches=2 if there > rows else 1)


def _permanent(config: TrainConfig, workload: Workload, memory: Memory, update: Update) -> list[Part]:
    """Return the parts that exist during the whole run: weights, optimizer state and the engine."""
    parts: list[Part] = []

    def add(name: str, size: int, note: str = "") -> None:
        parts.append(Part(name, (size, size, size), note))

    if memory.device == "cpu":
        add("process", process_bytes() + FIRST_USE, "Python, torch and their imports, measured")
    if config.sharded:
        low = update.weights * update.trained // max(update.parameters, 1) if update.masters else 0  # masters replace them
        own, part = (update.weights - low + update.masters) // config.processes, f"a part of {config.processes}"
        add("weights", own, f"{update.parameters / 1e6:,.1f} M parameters, {part}{', fp32 masters' if low else ''}")
    else:
        part = ""
        add("weights", update.weights, f"{update.parameters / 1e6:,.1f} M parameters, {_precision(update)}")
        add("fp32 masters", update.masters, "what updates are made in")
    divided = config.processes if config.sharded else 1
    if config.kl and not config.lora_rank:
        add("reference", update.weights // divided, f"the initial policy, for the KL penalty{part and ', '}{part}")
    add("optimizer state", update.optimizer // divided, f"{_state(config, update)}{part and ', '}{part}")
    if config.sharded and memory.device == "cpu":
        add("checkpoint", _copied(config, update), "a copy of the data being written")
    if config.engine_kind.in_process:
        row = workload.play.row(context(config, workload.architecture))
        spelled = workload.architecture.to_json_string(use_diff=False)
        slots = engine_slots(config)
        prefill = cast("int", config.engine_options.get("prefill_tokens", PREFILL))
        options = _chosen(replace(config, concurrency=slots), ROLLOUT_FIELDS)
        rollout = _rollout(spelled, options, workload.play.first, row, prefill)
        room = f"{slots} slots, rows up to {row:,} tokens"
        if config.copies_weights:
            why = "the whole model in each process" if config.sharded else "while an update changes the trainer's"
            add("engine's copy", update.weights, f"the weights for sampling: {why}")
        add("engine's own weights", rollout.packed, "fused copies; the rest is the trainer's own")
        add("key-value cache", rollout.cache, room)
        beside = rollout.working if config.async_level else 0
        parts.append(Part("sampling", (rollout.working, beside, beside), "prefill, and the vocabulary for every slot"))
    elif config.engine_kind.sent_weights and not config.engine_kind.of_address:  # servers have their own memory
        parts += _vllm(config, workload, memory, update)
    return parts


def _copied(config: TrainConfig, update: Update) -> int:
    """Return the bytes of the copies that a sharded run makes while it writes a checkpoint; 0 if it is not sharded."""
    return (4 * update.trained + update.optimizer) // config.processes if config.sharded else 0


def _passing(config: TrainConfig, workload: Workload, update: Update) -> list[Part]:
    """Return the parts that are allocated only during an update."""
    divided = config.processes if config.sharded else 1
    gradients = update.gradients // divided * (2 if config.processes > 1 and not config.sharded else 1)
    buckets = "and the buffers sent to the other processes" if config.processes > 1 else ""
    note = f"a part of {config.processes}" if config.sharded else buckets
    stepping = update.stepping if config.muon else update.stepping // divided  # Muon works on whole matrices of one shape
    whole = _gathered(workload, update) if config.sharded else 0
    return [
        Part("gradients", (0, gradients, gradients), note),
        Part("gathered", (0, whole, 0), f"{GATHERED} layers, embedding and head, whole, with their gradients"),
        Part("activations", (0, update.activations, 0), "kept for the backward pass"),
        Part("logits and backward", (0, update.logits, 0), "of trained tokens, in chunks"),
        Part("step", (0, 0, stepping), "working memory of the optimizer"),
    ]


def _gathered(workload: Workload, update: Update) -> int:
    """Return the peak bytes of unsharded tensors in a sharded update, including fp32 gradients."""
    few, more = (parameters(cut(workload.architecture, layers)) for layers in (1, 2))
    depth = int(workload.architecture.num_hidden_layers)
    beside = parameters(workload.architecture) - depth * (more - few)
    numbers = beside + min(GATHERED, depth) * (more - few)
    width = update.weights / max(update.parameters, 1)
    return int(numbers * (width + 4 * update.trained / max(update.parameters, 1)))


def _vllm(config: TrainConfig, workload: Workload, memory: Memory, update: Update) -> list[Part]:
    """Return the parts of vLLM: its share of the trainer's GPU; on a CPU, its weights and cache; none on its own GPUs."""
    width = 4 if memory.device == "cpu" and "dtype" not in config.engine_options else 2
    weights = width * update.parameters
    row = workload.play.row(context(config, workload.architecture))
    cache = config.concurrency * row * cache_bytes(workload.architecture, width)
    if memory.device == "cpu":
        return [
            Part("engine's own weights", (weights, weights, weights), f"vLLM's copy, {8 * width} bits"),
            Part("key-value cache", (cache, cache, cache), f"{config.concurrency} rows of {row:,} tokens, {8 * width} bits"),
        ]
    if has_own_gpus(config):
        return []
    share = int(vllm_share(config) * memory.total)
    asleep = min(share, VLLM_OWN) if config.sleeps else share
    note = f"{vllm_share(config):.0%} of the GPU; it would do with {(weights + cache + VLLM_OWN) / 2**30:.1f} GiB"
    return [Part("vLLM", (share, asleep, asleep), f"{note}{', asleep during updates' if config.sleeps else ''}")]


def with_share(config: TrainConfig, workload: Workload, memory: Memory) -> TrainConfig:
    """Return the run with its vllm engine's GPU share set to what the trainer leaves, at most to the default share.

    The configuration is unchanged if a share was set, if too little is left, or if engine and trainer share no GPU.
    """
    if memory.device == "cpu" or not config.engine_kind.gpu_share or "gpu_memory_utilization" in config.engine_options:
        return config
    built = plan(config, workload, memory)
    engine = next((part for part in built.parts if part.name == "vLLM"), None)
    if engine is None:
        return config
    beside = max(total - own for total, own in zip(built.phases, engine.bytes, strict=True) if own == max(engine.bytes))
    share = math.floor(100 * ((memory.free / built.sharing - beside) / memory.total - SPARE)) / 100
    if share < LEAST_SHARE:
        return config
    share = min(share, config.engine_kind.gpu_share)
    return replace(config, engine_options={**config.engine_options, "gpu_memory_utilization": share})


def has_own_gpus(config: TrainConfig) -> bool:
    """Return True if the vllm engine has GPUs of which the trainer uses none."""
    devices = cast("list[int] | None", config.engine_options.get("device_ids"))
    if not devices:
        return config.weight_transport == "nccl" and config.processes > 1  # the GPUs after the trainer's
    return all(int(device) >= config.processes for device in devices)


def vllm_share(config: TrainConfig) -> float:
    """Return the fraction of a GPU that the engine reserves; 0 if it allocates as needed."""
    share = config.engine_kind.gpu_share
    return share and cast("float", config.engine_options.get("gpu_memory_utilization", share))


def _state(config: TrainConfig, update: Update) -> str:
    adam = "AdamW in 8 bits" if config.optimizer == "adamw8bit" else "AdamW"
    trained_note = f", {update.trained / 1e6:,.1f} M trained parameters" if update.trained < update.parameters else ""
    return f"Muon and {adam}{trained_note}" if config.muon else f"{adam}{trained_note}"


def _precision(update: Update) -> str:
    return f"{8 * update.weights / max(update.parameters, 1):.0f} bits each"


def _traced(config: TrainConfig, workload: Workload, batch: Rows, gpu: bool) -> Update:
    """Return the memory of an update; with an SFT warm start, the maximum of both kinds of update."""
    spelled = workload.architecture.to_json_string(use_diff=False)
    traced = _update(spelled, _chosen(config, UPDATE_FIELDS), batch, gpu)
    if not config.sft_episodes or config.sft_muon == config.muon:
        return traced
    sft = _update(spelled, _chosen(replace(config, muon=config.sft_muon), UPDATE_FIELDS), batch, gpu)
    return replace(traced, **{name: max(getattr(traced, name), getattr(sft, name)) for name in ("optimizer", "stepping")})


def _chosen(config: TrainConfig, names: tuple[str, ...]) -> tuple[tuple[str, object], ...]:
    return tuple((name, getattr(config, name)) for name in names)


@functools.cache
def _update(spelled: str, options: tuple[tuple[str, Any], ...], batch: Rows, gpu: bool) -> Update:
    return update_bytes(_read(spelled), TrainConfig(**dict(options)), batch, gpu=gpu)


@functools.cache
def _rollout(spelled: str, options: tuple[tuple[str, Any], ...], first: int, longest: int, prefill: int) -> Rollout:
    return rollout_bytes(_read(spelled), TrainConfig(**dict(options)), first, longest, prefill)


def _read(spelled: str) -> object:
    from transformers import AutoConfig

    options = json.loads(spelled)
    return AutoConfig.for_model(options.pop("model_type"), **options)
