"""The policy's scores of tokens. This module needs only torch, so a loss can be tried before transformers is imported."""

from typing import NamedTuple

from torch import Tensor


class Scores(NamedTuple):
    """The policy's scores of each trained token."""

    logprobs: Tensor  # [trained] float32
    entropy: Tensor  # [trained] float32, of the distribution that the token was drawn from
    states: Tensor | None = None  # [trained, width], hidden states that predict them, on request
    top: Tensor | None = None  # [trained, k], log-probabilities of the k likeliest tokens, on request
