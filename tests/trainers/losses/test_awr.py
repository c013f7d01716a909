"""Advantage-weighted regression by hand; the harness divides by the number of tokens."""

import math

import pytest
from loss_gradients import gradient

from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.losses.interface import resolve_loss


def loss_of(**options):
    return resolve_loss(TrainConfig(loss="awr", loss_options=options))


def test_awr_by_hand():
    new, old, advantages = [0.2, 0.5, 0.4], [0.9, 0.1, 0.4], [math.log(3), -math.log(2), 9.0]
    total, slopes, metrics = gradient(loss_of(largest=5.0), new, old, advantages)
    # weights 3, 1/2 and, bounded, 5; the old probabilities play no part
    assert 3 * total == pytest.approx(-(3 * math.log(0.2) + 0.5 * math.log(0.5) + 5 * math.log(0.4)), rel=1e-5)
    assert slopes == pytest.approx([-1.0, -0.5 / 3, -5 / 3], rel=1e-5)
    assert metrics["awr_weight"] == pytest.approx((3 + 0.5 + 5) / 3, rel=1e-5)


def test_the_temperature_of_awr():
    new, advantages = [0.2, 0.5], [math.log(3), -math.log(2)]
    assert gradient(loss_of(temperature=0.5), new, new, advantages)[1] == pytest.approx([-9 / 2, -0.25 / 2], rel=1e-5)
    assert gradient(loss_of(temperature=1e6), new, new, advantages)[1] == pytest.approx([-0.5, -0.5], rel=1e-4)  # imitation
