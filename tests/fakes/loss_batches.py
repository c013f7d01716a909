"""Batches of a few tokens with known log-probabilities, for losses by hand."""

import torch

from agentgym.trainers.data.packing import Batch
from agentgym.trainers.model.scores import Scores


def batch(advantages, logprobs, turns=None, rows=None):
    n = len(advantages)
    empty = torch.zeros(n, dtype=torch.int64)
    flat = [torch.tensor(advantages), torch.tensor(logprobs), torch.full((n,), 1 / n)]
    return Batch(
        empty[None],
        empty,
        empty,
        *flat,
        empty if turns is None else torch.tensor(turns),
        empty if rows is None else torch.tensor(rows),
        (n,),
    )


def scores(values):
    made = torch.tensor(values, requires_grad=True)
    return made, Scores(made, torch.ones(len(values)))
