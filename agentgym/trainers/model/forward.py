"""A forward pass for small Llama-shaped models on a CPU, where transformers spends most time outside matrix products.

It is faster for four reasons, none of which changes the result: padding is left out; the scales of norms are folded into
the following matrix; rotary embedding is one multiplication of complex numbers; and the last layer computes only the
tokens that predict a trained token.
"""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from agentgym.trainers.model.tree import Tree

FAMILIES = ("LlamaForCausalLM", "Qwen3ForCausalLM")
FEW = 0.4  # share of tokens below which masked queries cost less than causal attention of all tokens
QUERIES = 128  # queries per call in a span that continues others
MATRICES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def supported(model: Any) -> bool:
    """Return True if `hidden_states` supports the model: plain Llama shape, dense, float32, on the CPU."""
    if type(model).__name__ not in FAMILIES or model.device.type != "cpu" or model.dtype != torch.float32:
        return False
    config, rotary = model.config, model.model.rotary_emb
    matrices = [module for name, module in model.named_modules() if name.rpartition(".")[2] in MATRICES]
    return (
        all(type(module) is torch.nn.Linear and cast(Any, module).bias is None for module in matrices)
        and config.hidden_act == "silu"
        and not config.attention_dropout
        and not getattr(config, "use_sliding_window", False)
        and rotary.rope_type in ("default", "linear", "llama3")
        and rotary.attention_scaling == 1.0
        and not model.is_gradient_checkpointing
    )


def hidden_states(
    model: Any, ids: Tensor, places: Tensor, lengths: Sequence[int], counts: Sequence[int], tree: Tree | None = None
) -> Tensor:
    """Return the final hidden states, [places, width], of right-padded rows `ids` [rows, tokens] at `places`.

    `places`: ascending flat indices. `lengths`: tokens of each row. `counts`: places in each row. With a `tree`, the
    rows are the tree's spans, concatenated.
    """
    decoder, eps = model.model, float(model.config.rms_norm_eps)
    if tree is None:
        real = torch.cat([torch.arange(n) + row * ids.shape[1] for row, n in enumerate(lengths)])  # [real tokens]
        positions = real % ids.shape[1]
    else:
        real, positions = torch.arange(ids.shape[1]), tree.positions
    angles = positions[:, None] * decoder.rotary_emb.inv_freq  # [real tokens, head / 2]
    turns = torch.polar(torch.ones_like(angles), angles)[:, None]
    places = torch.searchsorted(real, places)
    table = decoder.embed_tokens  # its `padding_idx` row starts at 0 and gets no gradient, even if sampled
    states = F.embedding(ids.flatten()[real], table.weight, table.padding_idx)  # [real tokens, width]
    for layer in decoder.layers:
        asking = places if layer is decoder.layers[-1] else None
        outputs = _attend(layer, lengths, counts, states, turns, eps, asking, tree)
        states = states if asking is None else states[asking]
        states = torch.addmm(states, outputs, layer.self_attn.o_proj.weight.T)
        inner, scale = _normalised(states, eps), layer.post_attention_layernorm.weight
        gate = F.linear(inner, layer.mlp.gate_proj.weight * scale)
        up = F.linear(inner, layer.mlp.up_proj.weight * scale)
        states = torch.addmm(states, F.silu(gate) * up, layer.mlp.down_proj.weight.T)
    return _normalised(states, eps) * decoder.norm.weight


