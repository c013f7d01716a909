"""The policy's scores of tokens; needs only torch, so that a loss can be tried before transformers is imported."""

from typing import NamedTuple

from torch import Tensor


class Scores(NamedTuple):
    """The policy's scores of each trained token."""

    logprobs: Tensor
    """Log-probability of each token: [trained], float32."""
    entropy: Tensor
    """Entropy of the distribution that each token was drawn from, in nats: [trained], float32."""
    states: Tensor | None = None
    """Hidden states that predict the tokens: [trained, width]; None unless requested."""
    top: Tensor | None = None
    """Log-probabilities of the k likeliest tokens at each place: [trained, k]; None unless requested."""
