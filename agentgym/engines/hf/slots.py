"""The fast path of the hf engine: one forward pass over ragged rows; the key-value cache has a row per slot.

It supports decoders shaped like Llama, Qwen2 and Qwen3, and follows the arithmetic of the `transformers` library; a
test compares the logits.
"""

# torch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from agentgym.engines.hf import linear as hf_linear
from agentgym.engines.hf.linear import Linear

Integers = NDArray[np.int64]
SHAPES = ("Qwen3ForCausalLM", "Qwen2ForCausalLM", "LlamaForCausalLM")
STATIC_ROPE = ("default", "linear", "llama3", "yarn")  # frequencies that do not depend on the text's length
FUSE_BELOW = 50_000_000  # parameters; larger models gain nothing from fused projections, which cost memory
PADDING = 100  # maximum percent by which the longest new part of padded rows exceeds the shortest
FIRST_CAPACITY = 256  # initial tokens per slot; doubled for longer rows


class Row(NamedTuple):
    """Tokens to append to one slot, whose cache already contains `start` tokens."""

    slot: int
    start: int
    ids: Sequence[int]
    requested: int = 1
    """Number of positions at the end of the row whose next-token logits are requested."""


def unsupported(model: Any) -> str | None:
    """Return the reason why the fast path cannot run a model; None if it can."""
    kind, config = type(model).__name__, model.config
    if kind not in SHAPES:
        return f"{kind} is not one of {', '.join(SHAPES)}"
    if any(layer != "full_attention" for layer in getattr(config, "layer_types", None) or ()):
        return "it has layers without full attention"
    if model.model.rotary_emb.rope_type not in STATIC_ROPE:
        return f"its rope type is {model.model.rotary_emb.rope_type!r}"
    if 2 * model.model.rotary_emb.inv_freq.numel() != model.model.layers[0].self_attn.head_dim:
        return "it rotates only a part of each head"
    if type(model.model.embed_tokens) is not torch.nn.Embedding:
        return "its embedding is not a plain one"
    linear = [module for layer in model.model.layers for module in _projections(layer)]
    if not all(hf_linear.readable(module) for module in (*linear, model.lm_head)):
        return "its projections are not plain linear layers"
    return None


def _projections(layer: Any) -> list[object]:
    attention, mlp = layer.self_attn, layer.mlp
    heads = [attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj]
    return [*heads, mlp.gate_proj, mlp.up_proj, mlp.down_proj]


@torch.inference_mode()
def library_forward(model: Any, ids: Sequence[int], **options: Any) -> Any:
    """Run the library's own forward pass on one text, [tokens], in evaluation mode; `options` are arguments of the model."""
    training = model.training
    model.eval()  # a trainer may share the module; dropout has no place in sampling
    try:
        return model(input_ids=torch.tensor([list(ids)], device=model.device), **options)
    finally:
        model.train(training)


@dataclass(slots=True)
class _Layer:
    """The weights of one layer. Projections with the same input are a list, of length 1 if they are fused."""

    norm: Tensor
    qkv: list[Linear]
    head_norm: Tensor | None  # [query heads + key heads, head_dim]
    out: Linear
    mlp_norm: Tensor
    gate_up: list[Linear]
    down: Linear


class _Block(NamedTuple):
    """Rows that attend in one call, padded to the same number of new tokens."""

    tokens: slice  # their queries in the packed batch
    slots: slice | Tensor
    place: Tensor | None  # index of each query in rows * longest new part; None without padding
    shape: tuple[int, int]  # rows, longest new part
    length: int  # longest row, including the cached part
    mask: Tensor  # [rows, 1, longest new part, length]; 0 for visible keys, else -inf


