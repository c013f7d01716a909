"""Attention methods that let rows share a forward pass of any causal model; each row attends only to itself."""

# torch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false

import logging
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from itertools import accumulate
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import flex_attention_mask, sdpa_mask

from agentgym.errors import BadConfig
from agentgym.trainers.model import forward
from agentgym.trainers.model.tree import Tree
from agentgym.trainers.model.varlen import varlen

log = logging.getLogger(__name__)

NAMES = {"flash": "agentgym-varlen", "flex": "agentgym-flex", "split": "agentgym-split", "sdpa": "sdpa"}
"""Name in transformers of each unpadded method; transformers reserves names with `flash` for its own kernels."""
LAYERS = {"full_attention", "sliding_attention"}
"""Layer types for which rows can be separated; recurrent and convolutional layers carry state from one row to the next."""
SHARING = ("small", "split", "flex", "sdpa")
"""Methods that support shared prefixes."""
BLOCK = 128
"""Block size of flex attention's mask, in tokens; sequences are padded to whole blocks so that they share a kernel."""

_unpadded: ContextVar[bool] = ContextVar("_unpadded", default=False)


def choose(
    model: PreTrainedModel, requested: str = "auto", *, compiled: bool = False, shared: bool = False, sharded: bool = False
) -> str:
    """Set the attention method of a model and return it; `auto` is the best one that keeps the results the same.

    Apart from `small` and `rows`, a method is accepted only if two short rows have nearly the same result together as
    separately. `compiled`: the layers are compiled. `shared`: rows share prefixes. `sharded`: the layers gather their
    weights when they are called.

    Raises:
        BadConfig: the requested method cannot run, or `auto` finds none that supports shared prefixes; the message has
            the reason.
    """
    reasons: dict[str, str] = {}
    own = _own(model)
    candidates = [method for method in _candidates(model, compiled) if not (sharded and method == "small")]
    for method in candidates if requested == "auto" else (requested,):
        reason = _cannot_share(model, method) if shared else None
        reason = reason or _obstacle(model, method, own, shared)
        if reason is None:
            if reasons:
                log.info("attention %r; %s", method, "; ".join(f"not {name!r}: {why}" for name, why in reasons.items()))
            return method
        reasons[method] = reason
    model.set_attn_implementation(own)
    if requested == "auto":
        why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise BadConfig(f"share_prefixes: rows of this model cannot share a prefix here ({why}). Leave share_prefixes off")
    raise BadConfig(f"attention {requested!r} cannot run here: {reasons[requested]}. Leave attention at 'auto'")


def adopt(model: PreTrainedModel, method: str) -> None:
    """Set a model's attention to the method that `choose` returned for a model of the same kind."""
    model.set_attn_implementation(NAMES.get(method) or _own(model))


def inputs(
    ids: Tensor, places: Tensor, lengths: Sequence[int], method: str, tree: Tree | None = None
) -> tuple[dict[str, object], Tensor]:
    """Return the model's arguments for right-padded rows `ids` [rows, tokens], and the converted `places` [places].

    If the method needs no padding, the rows become one sequence [1, tokens] whose positions restart with every row.
    `places` are flat indices. The spans of a `tree` already form such a sequence.
    """
    if tree is not None:
        return _tree_inputs(ids, tree, method), places
    if method == "rows":
        return {"input_ids": ids, "use_cache": False}, places
    device, width = ids.device, ids.shape[1]
    real = torch.cat([torch.arange(n) + row * width for row, n in enumerate(lengths)]).to(device)
    spare = -len(real) % BLOCK if method == "flex" else 0  # an extra row after all others
    arguments: dict[str, object] = {
        "input_ids": F.pad(ids.flatten()[real], (0, spare))[None],
        "position_ids": torch.cat([real % width, torch.arange(spare, device=device)])[None],
        "use_cache": False,
    }
    if method in ("flash", "split"):
        where = "cpu" if method == "split" else device  # `split` reads the lengths on the host
        ends = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=where)
        longest = max(lengths)
        arguments |= {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends, "max_length_q": longest, "max_length_k": longest}
    return arguments, torch.searchsorted(real, places)


