"""A policy made from nothing that can copy: where its two heads look, and what they are worth after a few updates."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from agentgym.errors import BadConfig
from agentgym.trainers import TrainConfig
from agentgym.trainers.learners.optimizers import optimizers
from agentgym.trainers.model.policy import PolicySize, _model, train_tokenizer

TEXT = "take the red cup from drawer 2 and put it on the table near the window"
NEW = 40


def made(**size):
    torch.manual_seed(0)
    return _model(PolicySize(vocabulary=300, **size), train_tokenizer([TEXT], 300))


def repeated(rows=1):
    """Rows of tokens drawn at random, then others, then the first ones once more."""
    drawn = torch.Generator().manual_seed(1)
    first, between = (torch.randint(3, 260, (rows, count), generator=drawn) for count in (NEW, 15))
    return torch.cat([first, between, first], dim=1)


@pytest.mark.parametrize("experts", [0, 4])
def test_one_head_looks_at_the_previous_token_and_one_behind_the_token_that_stood_before(experts):
    model = made(induction_heads=True, experts=experts)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        first, second = model(repeated(), output_attentions=True).attentions[:2]
    assert first[0, :2].diagonal(-1, 1, 2)[:, 5:].min() > 0.9
    where = torch.arange(NEW + 15, 2 * NEW + 14)
    behind = second[0, :2, where, where - NEW - 15 + 1]
    assert behind.mean() > 0.4
    assert second[0, 2:, where, where - NEW - 15 + 1].mean() < 0.05  # the other heads know nothing


@pytest.mark.parametrize(("induction_heads", "least", "most"), [(True, 0.5, 1.0), (False, 0.0, 0.15)])
def test_after_eighty_updates_it_copies_what_it_never_saw_and_a_random_one_does_not(induction_heads, least, most):
    model = made(induction_heads=induction_heads, width=96, heads=3)
    drawn = torch.Generator().manual_seed(2)
    updates = optimizers(model, 8e-3, muon=True)
    for _ in range(80):
        new = torch.randint(3, 260, (8, 24), generator=drawn)
        rows = torch.cat([new, new], dim=1)
        loss = cross_entropy(model(rows).logits[:, 24:-1].flatten(0, 1), rows[:, 25:].flatten())
        loss.backward()
        for update in updates:
            update.step()
            update.zero_grad()
    with torch.no_grad():
        predicted = model(repeated(4)).logits.argmax(-1)[:, NEW + 15 : -1]
    right = (predicted == repeated(4)[:, NEW + 16 :]).float().mean()
    assert least <= right <= most


@pytest.mark.parametrize("size", [{"policy_layers": 1}, {"policy_width": 64}])
def test_a_policy_without_room_for_the_heads_is_refused_before_anything_is_made(size):
    with pytest.raises(BadConfig, match="policy_induction_heads needs at least 2 layers and a width of 128"):
        TrainConfig(policy_induction_heads=True, **size)
