"""What the policy says about tokens; it needs torch alone, so that a loss can be tried before transformers is imported."""

from typing import NamedTuple

from torch import Tensor


class Scores(NamedTuple):
    """What the policy says about each trained token."""

    logprobs: Tensor  # [trained] float32
    entropy: Tensor  # [trained] float32, of the distribution the token was drawn from
    states: Tensor | None = None  # [trained, width], the hidden states that predict them, where they are asked for
    top: Tensor | None = None  # [trained, k], log-probabilities of the k likeliest tokens, where they are asked for