def _attend(
    layer: Any,
    lengths: Sequence[int],
    counts: Sequence[int],
    states: Tensor,
    turns: Tensor,
    eps: float,
    places: Tensor | None,
    tree: Tree | None,
) -> Tensor:
    """Return the head outputs of a layer for concatenated rows, [places, heads * head].

    `places`: positions of the query tokens, [places]; None means all tokens.
    """
    attention, scale, size = layer.self_attn, layer.input_layernorm.weight, layer.self_attn.head_dim
    inner = _normalised(states, eps)
    weight = _paired(torch.cat([attention.q_proj.weight, attention.k_proj.weight]), size) * scale
    both = F.linear(inner, weight).view(len(states), -1, size)  # [tokens, query and key heads, head]
    keys = attention.k_proj.weight.shape[0] // size
    queries = both.shape[1] - keys
    if hasattr(attention, "q_norm"):
        scales = [attention.q_norm.weight.expand(queries, size), attention.k_norm.weight.expand(keys, size)]
        both = _normalised(both, eps) * _paired(torch.cat(scales).reshape(-1, 1), size).view(-1, size)
    complexes = torch.view_as_complex(both.view(*both.shape[:-1], size // 2, 2)) * turns
    query, key = torch.view_as_real(complexes).flatten(-2).split([queries, keys], 1)
    value = F.linear(inner, attention.v_proj.weight * scale).view(len(states), keys, size)
    few = places is not None and len(places) < FEW * len(states)
    queries_at: list[Tensor | None] = [None] * len(lengths)
    if places is not None and few:
        starts = [end - length for end, length in zip(accumulate(lengths), lengths, strict=True)]
        queries_at = [at - start for at, start in zip(places.split(list(counts)), starts, strict=True)]
        query = query[places].split(list(counts))
    else:
        query = query.split(list(lengths))
    key, value = key.split(list(lengths)), value.split(list(lengths))
    if tree is not None:
        key, value = tree.above(key), tree.above(value)
        queries_at = [_below(depth, length, at) for depth, length, at in zip(tree.depths, lengths, queries_at, strict=True)]
    rows = zip(query, key, value, queries_at, strict=True)
    outputs = torch.cat([(_row if tree is None else _span)(*row) for row in rows])
    return outputs if places is None or few else outputs[places]


def _below(depth: int, length: int, queries_at: Tensor | None) -> Tensor | None:
    """Return the positions of a span's queries in the rows that contain the span, [queries].

    `depth` tokens precede the span of `length` tokens. `queries_at`: positions in the span; None if every token is a
    query. Returns None if every token is a query and the span begins its rows.
    """
    if queries_at is not None:
        return queries_at + depth
    return torch.arange(depth, depth + length) if depth else None


def _span(query: Tensor, key: Tensor, value: Tensor, queries_at: Tensor | None) -> Tensor:
    """Like `_row`, but compute a few queries at a time, so that little of the masked part is computed."""
    if queries_at is None or len(queries_at) <= QUERIES:
        return _row(query, key, value, queries_at)
    parts = zip(query.split(QUERIES), queries_at.split(QUERIES), strict=True)
    return torch.cat([_row(part, key[: int(at[-1]) + 1], value[: int(at[-1]) + 1], at) for part, at in parts])


def _row(query: Tensor, key: Tensor, value: Tensor, queries_at: Tensor | None) -> Tensor:
    """Return the head outputs of one row, [queries, heads * head], from [tokens, heads, head].

    `queries_at`: positions of the queries in the row, [queries]; None if every token is a query.
    """
    mask = None if queries_at is None else queries_at[:, None] >= torch.arange(len(key))
    query, key, value = (tensor.transpose(0, 1)[None] for tensor in (query, key, value))
    outputs = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=mask is None, enable_gqa=True)
    return outputs[0].transpose(0, 1).flatten(1)


def _paired(weight: Tensor, size: int) -> Tensor:
    """Reorder the rows of each head so that the two numbers that rotary embedding rotates together are adjacent."""
    return weight.view(-1, 2, size // 2, weight.shape[-1]).transpose(1, 2).reshape(weight.shape)


class _Normalise(torch.autograd.Function):
    """Compute x / sqrt(mean(x^2) + eps) over the last dimension, with the fewest passes over memory."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, eps: float) -> Tensor:
        norm = torch.linalg.vector_norm(states, dim=-1, keepdim=True)
        inverse = norm.square_().div_(states.shape[-1]).add_(eps).rsqrt_()
        result = states * inverse
        ctx.save_for_backward(result, inverse)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        result, inverse = ctx.saved_tensors
        share = (gradient * result).mean(-1, keepdim=True)
        return torch.addcmul(gradient, result, share, value=-1).mul_(inverse), None


def _normalised(states: Tensor, eps: float) -> Tensor:
    return cast(Tensor, _Normalise.apply(states, eps))
