"""How rows share one forward pass of any causal model: unpadded, one after the other, each attending to itself alone."""

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
from torch.nn.attention.flex_attention import BlockMask
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import flex_attention_mask, sdpa_mask

from agentgym.errors import BadConfig
from agentgym.trainers.model import forward
from agentgym.trainers.model.varlen import varlen

log = logging.getLogger(__name__)

NAMES = {"flash": "agentgym-flash", "flex": "agentgym-flex", "split": "agentgym-split", "sdpa": "sdpa"}
"""What the library calls the attention of each method."""
LAYERS = {"full_attention", "sliding_attention"}
"""Kinds of layers that can tell rows apart; recurrent and convolving ones carry one row's state into the next."""
BLOCK = 128
"""Flex attention looks at the mask in blocks of so many tokens; sequences of whole blocks share a compiled kernel."""

_unpadded: ContextVar[bool] = ContextVar("_unpadded", default=False)


def choose(model: PreTrainedModel, asked: str = "auto", *, compiled: bool = False) -> str:
    """Make a model attend by a method and return it; for `auto`, the best that runs here and does not change the result.

    A method is taken only after two short rows, run together, came out as each does by itself. Raises BadConfig, with
    the reason, where the method that was asked for cannot run. `compiled`: whether the layers are compiled.
    """
    reasons: dict[str, str] = {}
    own = _own(model)
    for method in _candidates(model, compiled) if asked == "auto" else (asked,):
        reason = _obstacle(model, method, own)
        if reason is None:
            if reasons:
                log.info("attention %r; %s", method, "; ".join(f"not {name!r}: {why}" for name, why in reasons.items()))
            return method
        reasons[method] = reason
    model.set_attn_implementation(own)
    raise BadConfig(f"attention {asked!r} cannot run here: {reasons[asked]}. Leave attention at 'auto'")


def inputs(ids: Tensor, places: Tensor, lengths: Sequence[int], method: str) -> tuple[dict[str, object], Tensor]:
    """Return what a model is called with for right-padded rows `ids` [rows, tokens], and where `places` lie in it.

    Unpadded, the rows are one sequence [1, tokens] in which positions begin again with every row. `places` are flat indices.
    """
    if method == "rows":
        return {"input_ids": ids, "use_cache": False}, places
    device, width = ids.device, ids.shape[1]
    real = torch.cat([torch.arange(n) + row * width for row, n in enumerate(lengths)]).to(device)
    spare = -len(real) % BLOCK if method == "flex" else 0  # a row of its own, behind all others
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


def call(module: torch.nn.Module, arguments: Mapping[str, object], **options: object) -> Any:
    """Call a model or its decoder with what `inputs` returned."""
    token = _unpadded.set("position_ids" in arguments)
    try:
        return module(**arguments, **options)
    finally:
        _unpadded.reset(token)


def hidden_states(model: PreTrainedModel, ids: Tensor, places: Tensor, lengths: Sequence[int], method: str) -> Tensor:
    """Return the final hidden states [places, width] at flat indices of right-padded rows `ids` [rows, tokens]."""
    arguments, places = inputs(ids, places, lengths, method)
    return call(model.get_decoder(), arguments).last_hidden_state.flatten(0, 1)[places]


def _candidates(model: PreTrainedModel, compiled: bool) -> tuple[str, ...]:
    if model.device.type == "cuda":
        return ("flash", "flex", "sdpa", "rows")
    if compiled:  # a call a row would be compiled anew for every number of rows
        return ("sdpa", "rows")
    return ("small", "split", "sdpa", "rows")


def _obstacle(model: PreTrainedModel, method: str, own: str) -> str | None:
    """Return why a method cannot compute what the model does, None where it can; the model then attends by it."""
    if method == "small":
        return None if forward.supported(model) else "it is for dense Llama and Qwen3 models in fp32 on a CPU"
    if method == "rows":
        model.set_attn_implementation(own)
        return None
    return _unfit(model) or _missing(model, method) or _difference(model, method, own)


def _unfit(model: PreTrainedModel) -> str | None:
    """Return what in a model does not keep rows apart that follow one another."""
    config = model.config.get_text_config()
    kinds = set(cast("Sequence[str]", getattr(config, "layer_types", None) or ())) - LAYERS
    if getattr(config, "attention_chunk_size", None):
        kinds.add("chunked_attention")  # chunks are counted from the start of the sequence
    return f"the model has layers that do not keep rows apart ({', '.join(sorted(kinds))})" if kinds else None


def _missing(model: PreTrainedModel, method: str) -> str | None:
    """Return what a method needs that is not here."""
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
    """Return the attention that the library computes the model with by itself."""
    name = str(model.config._attn_implementation)
    if _capped(model):
        return "eager"  # the library's SDPA leaves the cap out
    return "sdpa" if name in NAMES.values() else name


@torch.no_grad()
def _difference(model: PreTrainedModel, method: str, own: str) -> str | None:
    """Return how two rows together differ from each alone, None where they do not; what cannot run says why."""
    lengths, device = (7, 5), model.device
    size = len(cast(Tensor, model.get_input_embeddings().weight))
    ids = F.pad(torch.arange(12).remainder(size), (0, 2)).view(2, 7).to(device)
    places = torch.arange(12, device=device)  # the second row lies behind the first without a gap
    rows = zip(ids, lengths, strict=True)
    try:
        model.set_attn_implementation(own)
        alone = [hidden_states(model, row[None, :n], torch.arange(n, device=device), (n,), "rows") for row, n in rows]
        expected = torch.cat(alone).float()
        model.set_attn_implementation(NAMES[method])
        together = hidden_states(model, ids, places, lengths, method).float()
    except Exception as error:  # kernels and models refuse what they cannot do with errors of every type
        return f"{type(error).__name__}: {(str(error).splitlines() or ['no message'])[0]}"
    apart = float((together - expected).norm() / expected.norm())
    most = 1e-3 if model.dtype == torch.float32 else 0.05
    return None if apart <= most else f"rows together differ by {apart:.2g} of their size from rows alone"


# The library calls these for every layer, with [rows, heads, tokens, head].


def _split(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """Attend by one call a row: no mask, and no work between rows."""
    ends: Tensor | None = options.get("cu_seq_lens_q")
    if ends is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    _plain(options)
    rows = zip(*(tensor.split(ends.diff().tolist(), 2) for tensor in (query, key, value)), strict=True)
    seen = [_row(q, k, v, options.get("scaling"), options.get("sliding_window")) for q, k, v in rows]
    return torch.cat(seen, 2).transpose(1, 2), None


def _row(query: Tensor, key: Tensor, value: Tensor, scale: float | None, window: int | None) -> Tensor:
    """Return what one row gathers, [1, heads, tokens, head]; each token sees itself and at most window - 1 before it."""
    length, band = query.shape[2], None
    if window is not None and length > window:
        places = torch.arange(length, device=query.device)
        distance = places[:, None] - places
        band = (distance >= 0) & (distance < window)
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=band, is_causal=band is None, scale=scale, enable_gqa=query.shape[1] != key.shape[1]
    )


def _flash(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """Attend by a kernel that is told where rows end."""
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
    """Attend by flex attention under the block mask of `_flex_mask`."""
    if not isinstance(attention_mask, BlockMask):
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return flex_attention_forward(module, query, key, value, attention_mask, **options)


def _flex_mask(*arguments: Any, **options: Any) -> object:
    return (flex_attention_mask if _unpadded.get() else sdpa_mask)(*arguments, **options)


def _plain(options: Mapping[str, object], *allowed: str) -> None:
    """Refuse what would change the result and is not computed here; `choose` then takes another method."""
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
