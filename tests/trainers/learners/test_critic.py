"""The critic and generalised advantage estimation: by hand, on a chain whose values are known, and in resumed runs."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import chain
import numpy as np
import pytest
import torch
from accelerate import Accelerator
from credit_envs import episode, group
from loss_batches import batch
from small_runs import episodes, goes_on_to_the_last_digit, policy, small

from agentgym.errors import BadConfig
from agentgym.trainers import train
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.learners.critic import Critic
from agentgym.trainers.model.scores import Scores
from agentgym.trainers.needs import interface as needs


def valued(rewards, values):
    """An episode whose turns have these rewards and values by output token."""
    made = episode(*((f"o{k}", reward) for k, reward in enumerate(rewards)))
    for turn, value in zip(made.turns, values, strict=True):
        turn.output_ids = [1] * len(value or [])
        if value is not None:
            turn.extra["values"] = np.array(value, dtype=np.float32)
    return made


def targets(made):
    return [turn.extra["value_target"].tolist() for turn in made.turns if "value_target" in turn.extra]


def test_gae_over_turns_by_hand():
    made = valued([0.0, 0.0, 1.0], [[0.5, 9.0], [0.6, 9.0], [0.8]])
    # D: 0.9 * 0.6 - 0.5 = 0.04, 0.9 * 0.8 - 0.6 = 0.12, 1 - 0.8 = 0.2
    # A_2 = 0.2, A_1 = 0.12 + 0.45 * 0.2 = 0.21, A_0 = 0.04 + 0.45 * 0.21
    credit = resolve("turn_gae", gamma=0.9, lam=0.5, whiten=False)
    np.testing.assert_allclose(credit([group(made)])[0][0], [0.1345, 0.21, 0.2], atol=1e-7)
    found = targets(made)
    assert [one[0] for one in found] == pytest.approx([0.6345, 0.81, 1.0])  # A + V, at the first token only
    assert all(math.isnan(value) for one in found for value in one[1:])


def test_lambda_one_is_the_return_less_the_value_and_zero_is_one_step():
    rewards, values = [0.1, 0.0, 0.7], [[0.3], [0.2], [0.4]]
    one = resolve("turn_gae", gamma=0.5, lam=1.0, whiten=False)([group(valued(rewards, values))])[0][0]
    np.testing.assert_allclose(one, [0.1 + 0.25 * 0.7 - 0.3, 0.5 * 0.7 - 0.2, 0.7 - 0.4], atol=1e-7)
    zero = resolve("turn_gae", gamma=0.5, lam=0.0, whiten=False)([group(valued(rewards, values))])[0][0]
    np.testing.assert_allclose(zero, [0.1 + 0.5 * 0.2 - 0.3, 0.5 * 0.4 - 0.2, 0.7 - 0.4], atol=1e-7)


def test_a_turn_without_a_value_hands_on_what_comes_after_it():
    made = valued([0.0, 0.5, 1.0], [[0.5], None, [0.8]])
    # V_1 = 0.5 + 0.9 * 0.8 = 1.22, so D_1 = 0: A_2 = 0.2, A_1 = 0.45 * 0.2, A_0 = 0.9 * 1.22 - 0.5 + 0.45 * A_1
    found = resolve("turn_gae", gamma=0.9, lam=0.5, whiten=False)([group(made)])[0][0]
    np.testing.assert_allclose(found, [0.598 + 0.45 * 0.09, 0.09, 0.2], atol=1e-7)
    assert len(targets(made)) == 2


def test_bilevel_gae_by_hand():
    made = valued([0.0, 1.0], [[0.1, 0.2], [0.3, 0.4, 0.6]])
    # ends 0.2 and 0.6: A_1 = 1 - 0.6 = 0.4, T_1 = 1; A_0 = 0.5 * 0.6 - 0.2 + 0.25 * 0.4 = 0.2, T_0 = 0.4
    # within turn 0: 0.4 - 0.2 = 0.2, then 0.8 * 0.2 - 0.1 + 0.4 * 0.2 = 0.14
    # within turn 1: 1 - 0.6 = 0.4, then 0.8 * 0.6 - 0.4 + 0.4 * 0.4 = 0.24, then 0.8 * 0.4 - 0.3 + 0.4 * 0.24 = 0.116
    found = resolve("bilevel_gae", turn_gamma=0.5, gamma=0.8, lam=0.5, whiten=False)([group(made)])[0][0]
    np.testing.assert_allclose(found, [0.14, 0.2, 0.116, 0.24, 0.4], atol=1e-7)
    np.testing.assert_allclose(np.concatenate(targets(made)), [0.24, 0.4, 0.416, 0.64, 1.0], atol=1e-6)


def test_a_turn_end_that_is_paid_nothing_is_a_turn_end():
    """The published code looks for a reward that is not 0, and would take these two turns for one."""
    paid, unpaid = (valued([r, 1.0], [[0.2], [0.2]]) for r in (1e-9, 0.0))
    credit = resolve("bilevel_gae", whiten=False)
    np.testing.assert_allclose(credit([group(paid)])[0][0], credit([group(unpaid)])[0][0], atol=1e-8)


def test_whitening_is_over_all_groups_of_all_processes():
    made = [group(valued([0.0], [[0.0]]), valued([2.0], [[0.0]])), group(valued([4.0], [[0.0]]))]
    found = resolve("turn_gae")(made)  # 0, 2, 4: mean 2, variance 8 / 3
    np.testing.assert_allclose(
        np.concatenate([a for arrays in found for a in arrays]), [-(1.5**0.5), 0.0, 1.5**0.5], atol=1e-6
    )
    credit = resolve("turn_gae")
    other = SimpleNamespace(gather=lambda sums: [*sums, (1, 4.0, 16.0)])  # another process, with the turn that earned 4
    on_one = replace(credit, run=other)(made[:1])[0]
    np.testing.assert_allclose(np.concatenate(on_one), [-(1.5**0.5), 0.0], atol=1e-6)
    assert replace(credit, run=SimpleNamespace(gather=lambda sums: [*sums, (2, 1.0, 1.0)]))([]) == []


def one_batch(values, target):
    made = batch([0.0] * len(target), [0.0] * len(target))
    made.extra = {"values": torch.tensor(values), "value_target": torch.tensor(target)}
    return made


def critic(**options):
    return Critic(Accelerator(cpu=True), 4, **{"lr": 0.1, "policy_weight": 0.0, "clip": 0.0, **options})


def test_the_value_loss_by_hand():
    states = torch.tensor([[1.0, 0, 0, 0], [0, 2.0, 0, 0], [0, 0, 1.0, 0]])
    made = critic()
    with torch.no_grad():
        made.weight.copy_(torch.tensor([4.0, 2.0, 8.0, 0.0]))  # values 4 * 1 / 4, 2 * 2 / 4 and 8 / 4
        made.bias.fill_(0.5)  # 1.5, 1.5, 2.5
    scores = Scores(torch.zeros(3), torch.zeros(3), states)
    loss, metrics = made.loss(scores, one_batch([0.0] * 3, [1.0, 3.0, math.nan]), total=2)
    assert float(loss) == pytest.approx((0.25 + 2.25) / 4)  # half the mean over the two that have a target
    assert metrics["value_loss"].tolist() == pytest.approx([1.25, 2]) and metrics["value_target"].tolist() == pytest.approx(
        [4, 2]
    )
    made.clip = 0.2  # values were 0.6 and 1.4: held at 0.8 and 1.5; max(0.25, 0.04), max(2.25, 2.25)
    loss, _ = made.loss(scores, one_batch([0.6, 1.4, 0.0], [1.0, 3.0, math.nan]), total=2)
    assert float(loss) == pytest.approx((0.25 + 2.25) / 4)
    loss, _ = made.loss(scores, one_batch([0.6, 1.0, 0.0], [1.5, 3.0, math.nan]), total=2)
    assert float(loss) == pytest.approx(((0.8 - 1.5) ** 2 + (1.2 - 3.0) ** 2) / 4)  # 0 and 1.5^2, if it were not held


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_a_detached_head_leaves_the_policy_alone(weight):
    states = torch.ones(1, 4, requires_grad=True)
    made = critic(policy_weight=weight)
    with torch.no_grad():
        made.weight.fill_(2.0)
    loss, _ = made.loss(Scores(torch.zeros(1), torch.zeros(1), states), one_batch([0.0], [1.0]), total=1)
    loss.backward()
    assert made.weight.grad is not None
    if not weight:
        assert states.grad is None
    else:  # value 2, error 1: 0.5 * (2 - 1) * 2 / 4
        assert states.grad.flatten().tolist() == pytest.approx([0.25] * 4)


def chained(folder, **changes):
    model = policy(folder / "model", "small/Chain-v0") if not (folder / "model").exists() else str(folder / "model")
    options = {
        "env": f"{chain.__name__}:small/Chain-v0", "credit": "turn_gae", "credit_options": {"gamma": 0.9, "lam": 1.0},
        "lr": 1e-6, "tasks_per_step": 2, "group_size": 2, "horizon": (chain.LENGTH,), "minibatches": 2,
    }  # fmt: skip
    return small(folder / changes.pop("name"), model, **{**options, **changes})


def learned(folder):
    """Return by task the values of the last step's turns, as the critic saw them, and the last row of the metrics."""
    last = episodes(folder)[-4:]
    values = {row["task_id"]: [turn["extra"]["values"][0] for turn in row["turns"]] for row in last}
    return values, json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])


