"""REFUEL: the gradient is that of the squared error, wherever the two of a pair lie, and it is regressed by epochs."""

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from tiny_rows import tiny_model
from trees import branch, whole

from agentgym.episodes.episode import Group
from agentgym.errors import BadConfig
from agentgym.trainers import TrainConfig
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.data.segments import build
from agentgym.trainers.data.trees import weigh_shared_turns
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.critic import teaches
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.losses.policy import Update
from agentgym.trainers.losses.refuel import pulls
from agentgym.trainers.needs.fork import fork
from agentgym.trainers.run.preflight import check_run


def pair():
    """One episode and a branch from its second turn, whose tokens differ."""
    first = whole(0, "abc", 1.0, tokens=[3, 4], logprobs=[-1.0, -1.0])
    second = branch(1, first, 1, "xy", 0.25, tokens=[7, 8, 9], logprobs=[-1.0] * 3)
    (group,) = weigh_shared_turns([Group("t", "agent", [first, second])], "once")
    return group


def logprob(model, turn):
    """The log-probability of a turn's tokens, with its gradient, at temperature 0.7."""
    ids = torch.tensor([*turn.prompt_ids, *turn.output_ids])
    every = torch.log_softmax(model(input_ids=ids[None]).logits[0, :-1] / 0.7, -1)
    return every[torch.arange(len(ids) - 1), ids[1:]][-len(turn.output_ids) :].sum()


def as_sampled(model, group):
    """Let the engine have said what the model says."""
    for turn in (turn for episode in group for turn in episode.turns):
        ids = torch.tensor([*turn.prompt_ids, *turn.output_ids])
        with torch.no_grad():
            every = torch.log_softmax(model(input_ids=ids[None]).logits[0, :-1] / 0.7, -1)
        turn.logprobs = every[torch.arange(len(ids) - 1), ids[1:]][-len(turn.output_ids) :].tolist()


def test_a_need_says_which_turns_are_siblings():
    group = pair()
    fork([group])
    numbers = [[turn.extra["fork"] for turn in episode.turns] for episode in group]
    assert numbers[0][1] == numbers[1][1] == 0.0
    assert np.isnan([numbers[0][0], numbers[0][2], numbers[1][0], numbers[1][2]]).all()


def test_a_row_without_advantages_is_trained_where_a_loss_pulls_at_it():
    row = build([whole(0, "ab", 0.0)], [np.zeros(2)])[0]
    assert not teaches(row, False) and teaches(row, True), "factors that are not marked change weights: nobody knows"
    row.extra["chosen"] = np.full(len(row), np.nan, dtype=np.float32)
    assert not teaches(row, True)
    row.extra["chosen"][-1] = -0.5
    assert teaches(row, True)


def test_pulls_by_hand():
    # one turn of two tokens and one of one; log ratios 0.3 and 0.1, eta 0.5: lead 0.4 and -0.4, wanted 0.75 and -0.75
    update = Update(
        advantages=np.array([0.75, 0.75, -0.75, 0.0]), logprobs=np.zeros(4), turns=np.array([0, 0, 1, 2]),
        episodes=np.array([0, 0, 1, 1]), extra={"fork": np.array([5.0, 5.0, 5.0, np.nan])},
        present=np.array([0.1, 0.2, 0.1, 9.0]),
    )  # fmt: skip
    np.testing.assert_allclose(pulls(update, eta=0.5), [4 * -0.35, 4 * -0.35, 4 * 0.35, 0.0], rtol=1e-6)


@pytest.mark.parametrize("tokens", [300, 10], ids=["together", "apart"])
def test_the_gradient_is_that_of_the_squared_error(tokens):
    model, group = tiny_model(), pair()
    as_sampled(model, group)
    with torch.no_grad():  # the policy has moved since
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
    eta, turns = 0.5, (group[0].turns[1], group[1].turns[1])
    ratios = [logprob(model, turn) - sum(turn.logprobs) for turn in turns]
    error = ((ratios[0] - ratios[1]) / eta - (1.0 - 0.25)) ** 2
    error.backward()
    expected = torch.cat([p.grad.flatten().clone() for p in model.parameters()])
    model.zero_grad()
    before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
    config = TrainConfig(
        credit="relative_future", loss="refuel", loss_options={"eta": eta}, loss_aggregation="episode-sum", minibatches=1,
        batch_tokens=tokens, grad_clip=1e9,
    )  # fmt: skip
    learner = TrainedModel(Accelerator(cpu=True), Scorer(model, 0.7), [torch.optim.SGD(model.parameters(), lr=1.0)])
    fork([group])
    metrics = reinforce(learner, [group], resolve("relative_future"), config, 0)
    moved = before - torch.cat([p.detach().flatten() for p in model.parameters()])
    assert float((moved - expected / 2).norm()) < 1e-3 * float(expected.norm() / 2)  # two episodes, so half of the pair's
    assert metrics["refuel_error"] > 0


def test_it_goes_on_with_the_regression_until_the_difference_is_that_of_the_futures():
    model, group = tiny_model(), pair()
    as_sampled(model, group)
    config = TrainConfig(
        credit="relative_future", loss="refuel", loss_aggregation="episode-sum", minibatches=1, epochs=60, grad_clip=1e9
    )
    learner = TrainedModel(Accelerator(cpu=True), Scorer(model, 0.7), [torch.optim.SGD(model.parameters(), lr=0.003)])
    fork([group])
    reinforce(learner, [group], resolve("relative_future"), config, 0)
    with torch.no_grad():
        ratios = [float(logprob(model, turn)) - sum(turn.logprobs) for turn in (group[0].turns[1], group[1].turns[1])]
    assert ratios[0] - ratios[1] == pytest.approx(0.75, abs=0.05)


def test_what_cannot_see_a_whole_step_is_refused(tmp_path):
    config = TrainConfig(env="rlvr/GuessNumber-v0", out=str(tmp_path / "run"), loss="refuel", minibatches=2)
    with pytest.raises(BadConfig, match="loss 'refuel' with minibatches = 2: it compares turns with one another"):
        check_run(config)


def test_a_weight_on_negative_advantages_alone_is_refused(tmp_path):
    config = TrainConfig(
        env="rlvr/GuessNumber-v0", out=str(tmp_path / "run"), loss="refuel", minibatches=1, negative_advantage_weight=0.5
    )
    with pytest.raises(BadConfig, match=r"loss 'refuel' with negative_advantage_weight = 0\.5: .* set negative_adv"):
        check_run(config)
