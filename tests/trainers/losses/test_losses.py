"""Parts of the loss, by hand."""

import math

import pytest
import torch
from loss_batches import batch, scores

import agentgym.trainers
from agentgym.errors import BadConfig
from agentgym.trainers.losses.policy import (
    add_sums,
    clipped_losses,
    divergence,
    level_log_ratio,
    means,
    mismatch_weight,
    policy_loss,
)


def test_clip_by_hand():
    ratio = torch.tensor([1.5, 0.5, 1.5, 0.5, 1.0, 8.0])
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0, 2.0, -1.0])
    losses, clipped = clipped_losses(ratio, advantages, 0.2, 0.3)
    # A > 0: -min(1.5, 1.3), -0.5;  A < 0: 1.5, max(0.5, 0.8);  -2;  8
    assert losses.tolist() == pytest.approx([-1.3, -0.5, 1.5, 0.8, -2.0, 8.0])
    assert clipped.tolist() == [True, False, False, True, False, False]
    losses, clipped = clipped_losses(ratio, advantages, 0.2, 0.3, dual_clip=3.0)
    assert losses.tolist() == pytest.approx([-1.3, -0.5, 1.5, 0.8, -2.0, 3.0])
    assert clipped.tolist() == [True, False, False, True, False, True]


def test_ratio_levels_by_hand():
    # turns 0, 0, 1 in one row: log-ratios 0.1, 0.3, -0.6 -> means 0.2, 0.2, -0.6 and -0.0667
    new = torch.tensor([0.1, 0.3, -0.6], requires_grad=True)
    one = batch([1.0] * 3, [0.0] * 3, turns=[0, 0, 1])
    old = torch.zeros(3)
    assert level_log_ratio(new, old, one, "token").tolist() == pytest.approx([0.1, 0.3, -0.6])
    assert level_log_ratio(new, old, one, "turn").tolist() == pytest.approx([0.2, 0.2, -0.6])
    found = level_log_ratio(new, old, one, "sequence")
    assert found.tolist() == pytest.approx([-0.2 / 3] * 3)
    (gradient,) = torch.autograd.grad(found[0], new)
    assert gradient.tolist() == [1, 0, 0]  # each token moves by its own log-probability
    with pytest.raises(BadConfig, match="ratio level"):
        level_log_ratio(new, old, one, "row")


def test_divergences_by_hand():
    new, reference = torch.tensor([0.0, 0.0]), torch.tensor([math.log(2.0), math.log(0.5)])
    assert divergence(new, reference, "k1").tolist() == pytest.approx([-math.log(2), math.log(2)])
    assert divergence(new, reference, "k2").tolist() == pytest.approx([math.log(2) ** 2 / 2] * 2)
    assert divergence(new, reference, "k3").tolist() == pytest.approx([2 - math.log(2) - 1, 0.5 + math.log(2) - 1])
    with pytest.raises(BadConfig):
        divergence(new, reference, "k4")


def test_engine_mismatch_is_truncated_per_token():
    old, engine = torch.log(torch.tensor([0.5, 0.9, 0.4, 0.5])), torch.log(torch.tensor([0.5, 0.1, 0.8, math.nan]))
    assert mismatch_weight(old, engine, 2.0).tolist() == pytest.approx([1.0, 2.0, 0.5, 1.0])


def test_policy_loss_by_hand():
    # ratios 1 and 2; A = 1, 1; clip at 1.2; mean of -1 and -1.2
    new, made = scores([math.log(0.5), math.log(0.8)])
    one = batch([1.0, 1.0], [math.log(0.5), math.log(0.4)])
    loss, sums = policy_loss(made, one)
    assert loss.item() == pytest.approx(-1.1)
    loss.backward()
    assert new.grad.tolist() == pytest.approx([-0.5, 0.0])  # the clipped token does not move
    found = means(sums)
    assert found["clip_fraction"] == 0.5
    assert found["approx_kl"] == pytest.approx((2 - 1 - math.log(2)) / 2)
    assert found["logp_positive"] == pytest.approx((math.log(0.5) + math.log(0.8)) / 2)
    assert found["loss"] == pytest.approx(-1.1)
    assert found["entropy"] == 1.0


def test_decoupled_loss_by_hand():
    # trainer's old 0.5 against the engine's 0.25: weight 2, truncated to 1.5; ratio 0.5 / 0.5 = 1
    _, made = scores([math.log(0.5)])
    one = batch([1.0], [math.log(0.25)])
    loss, sums = policy_loss(made, one, old=torch.log(torch.tensor([0.5])), correction=1.5)
    assert loss.item() == pytest.approx(-1.5)
    assert means(sums)["correction"] == pytest.approx(1.5)
    loss, _ = policy_loss(made, one, old=torch.log(torch.tensor([0.5])), correction=None)
    assert loss.item() == pytest.approx(-1.0)


def test_kl_is_added_with_its_weight():
    _, made = scores([0.0])
    one = batch([0.0], [0.0])
    reference = torch.tensor([math.log(2.0)])
    loss, sums = policy_loss(made, one, reference=reference, kl_weight=0.5)
    assert loss.item() == pytest.approx(0.5 * (1 - math.log(2)))
    assert means(sums)["reference_kl"] == pytest.approx(1 - math.log(2))
    with pytest.raises(BadConfig, match="reference model"):
        policy_loss(made, one, kl_weight=0.5)


def test_demonstrations_are_refused():
    _, made = scores([0.0, 0.0])
    with pytest.raises(ValueError, match="imitation_loss"):
        policy_loss(made, batch([1.0, 1.0], [0.0, math.nan]))


def test_metrics_of_micro_batches_add_up():
    _, one = scores([-1.0])
    _, three = scores([-2.0, -2.0, -2.0])
    parts = [policy_loss(one, batch([1.0], [-1.0]))[1], policy_loss(three, batch([0.0] * 3, [-2.0] * 3))[1]]
    found = means(add_sums(parts))
    assert found["logp"] == pytest.approx(-7 / 4)
    assert found["logp_positive"] == -1.0  # only the first micro-batch has any
    assert found["loss"] == pytest.approx(-1.0)


def test_the_entropy_bonus_by_hand():
    # two tokens of weight 1/2 with entropies 0.5 and 2: the bonus takes 0.1 * 1.25 away, and pushes each entropy up
    logprobs, found = scores([-1.0, -1.0])
    entropy = torch.tensor([0.5, 2.0], requires_grad=True)
    one = batch([1.0, -1.0], [-1.0, -1.0])
    plain, _ = policy_loss(found, one)
    total, sums = policy_loss(found._replace(entropy=entropy), one, entropy_weight=0.1)
    assert float(total) == pytest.approx(float(plain) - 0.125) and means(sums)["entropy"] == pytest.approx(1.25)
    total.backward()
    assert entropy.grad.tolist() == pytest.approx([-0.05, -0.05]) and logprobs.grad.tolist() == pytest.approx([-0.5, 0.5])


def test_a_loss_sees_the_entropy_without_its_gradient():
    entropy = torch.tensor([1.0], requires_grad=True)
    made, found = scores([-1.0])

    def own(tokens: agentgym.trainers.Tokens):
        assert not tokens.entropy.requires_grad
        return -tokens.advantages * tokens.logprobs

    policy_loss(found._replace(entropy=entropy), batch([1.0], [-1.0]), function=own)[0].backward()
    assert entropy.grad is None and made.grad.tolist() == [-1.0]
