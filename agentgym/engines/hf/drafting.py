"""Drafts: reuse of an earlier reply to the same prompt, as far as the current weights accept its tokens."""

# torch is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from agentgym.core.seeding import derive
from agentgym.engines.hf.sampling import Draw, sample, uniforms
from agentgym.engines.protocol import Draft, Likeliest

DrawRequest = tuple[Draw, Draft | None, Sequence[float]]
"""One request: settings for its next token, its draft or None, and its uniform random numbers by position."""


class DraftResult(NamedTuple):  # one per sampled token: a dataclass takes four times as long to make
    """Tokens that one step adds to a request: the accepted tokens of its draft, and the token drawn after them, if any.

    No token is drawn if the accepted tokens complete the request.
    """

    ids: list[int]
    logprobs: list[float]
    """Log-probabilities of all `ids` under the current weights."""
    likeliest: Sequence[Likeliest] = ()
    fresh: int = 1
    """Number of newly drawn tokens at the end of `ids`: 1, or 0 if the accepted draft completes the request."""


def cut(draft: Draft, tokens: int) -> Draft:
    """Return the draft cut to at most `tokens` tokens."""
    return dataclasses.replace(draft, ids=draft.ids[:tokens], logprobs=draft.logprobs[:tokens], known=draft.known[:tokens])


@torch.inference_mode()
def drawn(logits: Tensor, requests: Sequence[DrawRequest], sharing: Sequence[int]) -> list[DraftResult]:
    """Return the new tokens of each request.

    logits: [rows, vocabulary]. A request has one row, plus one for each token of its draft. `sharing`: numbers of
    successive requests that have the same rows.
    """
    if not any(draft or draw.likeliest for draw, draft, _ in requests):
        row_of = [row for row, count in enumerate(sharing) for _ in range(count)]
        ids, logprobs = sample(logits, [draw for draw, _, _ in requests], row_of)
        return [DraftResult([token], [logprob]) for token, logprob in zip(ids, logprobs, strict=True)]
    replies: list[DraftResult] = []
    place, waiting = 0, iter(requests)
    for count in sharing:
        alike = [next(waiting) for _ in range(count)]
        draft = alike[0][1]
        rows = logits[place : place + 1 + (len(draft.ids) if draft else 0)]
        place += len(rows)
        replies += [_built_on(rows, draw, draft, random) if draft else _plain(rows, draw) for draw, draft, random in alike]
    return replies


def _plain(rows: Tensor, draw: Draw) -> DraftResult:
    ids, logprobs = sample(rows, [draw])
    return DraftResult(ids, logprobs, _likeliest(_log_softmax(rows, draw), draw.likeliest))


def _built_on(rows: Tensor, draw: Draw, draft: Draft, random: Sequence[float]) -> DraftResult:
    """Return the accepted tokens of a draft and the token drawn after them, with their current log-probabilities.

    rows: [draft tokens + 1, vocabulary]. No token is drawn if the accepted tokens complete the request.
    """
    logprobs = _log_softmax(rows, draw)
    accepted_count = accepted(logprobs, draft, uniforms(derive("draft", draw.sampling.seed), len(draft.ids)))
    weights = logprobs[accepted_count].double().exp()
    if accepted_count < len(draft.ids):
        weights = remainder(weights, draft, accepted_count)
    ids = [*draft.ids[:accepted_count], *([] if accepted_count == len(random) else [_pick(weights, random[accepted_count])])]
    sampled_logprobs = logprobs[torch.arange(len(ids)), torch.tensor(ids, device=rows.device)].tolist()
    return DraftResult(ids, sampled_logprobs, _likeliest(logprobs[: len(ids)], draw.likeliest), len(ids) - accepted_count)


def accepted(logprobs: Tensor, draft: Draft, random: Sequence[float]) -> int:
    """Return the number of accepted draft tokens: the tokens before the first with u >= min(1, lenience * p / q).

    u is the token's number in `random`. logprobs: [tokens or more, vocabulary], log p. If the draft has `known` tokens,
    a token that is not among the known ones at its position is also rejected, since its replacement could not be drawn
    from the right distribution.
    """
    if not draft.ids:
        return 0
    ids = torch.tensor(draft.ids, device=logprobs.device)
    new = logprobs[torch.arange(len(ids)), ids].double().cpu().numpy()
    old = np.array(draft.logprobs)
    with np.errstate(divide="ignore"):
        keep = np.log(np.array(random)) < np.log(draft.lenience) + new - old
    if draft.known:
        keep &= np.array([token in tokens for token, (tokens, _) in zip(draft.ids, draft.known, strict=True)])
    return len(keep) if keep.all() else int(np.argmin(keep))


def remainder(weights: Tensor, draft: Draft, place: int) -> Tensor:
    """Return the weights to draw from after a rejected token: (p - min(q, lenience * p))+, not normalized, [vocabulary].

    weights: p in float64, [vocabulary]. `place` is the rejected token's index in the draft. q counts as 0 outside the
    draft's known tokens. The result is p itself if the draft has no known tokens or rounding leaves nothing.
    """
    if not draft.known:
        return weights
    tokens, known = draft.known[place]
    at = torch.tensor(tokens, device=weights.device)
    old = torch.tensor(known, dtype=torch.float64, device=weights.device).exp()
    rest = weights.clone()
    rest[at] -= torch.minimum(old, draft.lenience * weights[at])
    rest.clamp_(min=0)
    return rest if float(rest.sum()) > 1e-12 else weights


def _log_softmax(rows: Tensor, draw: Draw) -> Tensor:
    temperature = draw.sampling.temperature
    return (rows if temperature in (0, 1) else rows / temperature).log_softmax(-1)


def _pick(weights: Tensor, uniform: float) -> int:
    """Return the first token whose cumulative weight exceeds `uniform` times the total weight, like `sample`."""
    cumulative = weights.cumsum(-1)
    total = cumulative[-1]
    point = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return int(torch.searchsorted(cumulative, point.reshape(1), right=True).clamp(max=len(weights) - 1))


def _likeliest(logprobs: Tensor, number: int) -> list[Likeliest]:
    """Return the `number` likeliest tokens of each row with their log-probabilities; [] if `number` is 0."""
    if not number:
        return []
    best = logprobs.topk(min(number, logprobs.shape[-1]), dim=-1)
    return list(zip(best.indices.tolist(), best.values.tolist(), strict=True))
