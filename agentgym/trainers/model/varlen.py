"""Flash attention over rows of different lengths, from any installed package that implements it."""

# flash-attn is installed on few machines, and typed on none.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingImports=false, reportAttributeAccessIssue=false

import importlib
import inspect
from collections.abc import Callable
from functools import cache

from torch import Tensor

Kernel = Callable[[Tensor, Tensor, Tensor, Tensor, int, float | None, int | None, float | None], Tensor]
"""A kernel: (query, key, value [tokens, heads, head], ends [rows + 1], longest row, scale, window, cap of scores) ->
[tokens, heads, head]. It is causal within each row: a token attends to itself and at most window - 1 tokens before it."""

PACKAGES = ("flash_attn_interface", "flash_attn")
"""Import names of flash-attn 3 and flash-attn 2."""


@cache
def varlen() -> Kernel | None:
    """Return the best installed kernel: flash-attn 3, flash-attn 2, or torch's own (since 2.10); None if there is none."""
    for name in PACKAGES:
        try:
            return _packaged(importlib.import_module(name).flash_attn_varlen_func)
        except (ImportError, OSError, AttributeError):  # not installed, or built for another torch
            continue
    try:
        module = importlib.import_module("torch.nn.attention.varlen")
    except ImportError:
        return None
    return _torchs(module.varlen_attn)


def _packaged(function: Callable[..., Tensor]) -> Kernel:
    def attend(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        ends: Tensor,
        longest: int,
        scale: float | None,
        window: int | None,
        cap: float | None,
    ) -> Tensor:
        left = -1 if window is None else window - 1  # without the token itself
        return function(
            query,
            key,
            value,
            cu_seqlens_q=ends,
            cu_seqlens_k=ends,
            max_seqlen_q=longest,
            max_seqlen_k=longest,
            softmax_scale=scale,
            causal=True,
            window_size=(left, 0 if left >= 0 else -1),
            softcap=cap or 0.0,
        )

    return attend


def _torchs(function: Callable[..., Tensor]) -> Kernel:
    shares_heads = "enable_gqa" in inspect.signature(function).parameters  # not yet in torch 2.10 and 2.11

    def attend(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        ends: Tensor,
        longest: int,
        scale: float | None,
        window: int | None,
        cap: float | None,
    ) -> Tensor:
        if cap is not None:
            raise NotImplementedError("torch's variable-length attention does not cap scores")
        groups, options = query.shape[1] // key.shape[1], {}
        if groups > 1 and shares_heads:
            options["enable_gqa"] = True
        elif groups > 1:
            key, value = (tensor.repeat_interleave(groups, 1) for tensor in (key, value))
        return function(
            query,
            key,
            value,
            ends,
            ends,
            longest,
            longest,
            scale=scale,
            window_size=(-1 if window is None else window - 1, 0),
            **options,
        )

    return attend
