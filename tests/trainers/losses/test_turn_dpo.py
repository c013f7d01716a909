"""Turn-wise DPO: its derivative by hand, the exact gradient, and a policy that comes to prefer the better reply."""

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from test_refuel import as_sampled, logprob, pair
from tiny_rows import tiny_model

from agentgym.errors import BadConfig
from agentgym.trainers import TrainConfig
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.losses.policy import Update
from agentgym.trainers.losses.turn_dpo import pulls
from agentgym.trainers.needs.fork import fork
from agentgym.trainers.run.preflight import check_run


def update(advantages, moved, forks):
    """Return an update of turns of one token each."""
    number = len(advantages)
    return Update(
        advantages=np.array(advantages), logprobs=np.full(number, -1.0), turns=np.arange(number), episodes=np.arange(number),
        extra={"fork": np.array(forks)}, present=np.array(moved) - 1.0,
    )  # fmt: skip


def test_pulls_by_hand():
    # a pair: -0.5 sigmoid(-0.5 (0.4 - 0.2)) for the better turn, and the opposite for the other; none without siblings
    wrong = 0.5 / (1 + np.exp(0.5 * 0.2))
    made = update([1.0, -1.0, 9.0], [0.4, 0.2, 5.0], [3.0, 3.0, np.nan])
    np.testing.assert_allclose(pulls(made, beta=0.5), [-wrong, wrong, 0.0])
    # of five, the two best against the two worst: four pairs, the middle one in none
    made = update([5.0, 4.0, 3.0, 2.0, 1.0], [0.0] * 5, [0.0] * 5)
    np.testing.assert_allclose(pulls(made, beta=0.1), [-0.025, -0.025, 0.0, 0.025, 0.025])
    # replies of equal advantage are in no pair
    np.testing.assert_allclose(
        pulls(update([1.0, 1.0, 1.0, 0.0], [0.0] * 4, [0.0] * 4), beta=0.1), [-0.025, -0.025, 0, 0.05]
    )
    assert not pulls(update([1.0, 1.0], [0.0, 3.0], [0.0, 0.0])).any()
    assert len(pulls(update([], [], []))) == 0
    with np.errstate(over="raise"):  # exp(1000) is beyond floats
        assert pulls(update([1.0, -1.0], [1.0, 0.0], [0.0, 0.0]), beta=1000.0) == pytest.approx([0.0, 0.0])


def learner_of(model, lr):
    return TrainedModel(Accelerator(cpu=True), Scorer(model, 0.7), [torch.optim.SGD(model.parameters(), lr=lr)])


def configured(**changes):
    return TrainConfig(
        credit="relative_future", loss="turn_dpo", loss_aggregation="episode-sum", minibatches=1, grad_clip=1e9, **changes
    )


@pytest.mark.parametrize("tokens", [300, 10], ids=["together", "apart"])
def test_the_gradient_is_that_of_the_preference_loss(tokens):
    model, group, beta = tiny_model(), pair(), 0.5
    as_sampled(model, group)
    with torch.no_grad():  # the policy has moved since
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
    ratios = [logprob(model, turn) - sum(turn.logprobs) for turn in (group[0].turns[1], group[1].turns[1])]
    (-torch.nn.functional.logsigmoid(beta * (ratios[0] - ratios[1]))).backward()
    expected = torch.cat([p.grad.flatten().clone() for p in model.parameters()])
    model.zero_grad()
    before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
    fork([group])
    config = configured(loss_options={"beta": beta}, batch_tokens=tokens)
    metrics = reinforce(learner_of(model, 1.0), [group], resolve("relative_future"), config, 0)
    moved = before - torch.cat([p.detach().flatten() for p in model.parameters()])
    assert float((moved - expected / 2).norm()) < 1e-3 * float(expected.norm() / 2)  # a mean over two episodes
    assert 0 < metrics["turn_dpo_pull"] < 1


def test_the_better_reply_gains_on_the_other_until_the_pull_is_small():
    model, group = tiny_model(), pair()
    as_sampled(model, group)
    fork([group])
    config = configured(loss_options={"beta": 1.0}, epochs=60)
    reinforce(learner_of(model, 0.02), [group], resolve("relative_future"), config, 0)
    with torch.no_grad():
        ratios = [float(logprob(model, turn)) - sum(turn.logprobs) for turn in (group[0].turns[1], group[1].turns[1])]
    assert ratios[0] - ratios[1] > 2


def test_what_cannot_see_a_whole_step_is_refused(tmp_path):
    config = TrainConfig(env="rlvr/GuessNumber-v0", out=str(tmp_path / "run"), loss="turn_dpo", minibatches=2)
    with pytest.raises(BadConfig, match="loss 'turn_dpo' with minibatches = 2: it compares turns with one another"):
        check_run(config)
