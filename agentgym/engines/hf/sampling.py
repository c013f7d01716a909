"""Batched token sampling from logits; each request has its own temperature, filters and random numbers."""

# torch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.engines.protocol import Sampling


class Draw(NamedTuple):
    """Inputs for sampling one row: settings, a uniform number in [0, 1), and the tokens for the repetition penalty."""

    sampling: Sampling
    uniform: float
    seen: Sequence[int]
    likeliest: int = 0
    """Number of likeliest tokens to return."""


# One generator is set to each request's key: making a new one takes three times as long.
_PHILOX = np.random.Philox(key=0)
_NUMBERS, _FRESH, _ONE = np.random.Generator(_PHILOX), _PHILOX.state, threading.Lock()


def uniforms(seed: int, count: int) -> list[float]:
    """Return `count` uniform random numbers in [0, 1); element i depends only on `seed` and i."""
    key = np.array([seed % 2**64, (seed >> 64) % 2**64], dtype=np.uint64)
    with _ONE:  # engines may run in several threads
        _PHILOX.state = {**_FRESH, "state": {"counter": np.zeros(4, dtype=np.uint64), "key": key}}
        return _NUMBERS.random(count).tolist()


@torch.inference_mode()
def sample(logits: Tensor, draws: Sequence[Draw], row_of: Sequence[int] | None = None) -> tuple[list[int], list[float]]:
    """Draw one token per draw from logits [rows, vocabulary]; return ids and log-probabilities, [draws] each.

    Without filters the log-probability is `log_softmax(logits / temperature)[id]`; with filters it is taken from the
    filtered distribution. Temperature 0 is greedy, with log-probabilities at temperature 1. The drawn token is the
    first whose cumulative probability exceeds the draw's uniform number, so it does not depend on other rows of the
    batch. `row_of`: row of each draw, ascending, [draws]; None for one draw per row.
    """
    rows = np.arange(len(draws)) if row_of is None else np.array(row_of)
    plain = all(draw.sampling.plain() for draw in draws)
    temperatures = np.array([draw.sampling.temperature for draw in draws], dtype=np.float32)
    first = np.searchsorted(rows, np.arange(len(logits)))  # each row's first draw
    if len(rows) > len(first) and not (plain and (temperatures == temperatures[first][rows]).all()):
        logits, rows, first = logits[torch.from_numpy(rows)], np.arange(len(draws)), np.arange(len(draws))
    if not plain:
        logits = _penalised(logits, draws)
    temperatures = temperatures[first]
    greedy = temperatures == 0
    if not (temperatures == 1).all():
        logits = logits / _tensor(np.where(greedy, np.float32(1), temperatures)[:, None], logits)
    if not plain:
        logits = _filtered(logits, draws)
    logprobs = logits.log_softmax(-1)
    at = _tensor(rows, logits)
    if greedy.all():
        ids = logprobs.argmax(-1)[at]
    else:
        column = np.arange(len(rows)) - first[rows]
        uniforms = np.zeros((len(first), column.max() + 1))  # a row's draws side by side
        uniforms[rows, column] = [draw.uniform for draw in draws]
        cumulative = logprobs.double().exp_().cumsum(-1)
        total = cumulative[:, -1:]
        points = _tensor(uniforms, total) * total
        # Rounding must not raise a point to the total, which would be past the last token.
        points = torch.minimum(points, torch.nextafter(total, torch.zeros_like(total)))
        ids = torch.searchsorted(cumulative, points, right=True)[at, _tensor(column, logits)]
        ids.clamp_(max=logits.shape[-1] - 1)  # a row of NaN has no valid id; its logprob shows it
        if greedy.any():
            ids = torch.where(_tensor(greedy[rows], logits), logprobs.argmax(-1)[at], ids)
    return ids.tolist(), logprobs[at, ids].tolist()


def _tensor(values: NDArray[np.generic], like: Tensor) -> Tensor:
    """Convert an array to a tensor on the device of `like`."""
    return torch.from_numpy(values).to(like.device)


def _penalised(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    """Penalize tokens in `seen`: divide positive logits by the penalty, multiply negative ones (Keskar et al. 2019)."""
    logits = logits.clone()
    for row, draw in enumerate(draws):
        penalty = draw.sampling.repetition_penalty
        if penalty != 1.0 and draw.seen:
            seen = torch.tensor(sorted(set(draw.seen)), device=logits.device)
            values = logits[row, seen]
            logits[row, seen] = torch.where(values > 0, values / penalty, values * penalty)
    return logits


def _filtered(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    """Remove tokens by min_p, then top_k, then top_p, in vLLM's order; the most likely token always stays."""
    logits = logits.clone()
    for row, draw in enumerate(draws):
        values, s = logits[row], draw.sampling
        if s.min_p > 0:
            values[values < values.max() + float(np.log(s.min_p))] = -torch.inf
        if 0 < s.top_k < len(values):
            values[values < values.topk(s.top_k).values[-1]] = -torch.inf
        if s.top_p < 1:
            ordered, order = values.sort(descending=True, stable=True)
            before = ordered.softmax(-1).cumsum(-1).roll(1)
            before[0] = 0
            values[order[before >= s.top_p]] = -torch.inf
    return logits
