"""The generic path of the hf engine: any causal language model of `transformers`, one row at a time."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from agentgym.engines.hf.slots import Row, library_forward


class LibraryModel:
    """Runs the library's own forward pass with one cache object per slot: slow, but correct for every architecture."""

    shares = False
    """True if the engine may share prefixes between rows of the cache by `copy`."""

    def __init__(self, model: object, slots: int, context: int) -> None:
        self.model, self.slots, self.context = model, slots, context
        self.caches: dict[int, Any] = {}
        self.tokens: dict[int, list[int]] = {}

    def refresh(self) -> None:
        """Clear all caches, which were computed under other weights."""
        self.caches.clear()
        self.tokens.clear()

    def forget(self, slot: int) -> None:
        """Clear a slot's cache."""
        self.caches.pop(slot, None)
        self.tokens.pop(slot, None)

    def copy(self, source: int, target: int, length: int) -> None:
        """Raise an error: not every cache type can be cut or copied. Never called, since `shares` is False.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("the generic path shares no prefixes")

    def forward(self, rows: Sequence[Row]) -> Tensor:
        """Append tokens to slots; return the logits after each requested token, float32 [requested, vocabulary]."""
        return torch.cat([self._one(row) for row in rows])

    @torch.inference_mode()
    def _one(self, row: Row) -> Tensor:
        tokens = self.tokens.get(row.slot, [])
        ids = [*tokens[: row.start], *row.ids]
        cache = self.caches.get(row.slot)
        if cache is None or len(tokens) != row.start:  # recurrent and sliding caches cannot be truncated: start over
            cache, new = None, ids
        else:
            new = list(row.ids)
        out = library_forward(self.model, new, past_key_values=cache, use_cache=True)
        self.caches[row.slot] = getattr(out, "past_key_values", None)
        self.tokens[row.slot] = ids
        return out.logits[0, -row.requested :].float()

    @torch.inference_mode()
    def logits(self, ids: Sequence[int]) -> Tensor:
        """Return the logits at every position of one text without touching the cache, float32 [tokens, vocabulary]."""
        return library_forward(self.model, ids, use_cache=False).logits[0].float()