class SlotModel:
    """A causal language model with a key-value cache of `slots` rows, which grows with the longest row.

    The model's own weights are used without a copy, except for LoRA adapters (never merged) and small models, where
    `refresh` makes copies. So call `refresh` after every change of the weights.
    """

    shares = True
    """True if the engine may share prefixes between rows of the cache by `copy`."""

    def __init__(self, model: Any, slots: int, context: int, padding: int = PADDING, fuse: bool | None = None) -> None:
        self.model, self.slots, self.context, self.padding = model, slots, context, padding
        self._fuse = sum(p.numel() for p in model.parameters()) < FUSE_BELOW if fuse is None else fuse
        config, attention = model.config, model.model.layers[0].self_attn
        self.heads, self.key_heads = int(config.num_attention_heads), int(config.num_key_value_heads)
        self.head_dim, self.scale = int(attention.head_dim), float(attention.scaling)
        self.eps = float(config.rms_norm_eps)
        self.activation = model.model.layers[0].mlp.act_fn
        self.capacity = 0
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self.refresh()
        self._grow(min(FIRST_CAPACITY, context))

    @torch.inference_mode()
    def refresh(self) -> None:
        """Read the model's weights again after a change."""
        core = self.model.model
        self.device, self.dtype = core.embed_tokens.weight.device, core.embed_tokens.weight.dtype
        self.embedding, self.final_norm = core.embed_tokens.weight, core.norm.weight
        self.head = hf_linear.read(self.model.lm_head)
        self.layers = [self._layer(layer) for layer in core.layers]
        frequencies = core.rotary_emb.inv_freq.float()
        self.rope = (frequencies, float(core.rotary_emb.attention_scaling))

    def _layer(self, layer: Any) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        qkv = [hf_linear.read(module) for module in (attention.q_proj, attention.k_proj, attention.v_proj)]
        gate_up = [hf_linear.read(module) for module in (mlp.gate_proj, mlp.up_proj)]
        head_norm = None
        if hasattr(attention, "q_norm"):
            parts = (attention.q_norm.weight.expand(self.heads, -1), attention.k_norm.weight.expand(self.key_heads, -1))
            head_norm = torch.cat(parts)
        return _Layer(
            norm=layer.input_layernorm.weight,
            qkv=[hf_linear.fused(qkv)] if self._fuse else qkv,
            head_norm=head_norm,
            out=hf_linear.read(attention.o_proj),
            mlp_norm=layer.post_attention_layernorm.weight,
            gate_up=[hf_linear.fused(gate_up)] if self._fuse else gate_up,
            down=hf_linear.read(mlp.down_proj),
        )

    def _grow(self, capacity: int) -> None:
        """Enlarge the cache to `capacity` tokens per row, preserving cached tokens."""
        shape = (self.slots, self.key_heads, capacity, self.head_dim)
        for cache in (self.keys, self.values):
            # Zeros, since a masked weight of 0 times an uninitialised NaN would be NaN.
            grown = [torch.zeros(shape, dtype=self.dtype, device=self.device) for _ in self.layers]
            for old, new in zip(cache, grown, strict=False):
                new[:, :, : self.capacity] = old
            cache[:] = grown
        self.capacity = capacity
        positions = torch.arange(capacity, device=self.device, dtype=torch.float32)
        frequencies, scaling = self.rope
        angles = torch.cat([positions[:, None] * frequencies] * 2, dim=-1)
        sign = torch.cat([-torch.ones_like(frequencies), torch.ones_like(frequencies)])
        self.cos = (angles.cos() * scaling).to(self.dtype)  # [capacity, head_dim]
        self.sin = (angles.sin() * scaling * sign).to(self.dtype)  # signed, so that rotating halves is a plain swap

    def forget(self, slot: int) -> None:
        """Do nothing: the next tokens overwrite a slot's cache."""

    @torch.inference_mode()
    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` cached tokens of a slot to another."""
        for cache in (*self.keys, *self.values):
            cache[target, :, :length] = cache[source, :, :length]

    @torch.inference_mode()
    def forward(self, rows: Sequence[Row]) -> Tensor:
        """Append tokens to slots; return the logits after each requested token, float32 [requested, vocabulary]."""
        needed = max(row.start + len(row.ids) for row in rows)
        if needed > self.capacity:
            self._grow(min(self.context, max(needed, 2 * self.capacity)))
        order = sorted(range(len(rows)), key=lambda i: (len(rows[i].ids), rows[i].slot))
        packed = [rows[i] for i in order]
        counts = np.array([len(row.ids) for row in packed])
        ends = np.cumsum(counts)
        offsets = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        positions = np.repeat(np.array([row.start for row in packed]), counts) + offsets
        slots = np.repeat(np.array([row.slot for row in packed]), counts)
        ids = np.fromiter((token for row in packed for token in row.ids), dtype=np.int64, count=int(ends[-1]))
        heads = np.arange(self.key_heads)
        where = self._tensor((slots[:, None] * self.key_heads + heads) * self.capacity + positions[:, None]).flatten()
        blocks = self._blocks(packed, counts, ends)
        last = np.empty(len(rows), dtype=np.int64)
        last[order] = ends - 1
        if any(row.requested > 1 for row in rows):
            last = np.concatenate([np.arange(end - row.requested, end) + 1 for row, end in zip(rows, last, strict=True)])
        return self._logits(self._layers(self._tensor(ids), self._tensor(positions), where, blocks, self._tensor(last)))

    @torch.inference_mode()
    def logits(self, ids: Sequence[int]) -> Tensor:
        """Return the logits at every position of one text without touching the cache, float32 [tokens, vocabulary]."""
        return library_forward(self.model, ids, use_cache=False).logits[0].float()

    def _tensor(self, array: Integers) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _blocks(self, rows: list[Row], counts: Integers, ends: Integers) -> list[_Block]:
        """Split rows, sorted by their number of new tokens, so that no block is padded by more than `padding` percent."""
        blocks: list[_Block] = []
        first = 0
        while first < len(rows):
            limit = 1 if counts[first] == 1 else counts[first] * (100 + self.padding) / 100
            last = int(np.searchsorted(counts, limit, side="right"))
            blocks.append(
                self._block(rows[first:last], counts[first:last], int(ends[first] - counts[first]), int(ends[last - 1]))
            )
            first = last
        return blocks

    def _block(self, rows: list[Row], counts: Integers, begin: int, end: int) -> _Block:
        slots, starts = np.array([row.slot for row in rows]), np.array([row.start for row in rows])
        longest, length = int(counts.max()), int((starts + counts).max())
        low, span = int(slots.min()), int(slots.max() - slots.min()) + 1
        n, select, line = len(rows), self._tensor(slots), np.arange(len(rows))
        if longest == 1 and span <= 2 * n:  # a view including idle slots costs less than a copy of the active ones
            n, select, line = span, slice(low, low + span), slots - low
        limits = np.zeros((n, 1, longest, 1), dtype=np.int64)
        limits[line] = (starts[:, None] + np.arange(longest))[:, None, :, None]
        mask = torch.zeros((n, 1, longest, length), dtype=self.dtype, device=self.device)
        mask.masked_fill_(torch.arange(length, device=self.device) > self._tensor(limits), float("-inf"))
        place = None
        if n * longest != end - begin:
            within = np.arange(end - begin) - np.repeat(np.cumsum(counts) - counts, counts)
            place = self._tensor(np.repeat(line, counts) * longest + within)
        return _Block(slice(begin, end), select, place, (n, longest), length, mask)

    def _layers(self, ids: Tensor, positions: Tensor, where: Tensor, blocks: list[_Block], last: Tensor) -> Tensor:
        """Return the hidden states after the last layer at the flat indices `last`, [len(last), width]."""
        hidden = F.embedding(ids, self.embedding)  # [tokens, width]
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        heads, both, half = self.heads, self.heads + self.key_heads, self.head_dim // 2
        for number, layer in enumerate(self.layers):
            x = _project(self._norm(hidden, layer.norm), layer.qkv).view(len(ids), -1, self.head_dim)
            queries_keys, values = x[:, :both], x[:, both:]
            if layer.head_norm is not None:
                queries_keys = self._norm(queries_keys, layer.head_norm)
            swapped = torch.cat((queries_keys[..., half:], queries_keys[..., :half]), dim=-1)
            queries_keys = queries_keys * cos + swapped * sin
            keys, queries = queries_keys[:, heads:], queries_keys[:, :heads]
            self.keys[number].view(-1, self.head_dim).index_copy_(0, where, keys.reshape(-1, self.head_dim))
            self.values[number].view(-1, self.head_dim).index_copy_(0, where, values.reshape(-1, self.head_dim))
            attended = [self._attend(number, queries, block) for block in blocks]
            gathered = torch.cat(attended) if len(attended) > 1 else attended[0]
            if layer is self.layers[-1]:  # only these logits are requested
                hidden, gathered = hidden[last], gathered[last]
            hidden = hidden + layer.out(gathered)
            gate, up = _project(self._norm(hidden, layer.mlp_norm), layer.gate_up).chunk(2, dim=-1)
            hidden = hidden + layer.down(self.activation(gate) * up)
        return hidden

    def _attend(self, number: int, queries: Tensor, block: _Block) -> Tensor:
        """Return the attention output of a block, [tokens of the block, query heads * head_dim]."""
        n, longest = block.shape
        x = queries[block.tokens].reshape(-1, self.heads * self.head_dim)
        if block.place is not None:
            x = x.new_zeros((n * longest, x.shape[1])).index_copy_(0, block.place, x)
        keys, values = self.keys[number][:, :, : block.length], self.values[number][:, :, : block.length]
        if isinstance(block.slots, slice):
            keys, values = keys[block.slots], values[block.slots]
        else:
            keys, values = keys.index_select(0, block.slots), values.index_select(0, block.slots)
        if longest == 1:  # treat the query heads that share a key head as its queries, so that each key is read once
            x = x.view(n, self.key_heads, -1, self.head_dim)
            mask = block.mask.expand(-1, -1, x.shape[2], -1)
            out = F.scaled_dot_product_attention(x, keys, values, attn_mask=mask, scale=self.scale)
        else:
            x = x.view(n, longest, self.heads, self.head_dim).transpose(1, 2)
            out = F.scaled_dot_product_attention(x, keys, values, attn_mask=block.mask, scale=self.scale, enable_gqa=True)
            out = out.transpose(1, 2)
        out = out.reshape(n * longest, -1)
        return out if block.place is None else out.index_select(0, block.place)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the RMS norm, computed in float32 and scaled in the model's own precision, as `transformers` does."""
        wide = x.float()
        return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)

    def _logits(self, hidden: Tensor) -> Tensor:
        return self.head(self._norm(hidden, self.final_norm)).float()


def _project(x: Tensor, parts: list[Linear]) -> Tensor:
    outputs = [part(x) for part in parts]
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