@pytest.mark.long
@pytest.mark.parametrize(
    ("credit", "options"), [("turn_gae", {"gamma": 0.9}), ("bilevel_gae", {"turn_gamma": 0.9})], ids=["turn", "bilevel"]
)
def test_values_on_a_chain_become_the_discounted_returns(tmp_path, credit, options):
    changes = {
        "agent": "window",
        "window_turns": 0,
        "turn_tokens": 1,
        "epochs": 4,
        "minibatches": 1,
        "checkpoint_every": 100,
    }
    train(
        chained(tmp_path, name="run", steps=40, credit=credit, credit_options=options, needs_options={"lr": 0.1}, **changes)
    )
    values, row = learned(tmp_path / "run")
    np.testing.assert_allclose(values["chain-0"], [0.9**3, 0.9**2, 0.9, 1.0], atol=0.1)
    np.testing.assert_allclose(values["chain-1"], [0.0] * 4, atol=0.1)
    assert row["value_explained"] > 0.95 and row["value_target"] == pytest.approx((0.9**3 + 0.9**2 + 0.9 + 1) / 8, abs=0.05)


@pytest.mark.parametrize("options", [{}, {"policy_weight": 0.5, "clip": 0.2}, {"classes": 11}])
def test_a_resumed_run_with_a_critic_goes_on_to_the_last_digit(tmp_path, options):
    changes = {"lr": 1e-3, "needs_options": options}
    goes_on_to_the_last_digit(tmp_path, lambda folder: chained(tmp_path, name=folder.name, **changes))


def test_a_learner_without_a_critic_is_named():
    with pytest.raises(BadConfig, match="the learner computes no values"):
        needs.score([], ("values",), lambda rows: {"logprobs": [], "entropy": []})
