"""Memory of a run in bytes, measured by running its own code on meta tensors (shapes without contents).

A model of any size is built and trained for one update at almost no cost, while all allocated tensors are counted. This
works for every attention, optimizer and engine. It does not count workspace inside kernels or memory that an allocator
caches.
"""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateImportUsage=false, reportPrivateUsage=false, reportUnknownLambdaType=false

import copy
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from agentgym.engines import Sampling
from agentgym.engines.hf.library import LibraryModel
from agentgym.engines.hf.sampling import Draw, sample
from agentgym.engines.hf.slots import FIRST_CAPACITY, FUSE_BELOW, Row, SlotModel, unsupported
from agentgym.engines.slots import PREFILL
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.packing import Batch
from agentgym.trainers.learners.optimizers import optimizers
from agentgym.trainers.model import forward, layers, lora
from agentgym.trainers.model.logprobs import changes_logits, policy_logprobs, project, trained_states
from agentgym.trainers.model.precision import DTYPES, bytes_per_parameter, masters
from agentgym.trainers.run.fits import parameters

FEW, MORE = 4, 6
"""Numbers of layers of two small models, from which a deeper model is extrapolated; each layer adds the same memory."""


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of live tensors created in its context, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.peak = 0
        self._seen: dict[int, int] = {}

    def __torch_dispatch__(
        self,
        function: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        out = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._add(tensor)
        return out

    def restart(self) -> int:
        """Reset the peak to the live bytes and return them."""
        self.peak = self.bytes
        return self.bytes

    def _add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = int(storage._cdata)
        if key in self._seen:
            return
        self._seen[key] = storage.nbytes()
        self.bytes += self._seen[key]
        self.peak = max(self.peak, self.bytes)
        weakref.finalize(storage, self._drop, key)

    def _drop(self, key: int) -> None:
        self.bytes -= self._seen.pop(key)


@dataclass(frozen=True)
class Rows:
    """Shape of a micro-batch."""

    rows: int
    tokens: int
    """Tokens of each row."""
    trained: int
    """Trained tokens of each row."""
    batches: int = 2
    """1 for an update of one micro-batch, else 2: from the second one on, gradients exist along with activations."""


@dataclass(frozen=True)
class Update:
    """Memory of one update in bytes, and the model's numbers of parameters."""

    weights: int
    masters: int
    """Bytes of the fp32 weights that are updated if the model computes in a lower precision; otherwise 0."""
    gradients: int
    optimizer: int
    """Bytes of optimizer state."""
    activations: int
    """Bytes kept for the backward pass when the output layer begins."""
    logits: int
    """Bytes that the output layer and the backward pass add to all of the above at the peak."""
    stepping: int
    """Bytes that an optimizer step allocates in addition to weights, gradients and state."""
    parameters: int
    trained: int
    """Number of trained parameters."""


@dataclass(frozen=True)
class Rollout:
    """Memory of sampling in this process in bytes, without the weights."""

    packed: int
    """Bytes of the engine's own copies of weights."""
    cache: int
    """Bytes of the keys and values of all slots."""
    working: int
    """Peak bytes of a prefill, of a step over all slots, or of enlarging the cache, whichever is largest."""


Counted = TypeVar("Counted", Update, Rollout)


def update_bytes(architecture: object, config: TrainConfig, batch: Rows, *, gpu: bool = False) -> Update:
    """Return the memory of one update on micro-batches of shape `batch`; `config.precision` must be `fp32` or `bf16`."""
    return _deep(architecture, lambda cut: _update(cut, config, batch, gpu))


def rollout_bytes(architecture: object, config: TrainConfig, first: int, longest: int, prefill: int = PREFILL) -> Rollout:
    """Return the memory of the hf engine, if prompts begin with `first` tokens and rows grow to `longest` tokens."""
    fuse = parameters(architecture) < FUSE_BELOW  # of the whole model: a shortened one might be below the limit
    return _deep(architecture, lambda cut: _rollout(cut, config, first, longest, prefill, fuse))


def _deep(architecture: Any, count: Callable[[object], Counted]) -> Counted:
    """Count two models with few layers and extrapolate linearly to the full depth.

    A model with at most `MORE` layers, or with layers of several types, is counted whole.
    """
    depth = int(architecture.num_hidden_layers)
    if depth <= MORE or len(set(getattr(architecture, "layer_types", None) or ())) > 1:
        return count(architecture)
    few, more = (count(cut(architecture, layers)) for layers in (FEW, MORE))
    line = {f.name: (getattr(few, f.name), getattr(more, f.name)) for f in fields(few)}
    return type(few)(**{name: a + (b - a) * (depth - FEW) // (MORE - FEW) for name, (a, b) in line.items()})


def cut(architecture: Any, layers: int) -> Any:
    """Return a copy of a model's configuration with `layers` layers."""
    short = copy.deepcopy(architecture)
    short.num_hidden_layers = layers
    if getattr(short, "layer_types", None):
        short.layer_types = short.layer_types[:layers]
    return short


def _update(architecture: object, config: TrainConfig, batch: Rows, gpu: bool) -> Update:
    with FakeTensorMode(), LiveBytes() as live:
        model = _model(architecture, config)
        weights = live.restart()
        behind = masters(model, config.precision, 1)
        before_update = live.restart()
        updated = list(model.parameters() if behind is None else behind.parameters())
        stepped = optimizers(model if behind is None else behind, config.lr, muon=config.muon)
        if batch.batches > 1:
            for parameter in updated:
                parameter.grad = torch.empty_like(parameter) if parameter.requires_grad else None
        before = live.restart()
        activations = _pass(live, model, config, batch, gpu)
        logits = max(live.peak - before - activations, 0)
        if behind is not None:
            behind.collect()
        gradients = _size(parameter.grad for parameter in updated)
        before = live.restart()
        torch.nn.utils.clip_grad_norm_(updated, config.grad_clip)
        for optimizer in stepped:
            optimizer.step()
        state, stepping = live.bytes - before, live.peak - live.bytes
        if config.optimizer == "adamw8bit":
            state, stepping = _eight_bits(stepped, state, stepping)
        every = list(model.parameters())
    return Update(
        weights=weights,
        masters=before_update - weights,
        gradients=gradients,
        optimizer=state,
        activations=activations,
        logits=logits,
        stepping=0 if gpu and not config.muon else stepping,  # AdamW's GPU kernel makes no temporary tensors
        parameters=sum(p.numel() for p in every),
        trained=sum(p.numel() for p in every if p.requires_grad),
    )


def _rollout(architecture: object, config: TrainConfig, first: int, longest: int, prefill: int, fuse: bool) -> Rollout:
    context = config.context_tokens or int(getattr(architecture, "max_position_embeddings", None) or 4096)
    longest, first = min(longest, context), min(first, context - 1)
    with FakeTensorMode(), LiveBytes() as live:
        model = _model(architecture, config)
        weights = live.restart()
        if unsupported(model) is not None:  # one row at a time, with a cache that grows with the row
            slow = LibraryModel(model, config.concurrency, context)
            return Rollout(0, _library_cache(slow, longest) * config.concurrency, _sampling_peak(live, config, model))
        backend = SlotModel(model, config.concurrency, context, fuse=fuse)
        packed = live.bytes - weights - _size([*backend.keys, *backend.values])
        capacity, growing = grown(first, longest, context), 0
        if capacity > backend.capacity:
            backend._grow(capacity)
            growing = _size(backend.keys) // 2  # the last doubling has half of the old cache next to the new one
        cache = _size([*backend.keys, *backend.values])
        before = live.restart()
        count = min(config.concurrency, -(-prefill // first))
        backend.forward([Row(slot, 0, [0] * first) for slot in range(count)])
        backend.forward([Row(slot, longest - 1, [0]) for slot in range(config.concurrency)])
        working = max(live.peak - before, growing)
        return Rollout(packed, cache, max(working, _sampling_peak(live, config, model)))


def grown(first: int, longest: int, context: int) -> int:
    """Return the tokens that a slot of the hf engine can hold after it grew for a row of `longest` tokens."""
    capacity, needed = min(FIRST_CAPACITY, context), first
    while capacity < longest:
        needed = max(needed, capacity + 1)
        capacity = min(context, max(needed, 2 * capacity))
    return capacity


def _model(architecture: object, config: TrainConfig) -> Any:
    """Return the model that the run would train, with tensors that have no contents."""
    from transformers import AutoModelForCausalLM

    with unset_fake_temporarily(), torch.device("meta"):  # adapters cannot be added to a model of fake tensors
        model: Any = AutoModelForCausalLM.from_config(architecture, dtype=DTYPES[config.precision])
        if config.lora_rank:
            lora.add_adapters(model, config)
    tensors: dict[int, Tensor] = {}  # tied weights stay one tensor
    for module in model.modules():
        for name, own in module._parameters.items():
            if own is not None and id(own) not in tensors:
                tensors[id(own)] = torch.nn.Parameter(torch.empty(own.shape, dtype=own.dtype), own.requires_grad)
            module._parameters[name] = None if own is None else tensors[id(own)]
        for name, own in module._buffers.items():
            module._buffers[name] = None if own is None else torch.empty(own.shape, dtype=own.dtype)
        if isinstance(getattr(module, "gate_up_proj", None), Tensor):
            module.forward = _Experts(module)
    return model.eval()


class _Experts:
    """Stand-in for a mixture of experts: the same computation without routing, which needs real numbers."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, states: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        repeated = states.repeat_interleave(experts.shape[-1], 0)  # [tokens * experts of a token, width]
        gate, up = F.linear(repeated, self.module.gate_up_proj[0]).chunk(2, dim=-1)
        out = F.linear(self.module.act_fn(gate) * up, self.module.down_proj[0]) * weights.reshape(-1, 1)
        return out.view(*experts.shape, -1).sum(-2)


def _pass(live: LiveBytes, model: Any, config: TrainConfig, batch: Rows, gpu: bool) -> int:
    """Run a micro-batch forward and backward; return the bytes that it has allocated when the output layer begins."""
    small = config.attention in ("auto", "small") and not (gpu or config.gradient_checkpointing or config.compile)
    method = "small" if small and forward.supported(model) else "sdpa" if config.attention == "sdpa" else "rows"
    prepared = layers.prepare(model, gradient_checkpointing=config.gradient_checkpointing, compiled=False)
    before, ready, head = live.bytes, micro_batch(batch), model.get_output_embeddings()
    reached: list[int] = []
    with layers.recomputed(prepared), head.register_forward_pre_hook(lambda *_: reached.append(live.bytes)):
        if changes_logits(model):
            scores = policy_logprobs(model, ready, config.temperature, method)
        else:
            hidden = trained_states(model, ready, method)
            reached.append(live.bytes)
            scores = project(head, hidden, ready.targets, config.temperature)
    (scores.logprobs.exp() * ready.weights).sum().backward()
    return reached[0] - before


def _eight_bits(updates: Sequence[object], state: int, stepping: int) -> tuple[int, int]:
    """Return the bytes of optimizer state and of a step with 8-bit AdamW, which uses 8 bits only for large tensors."""
    parameters = [p for o in updates if isinstance(o, torch.optim.AdamW) for g in o.param_groups for p in g["params"]]
    numbers = sum(p.numel() for p in parameters if p.numel() >= 4096 and not p.numel() % 256)
    fewer = bytes_per_parameter("fp32").state - bytes_per_parameter("fp32", "adamw8bit").state
    return state - int(fewer * numbers), stepping if len(updates) > 1 else 0


def micro_batch(shape: Rows) -> Batch:
    """Return a micro-batch of zeros with this shape; the trained tokens are at the end of each row."""
    trained = shape.rows * shape.trained
    numbers = [torch.zeros(trained) for _ in range(3)]
    indices = [torch.zeros(trained, dtype=torch.int64) for _ in range(2)]
    ids, empty = torch.zeros(shape.rows, shape.tokens, dtype=torch.int64), torch.zeros(trained, dtype=torch.int64)
    lengths = (shape.tokens,) * shape.rows
    return Batch(
        ids, empty, torch.zeros_like(empty), *numbers, *indices, lengths=lengths, counts=(shape.trained,) * shape.rows
    )


def _sampling_peak(live: LiveBytes, config: TrainConfig, model: Any) -> int:
    """Return the peak bytes of sampling one token in every slot."""
    before = live.restart()
    logits = torch.zeros(config.concurrency, int(model.get_input_embeddings().weight.shape[0]))
    draws = [Draw(Sampling(temperature=config.temperature), 0.5, ())] * config.concurrency
    with suppress(DataDependentOutputException):  # tensors without content cannot be read; memory is allocated before that
        sample(logits, draws)
    return live.peak - before


def _library_cache(backend: LibraryModel, longest: int) -> int:
    backend.forward([Row(0, 0, [0] * longest)])
    cache = backend.caches[0]
    return _size(t for layer in cache.layers for t in (layer.keys, layer.values))


def _size(tensors: Iterable[Tensor | None] | Sequence[Tensor]) -> int:
    """Return the total bytes of tensors; a storage shared by several tensors counts once."""
    storages = (tensor.untyped_storage() for tensor in tensors if tensor is not None)
    return sum({int(storage._cdata): storage.nbytes() for storage in storages}.values())
