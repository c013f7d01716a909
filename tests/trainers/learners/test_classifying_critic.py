"""The critic by classification: its histograms and its loss by hand, and what it learns where a linear head cannot."""

import math
from itertools import pairwise

import pytest
import torch
from accelerate import Accelerator
from loss_batches import batch

from agentgym.errors import BadConfig
from agentgym.trainers.learners.classifying_critic import ClassifyingCritic, critic_of
from agentgym.trainers.learners.critic import Critic, explained
from agentgym.trainers.losses.policy import means
from agentgym.trainers.model.scores import Scores

DEFAULTS = {"lr": 0.1, "policy_weight": 0.0, "clip": 0.0, "classes": 0, "low": -1.0, "high": 2.0}


def made(width=2, **options):
    return critic_of(Accelerator(cpu=True), width, {**DEFAULTS, **options})


def one_batch(target):
    found = batch([0.0] * len(target), [0.0] * len(target))
    found.extra = {"value_target": torch.tensor(target)}
    return found


def normal(x):
    return (1 + math.erf(x / 2**0.5)) / 2


def test_the_histogram_of_a_target_by_hand():
    critic = made(classes=4, low=0.0, high=4.0)  # ranges of width 1, a normal distribution of deviation 0.75
    edges = [normal((edge - 1.5) / 0.75) for edge in range(5)]
    whole = edges[-1] - edges[0]
    expected = [(b - a) / whole for a, b in pairwise(edges)]
    assert critic.histogram(torch.tensor([1.5]))[0].tolist() == pytest.approx(expected, abs=1e-6)
    far, end = critic.histogram(torch.tensor([9.0, 4.0]))
    assert far.tolist() == end.tolist() and float(far.sum()) == pytest.approx(1.0)


def test_the_value_is_0_at_first_and_the_loss_is_a_cross_entropy():
    critic = made(classes=51)
    assert isinstance(critic, ClassifyingCritic)
    states = torch.tensor([[1.0, -2.0], [3.0, 0.0], [0.0, 1.0]], requires_grad=True)
    scores = Scores(torch.zeros(3), torch.zeros(3), states)
    assert critic(scores).tolist() == pytest.approx([0.0] * 3, abs=1e-3)
    loss, metrics = critic.loss(scores, one_batch([0.0, 1.0, math.nan]), total=2)
    target = critic.histogram(torch.tensor([0.0, 1.0]))
    guess = critic.bias.softmax(-1)
    by_hand = -(target * guess.log()).sum(-1)
    assert float(loss) == pytest.approx(float(by_hand.mean()), rel=1e-5)
    assert metrics["value_loss"].tolist() == pytest.approx([float(by_hand.sum()), 2])
    assert float(metrics["value_error"][0]) == pytest.approx(1, abs=1e-2)
    loss.backward()
    slope = ((guess - target[0]) + (guess - target[1])) / 2  # of the bias: guess less target
    assert critic.bias.grad.tolist() == pytest.approx(slope.tolist(), abs=1e-6) and states.grad is None


def taught(critic, states, targets, updates=200):
    """Return how much of the targets' variance a critic explains after updates on all of them."""
    scores = Scores(torch.zeros(len(targets)), torch.zeros(len(targets)), states)
    for _ in range(updates):
        loss, metrics = critic.loss(scores, one_batch(targets), total=len(targets))
        loss.backward()
        critic.update(1e9)
    return explained(means(metrics))["value_explained"]


def test_it_learns_a_value_that_is_not_linear_in_the_state_and_a_linear_head_does_not():
    states = torch.tensor([[x, 1.0] for x in (-2.0, 0.0, 2.0)])
    targets = [1.0, 0.0, 0.6]  # a line explains 0.08 / 0.507 of their variance
    assert taught(made(), states, targets) == pytest.approx(0.158, abs=0.01)
    assert taught(made(classes=21), states, targets) > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": 51, "clip": 0.2}, "clip of the critic is 0.2 with 51 classes"),
        ({"classes": 51, "low": 3.0}, "51 classes from 3 to 2"),
        ({"high": 10.0}, "has no effect without classes"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(BadConfig, match=message):
        made(**options)


def test_without_classes_it_is_the_linear_head():
    assert type(made()) is Critic