def _tree_inputs(ids: Tensor, tree: Tree, method: str) -> dict[str, object]:
    device, spare = ids.device, -ids.shape[1] % BLOCK if method == "flex" else 0
    arguments: dict[str, object] = {
        "input_ids": F.pad(ids, (0, spare)),
        "position_ids": torch.cat([tree.positions, torch.arange(spare)])[None].to(device),
        "use_cache": False,
    }
    if method == "split":
        return arguments | {"prefix_tree": tree}
    size = ids.shape[1] + spare
    ends = F.pad(tree.ends, (0, spare), value=size).to(device)
    if method == "flex":

        def attends(_row: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return (key <= query) & (query < ends[key])

        compiled = device.type == "cuda"  # else the whole [tokens, tokens] mask is materialized
        return arguments | {"attention_mask": create_block_mask(attends, 1, None, size, size, device, _compile=compiled)}
    at = torch.arange(size, device=device)
    return arguments | {"attention_mask": ((at <= at[:, None]) & (at[:, None] < ends))[None, None]}


def call(module: torch.nn.Module, arguments: Mapping[str, object], **options: object) -> Any:
    """Call a model or its decoder with the arguments from `inputs`."""
    token = _unpadded.set("position_ids" in arguments)
    try:
        return module(**arguments, **options)
    finally:
        _unpadded.reset(token)


def hidden_states(
    model: PreTrainedModel, ids: Tensor, places: Tensor, lengths: Sequence[int], method: str, tree: Tree | None = None
) -> Tensor:
    """Return the final hidden states [places, width] at flat indices of right-padded rows `ids` [rows, tokens]."""
    arguments, places = inputs(ids, places, lengths, method, tree)
    return call(model.get_decoder(), arguments).last_hidden_state.flatten(0, 1)[places]


def _candidates(model: PreTrainedModel, compiled: bool) -> tuple[str, ...]:
    if model.device.type == "cuda":
        return ("flash", "flex", "sdpa", "rows")
    if compiled:  # one call per row is recompiled for every number of rows
        return ("sdpa", "rows")
    return ("small", "split", "sdpa", "rows")


def _cannot_share(model: PreTrainedModel, method: str) -> str | None:
    """Return the reason why a method does not support shared prefixes for this model, or None."""
    if method not in SHARING:
        return f"rows share no prefix by it, but by {', '.join(map(repr, SHARING))}"
    config = model.config.get_text_config()
    if (
        method in ("flex", "sdpa")
        and getattr(config, "sliding_window", None)
        and getattr(config, "use_sliding_window", True)
    ):
        return "its mask of shared prefixes knows no sliding window"
    return None


def _obstacle(model: PreTrainedModel, method: str, own: str, shared: bool) -> str | None:
    """Set the method and return None, or return the reason why it cannot replace the model's attention."""
    if method == "small":
        return None if forward.supported(model) else "it is for dense Llama and Qwen3 models in fp32 on a CPU"
    if method == "rows":
        model.set_attn_implementation(own)
        return None
    return _unfit(model) or _missing(model, method) or _difference(model, method, own, shared)


def _unfit(model: PreTrainedModel) -> str | None:
    """Return the reason why the model's layers carry state from one row to the next, or None if they do not."""
    config = model.config.get_text_config()
    kinds = set(cast("Sequence[str]", getattr(config, "layer_types", None) or ())) - LAYERS
    if getattr(config, "attention_chunk_size", None):
        kinds.add("chunked_attention")  # chunks are counted from the start of the sequence
    return f"the model has layers that mix rows ({', '.join(sorted(kinds))})" if kinds else None


def _missing(model: PreTrainedModel, method: str) -> str | None:
    """Return a requirement of the method that is not met here, or None."""
    if method == "flex" and model.device.type != "cuda":
        return f"flex attention has no backward pass on {model.device.type}"
    if method == "flash":
        if model.device.type != "cuda" or model.dtype not in (torch.bfloat16, torch.float16):
            return f"flash attention needs a GPU and precision 'bf16'; the model is {model.dtype} on {model.device.type}"
        if varlen() is None:
            return "neither flash-attn nor a torch with variable-length attention (2.10) is installed"
    if method in ("split", "sdpa") and _capped(model):
        return "torch's attention does not cap its scores as this model does"
    return None


def _capped(model: PreTrainedModel) -> bool:
    return getattr(model.config.get_text_config(), "attn_logit_softcapping", None) is not None


def _own(model: Any) -> str:
    """Return the name of the attention that transformers itself uses for the model."""
    name = str(model.config._attn_implementation)
    if _capped(model):
        return "eager"  # the library's SDPA ignores the cap
    return "sdpa" if name in NAMES.values() else name


@torch.no_grad()
def _difference(model: PreTrainedModel, method: str, own: str, shared: bool) -> str | None:
    """Return the difference between rows together and rows alone, or the error; None if the results agree.

    `shared`: also compare rows that share a prefix.
    """
    device, size = model.device, len(cast(Tensor, model.get_input_embeddings().weight))
    ids = F.pad(torch.arange(12).remainder(size), (0, 2)).view(2, 7).to(device)
    fork = torch.cat([ids[0, :3], ids[1, :2]])  # shares a prefix with the first row

    def alone(row: Tensor) -> Tensor:
        return hidden_states(model, row[None], torch.arange(len(row), device=device), (len(row),), "rows")

    def together(rows: Tensor, lengths: tuple[int, ...], tree: Tree | None = None) -> Tensor:  # rows without padding
        return hidden_states(model, rows, torch.arange(sum(lengths), device=device), lengths, method, tree)

    try:
        model.set_attn_implementation(own)
        expected = [alone(ids[0]), alone(ids[1, :5])]
        expected += [expected[0], alone(fork)[3:]] if shared else []
        model.set_attn_implementation(NAMES[method])
        computed = [together(ids, (7, 5))]
        if shared:
            computed += [together(torch.cat([ids[0], fork[3:]])[None], (3, 4, 2), Tree((3, 4, 2), (-1, 0, 0)))]
    except Exception as error:  # kernels and models raise many types for unsupported inputs
        return f"{type(error).__name__}: {(str(error).splitlines() or ['no message'])[0]}"
    right = torch.cat(expected).float()
    gap = float((torch.cat(computed).float() - right).norm() / right.norm())
    most = 1e-3 if model.dtype == torch.float32 else 0.05
    return None if gap <= most else f"rows together differ by {gap:.2g} of their size from rows alone"


# The library calls these for every layer, with [rows, heads, tokens, head].


def _split(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """Attend with one call per row, or per span of a tree, and nothing between rows; without row lengths, call SDPA."""
    ends: Tensor | None = options.get("cu_seq_lens_q")
    tree: Tree | None = options.get("prefix_tree")
    if ends is None and tree is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    _plain(options)
    lengths = tree.lengths if tree is not None else cast(Tensor, ends).diff().tolist()
    queries, keys, values = (tensor.split(lengths, 2) for tensor in (query, key, value))
    if tree is not None:
        keys, values = tree.above(keys, 2), tree.above(values, 2)
    rows, how = zip(queries, keys, values, strict=True), (options.get("scaling"), options.get("sliding_window"))
    outputs = [part for q, k, v in rows for part in _span(q, k, v, *how)]
    return torch.cat(outputs, 2).transpose(1, 2), None


def _span(query: Tensor, key: Tensor, value: Tensor, scale: float | None, window: int | None) -> list[Tensor]:
    """Like `_row`, but return the outputs in parts of a few queries each, so that little of the masked part is computed."""
    before = key.shape[2] - query.shape[2]
    if not before:
        return [_row(query, key, value, scale, window)]
    rows, end = list[Tensor](), before
    for part in query.split(forward.QUERIES, 2):
        end += part.shape[2]
        rows.append(_row(part, key[:, :, :end], value[:, :, :end], scale, window))
    return rows


def _row(query: Tensor, key: Tensor, value: Tensor, scale: float | None, window: int | None) -> Tensor:
    """Return the attention outputs of a row's last tokens, [1, heads, queries, head], which attend over the whole row.

    Each token attends to itself and at most `window` - 1 tokens before it, or to all of these if `window` is None.
    """
    length, band = key.shape[2], None
    if query.shape[2] < length or (window is not None and length > window):
        places = torch.arange(length, device=query.device)
        distance = places[length - query.shape[2] :, None] - places
        band = (distance >= 0) & (distance < (window or length))
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=band, is_causal=band is None, scale=scale, enable_gqa=query.shape[1] != key.shape[1]
    )


def _flash(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """Attend with a variable-length flash kernel; without row lengths or a kernel, call SDPA."""
    ends: Tensor | None = options.get("cu_seq_lens_q")
    kernel = varlen()
    if ends is None or kernel is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    _plain(options, "softcap")
    packed = [tensor[0].transpose(0, 1) for tensor in (query, key, value)]  # [tokens, heads, head]
    window = cast("int | None", options.get("sliding_window"))
    longest, scale, cap = options["max_length_q"], options.get("scaling"), options.get("softcap")
    return kernel(packed[0], packed[1], packed[2], ends, longest, scale, window, cap)[None], None


def _flex(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | BlockMask | None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend with flex attention and a block mask (from `_flex_mask` or a prefix tree); without one, call SDPA."""
    if not isinstance(attention_mask, BlockMask):
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return flex_attention_forward(module, query, key, value, attention_mask, **options)


def _flex_mask(*arguments: Any, **options: Any) -> object:
    return (flex_attention_mask if _unpadded.get() else sdpa_mask)(*arguments, **options)


def _plain(options: Mapping[str, object], *allowed: str) -> None:
    """Raise an error for an option that is neither implemented here nor `allowed`; `choose` then tries another method.

    Raises:
        NotImplementedError: such an option is set.
    """
    for name in {"softcap", "s_aux", "position_bias"} - set(allowed):
        if options.get(name) is not None:
            raise NotImplementedError(f"attention with {name}")


def _mask(*arguments: Any, **options: Any) -> object:
    return None if _unpadded.get() else sdpa_mask(*arguments, **options)


for _name, _attend, _masks in (
    (NAMES["split"], _split, _mask),
    (NAMES["flash"], _flash, _mask),
    (NAMES["flex"], _flex, _flex_mask),
):
    AttentionInterface.register(_name, cast(Any, _attend))
    AttentionMaskInterface.register(_name, cast(Any, _masks))
