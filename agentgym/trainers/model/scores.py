"""The policy's scores of tokens. This module needs only torch, so a loss can be tried before transformers is imported."""

from typing import NamedTuple

from torch import Tensor


class Scores(NamedTuple):
    """The policy's scores of each trained token."""

    logprobs: Tensor
    """[trained], float32."""
    entropy: Tensor
    """Entropy of the distribution that the token was drawn from: [trained], float32."""
    states: Tensor | None = None
    """Hidden states that predict the tokens, on request: [trained, width]."""
    top: Tensor | None = None
    """Log-probabilities of the k likeliest tokens, on request: [trained, k]."""
