"""Every loss teaches what it is for: a policy of eight numbers learns a chain of choices by it, without a model."""

import numpy as np
import pytest
import torch
from loss_batches import batch
from loss_gradients import update
from tabular import TURNS, Tabular

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.losses.interface import LOSSES, factors
from agentgym.trainers.losses.policy import policy_loss
from agentgym.trainers.model.scores import Scores

BY = {
    **{
        name: {}
        for name in ("clip", "aepo", "cispo", "dppo", "entropy_band", "epo", "gspo", "icepop", "llds", "clip_cov", "kl_cov")
    },
    "clip, dual": {"dual_clip": 3.0},
    "high_entropy": {"share": 0.5},  # the published fifth of so few tokens is one choice of the four
    "simko": {"k": 2},
}


def test_no_loss_is_forgotten():
    assert {name.split(",")[0] for name in BY} == set(LOSSES.table) - {"refuel", "turn_dpo", "awr"}  # in own files


def learned(name, sign=1.0, steps=60, lr=8.0, groups=4, size=8):
    """Train by a loss, two mini-batches a step, and return the success; `sign` turns advantages around."""
    loss = LOSSES.resolve(name.split(",")[0], BY[name])
    credit, table = resolve("grpo"), Tabular()
    logits = torch.zeros(TURNS, 2, requires_grad=True)
    for step in range(steps):
        for k in range(TURNS):
            table.logits[f"on {k}"] = logits.detach()[k].double().numpy()
        played = [Group("t", "agent", [table.play(n) for n in range(size)]) for _ in range(groups)]
        turns = [
            (k, turn.output_ids[0], sign * float(a), place)
            for place, (episode, row) in enumerate(
                pair for group, rows in zip(played, credit(played, step=step), strict=True)
                for pair in zip(group, rows, strict=True)
            )
            for k, (turn, a) in enumerate(zip(episode.turns, row, strict=True))
            if turn.observation.startswith("on")
        ]  # fmt: skip
        at, took, advantages, rows = (np.array(column) for column in zip(*turns, strict=True))
        with torch.no_grad():
            before = logits.log_softmax(-1)
            old, entropies = before[at, took], -(before.exp() * before).sum(-1)[at]
        tokens = update(old.numpy(), advantages, entropy=entropies.numpy())
        chosen = (
            np.ones(len(at)) if loss.attributes["choose"] is None else np.asarray(factors(loss, tokens, step), dtype=float)
        )
        marks = loss.attributes["marks"]
        for half in (rows % 2 == 0, rows % 2 == 1):
            made = batch(advantages[half].astype(np.float32), old[half].tolist(), range(half.sum()), rows[half])
            mean = torch.full((half.sum(),), float(entropies.mean()))
            made.extra = {"entropy_mean": mean, "turn_entropy_mean": mean}
            if marks:
                made.extra["chosen"] = torch.tensor(chosen[half])
            else:
                made.weights = made.weights * torch.tensor(chosen[half], dtype=torch.float32)
            now = logits.log_softmax(-1)
            top = now[at[half]].sort(-1, descending=True).values
            scores = Scores(now[at[half], took[half]], entropies[half], top=top)
            total, _ = policy_loss(scores, made, function=lambda tokens, step=step: loss(tokens, step=step))
            (slope,) = torch.autograd.grad(total, logits)
            with torch.no_grad():
                logits -= lr * slope
    return float(logits.softmax(-1)[:, 1].prod())


@pytest.mark.parametrize("name", BY)
def test_a_policy_learns_a_chain_of_choices_by_it(name):
    assert learned(name) > 0.8


def test_and_unlearns_it_by_advantages_turned_around():
    assert learned("clip", sign=-1.0) < 1 / 16
