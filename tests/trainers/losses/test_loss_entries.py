"""Losses as entries of a table: options as flags, the field's own, tokens chosen over a whole update."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from fresh_run import fresh
from loss_batches import batch, scores
from loss_gradients import gradient, update
from tiny_rows import tiny_model, token_episodes

import agentgym
from agentgym.cli.flags import read_flags
from agentgym.episodes.episode import Group
from agentgym.errors import BadConfig, UnknownName
from agentgym.trainers.config.train_config import TrainConfig, defaults
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.data.packing import pack, token_weights
from agentgym.trainers.data.segments import build
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.step import Scorer, TrainedModel, scored
from agentgym.trainers.losses.interface import check, factors, resolve_loss
from agentgym.trainers.losses.policy import means, policy_loss
from agentgym.trainers.needs import interface as needs

sys.path.append(str(Path(__file__).parents[3] / "examples" / "stages"))


def flags(*words):
    return read_flags(TrainConfig, list(words), command="train", default=defaults())


def test_dual_clip_is_a_flag_by_hand():
    loss = resolve_loss(flags("--loss.dual_clip", "3"))
    # ratio 8, A = -1: -A * 8 = 8, bounded by 3, which has no gradient; ratio 2: the loss is 2, and so is the gradient
    total, by_token, metrics = gradient(loss, [0.8, 0.2], [0.1, 0.1], [-1.0, -1.0])
    assert total == pytest.approx((3 + 2) / 2) and by_token == pytest.approx([0.0, 1.0])
    assert metrics["clip_fraction"] == 0.5
    total, by_token, _ = gradient(resolve_loss(flags()), [0.8, 0.2], [0.1, 0.1], [-1.0, -1.0])
    assert total == pytest.approx((8 + 2) / 2) and by_token == pytest.approx([4.0, 1.0])


@pytest.mark.parametrize(
    ("kind", "value", "slope"),
    [  # policy 0.5, reference 0.25: x = log(1/2); d/dlogp of -x, x^2/2 and e^x - x - 1 is 1, -x and 1 - e^x
        ("k1", math.log(2), 1.0),
        ("k2", math.log(2) ** 2 / 2, math.log(2)),
        ("k3", 0.5 + math.log(2) - 1, 0.5),
    ],
)
def test_kinds_of_kl_are_a_flag_by_hand(kind, value, slope):
    config = flags("--kl", "0.1", "--kl-kind", kind)
    logprobs, made = scores([math.log(0.5)])
    reference = torch.log(torch.tensor([0.25]))
    total, sums = policy_loss(
        made, batch([0.0], [math.log(0.5)]), reference=reference, function=resolve_loss(config), kl=config.kl_kind,
        kl_weight=config.kl,
    )  # fmt: skip
    total.backward()
    assert float(total) == pytest.approx(0.1 * value) and means(sums)["reference_kl"] == pytest.approx(value)
    assert logprobs.grad.tolist() == pytest.approx([0.1 * slope])


def test_cispo_by_hand():
    # ratios 2 and 0.5, cap 1.3, A = 1 and -1: -1.3 * log p and 0.5 * log p; both tokens have a gradient
    total, by_token, metrics = gradient(resolve_loss(flags("--loss", "cispo", "--clip-high", "0.3")), [0.4, 0.2], [0.2, 0.4],
                                     [1.0, -1.0])  # fmt: skip
    assert total == pytest.approx((-1.3 * math.log(0.4) + 0.5 * math.log(0.2)) / 2)
    assert by_token == pytest.approx([-1.3 / 2, 0.5 / 2]) and metrics["clip_fraction"] == 0.5


def test_icepop_by_hand():
    # trainer before the update over engine: 4, 1/4, 10 and 1; the band 0.5 to 5 leaves the first and the last
    config = flags("--loss", "icepop", "--engine", "vllm", "--model", "x", "--tis-cap", "5")
    old, engine = [0.4, 0.1, 0.5, 0.2], [0.1, 0.4, 0.05, 0.2]
    total, by_token, metrics = gradient(resolve_loss(config), old, old, [1.0] * 4, engine, correction=config.tis_cap)
    assert total == pytest.approx(-(4 + 1) / 4) and by_token == pytest.approx([-1.0, 0.0, 0.0, -0.25])
    assert metrics["masked_fraction"] == 0.5
    with pytest.raises(BadConfig, match="loss 'icepop' leaves out tokens"):
        check(fresh(TrainConfig(loss="icepop", precision="fp32")))


def test_clip_cov_by_hand():
    # mean log p -2, mean A 0: covariances 1 * 2 = 2, -1 * 2 = -2, 1 * -2 = -2, -1 * -2 = 2, 0
    tokens = update([-1.0, -3.0, -1.0, -3.0, -2.0], [2.0, 2.0, -2.0, -2.0, 0.0])

    def left_out(step, **options):
        loss = resolve_loss(TrainConfig(loss="clip_cov", loss_options=options))
        return np.flatnonzero(factors(loss, tokens, step) == 0).tolist()

    assert left_out(0, share=1.0) == left_out(0, share=0.4) == [0, 3]  # all that lie from 1 to 5
    assert left_out(0, share=1.0, low=-3.0, high=-1.0) == [1, 2]
    assert left_out(0, share=1.0, low=3.0) == []
    drawn = [left_out(step) for step in range(20)]  # one at least
    assert all(len(one) == 1 for one in drawn) and {one[0] for one in drawn} == {0, 3}
    assert drawn == [left_out(step) for step in range(20)]
    tokens = replace(tokens, seed=1)
    assert drawn != [left_out(step) for step in range(20)]


def test_a_choice_by_entropy_by_hand():
    loss = resolve_loss(TrainConfig(loss="forking_tokens:forking_tokens", loss_options={"share": 0.4}))
    tokens = update([0.0] * 5, [1.0] * 5, entropy=[0.1, 0.9, 0.5, 0.9, 0.2])
    assert factors(loss, tokens, 0).tolist() == [False, True, False, True, False]
    default = resolve_loss(TrainConfig(loss="forking_tokens:forking_tokens"))  # the option's own default: 0.2
    assert factors(default, tokens, 0).tolist() == [False, True, False, False, False]


@agentgym.loss("my_loss")
def my_loss(tokens, *, cap: float = 2.0):
    """The one of API.md."""
    ratio = (tokens.logprobs - tokens.behaviour).exp()
    return -(ratio.clamp(max=cap).detach() * tokens.advantages * tokens.logprobs)


def test_a_loss_of_a_module_by_hand():
    loss = resolve_loss(flags("--loss", f"{__name__}:my_loss", "--loss.cap", "1.5"))
    total, by_token, _ = gradient(loss, [0.4, 0.2], [0.1, 0.4], [1.0, -2.0])  # ratios 4, capped at 1.5, and 0.5
    assert total == pytest.approx((-1.5 * math.log(0.4) + 2 * 0.5 * math.log(0.2)) / 2)
    assert by_token == pytest.approx([-1.5 / 2, 1.0 / 2])


def step(loss, batch_tokens, *, equal=False, **changes):
    """Return how the weights of a model move in one step on stored episodes; with `equal` returns, none has an advantage."""
    model = tiny_model().double()
    before = torch.cat([p.detach().flatten() for p in model.parameters()])
    learner = TrainedModel(Accelerator(cpu=True), Scorer(model, 0.7, "rows"), [torch.optim.SGD(model.parameters(), lr=1.0)])
    config = TrainConfig(loss=loss, minibatches=1, batch_tokens=batch_tokens, grad_clip=1e9, **changes)
    learner.scorer.entropy_gradient = config.entropy_bonus > 0
    episodes, _ = token_episodes(n=8)
    for number, episode in enumerate(episodes):
        episode.attempt = number
        episode.pay_last(0.0 if equal else float(number % 3 == 0), {})
    stage = resolve_loss(config)
    if stage.attributes["needs"]:
        needs.score(episodes, stage.attributes["needs"], lambda rows: scored(learner, rows, config))
    metrics = reinforce(learner, [Group("t", "agent", episodes)], resolve("grpo"), config, 0, stage)
    return torch.cat([p.detach().flatten() for p in model.parameters()]) - before, metrics, episodes


def test_the_entropy_bonus_raises_the_entropy_also_of_episodes_without_an_advantage():
    def entropy(changes):
        moved, metrics, _ = step("clip", 1000, equal=True, **changes)
        return float(moved.norm()), metrics["entropy"]

    assert entropy({})[0] == 0.0
    moved, before = entropy({"entropy_bonus": 0.5})
    assert moved > 1e-4
    _, after = entropy({"entropy_bonus": 0.5, "epochs": 2})  # the mean of both updates
    assert after > before
    plain, both = step("clip", 1000)[0], step("clip", 1000, entropy_bonus=0.5)[0]
    torch.testing.assert_close(both - plain, step("clip", 1000, equal=True, entropy_bonus=0.5)[0], rtol=1e-5, atol=1e-8)


LOSSES = ["clip", "cispo", "clip_cov", "forking_tokens:forking_tokens", f"{__name__}:my_loss"]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_size_of_micro_batches_changes_nothing(loss):
    whole, _, _ = step(loss, 10_000)
    assert float(whole.norm()) > 1e-4
    for tokens in (1, 30):
        torch.testing.assert_close(step(loss, tokens)[0], whole, rtol=1e-6, atol=1e-8)


def test_tokens_that_were_not_chosen_have_no_gradient_and_the_others_keep_their_weight():
    moved, metrics, episodes = step("forking_tokens:forking_tokens", 10_000)
    model = tiny_model().double()
    rows = build(episodes, [array for array in resolve("grpo")([Group("t", "agent", episodes)])[0]])
    needs.attach(episodes, rows, ("entropy",))
    entropies = np.concatenate([row.extra["entropy"][row.mask] for row in rows])
    cut = np.sort(entropies)[-round(0.2 * len(entropies))]
    weights = [weight * (row.extra["entropy"] >= cut) for weight, row in zip(token_weights(rows), rows, strict=True)]
    assert sum(int((weight > 0).sum()) for weight in weights) == round(0.2 * len(entropies))
    for one in pack(rows, weights, 10_000):
        found = Scorer(model, 0.7, "rows")(one)
        policy_loss(found, one)[0].backward()
    by_hand = -torch.cat([p.grad.flatten() for p in model.parameters()])
    torch.testing.assert_close(moved, by_hand, rtol=1e-5, atol=1e-8)
    assert metrics["mismatch_mean"] == step("clip", 10_000)[1]["mismatch_mean"]  # measured over all of them


def wrong(kind):
    def function(tokens):
        return {"mean": tokens.logprobs.mean(), "measure": -tokens.entropy * tokens.advantages}[kind]

    return function


@pytest.mark.parametrize(("kind", "message"), [("mean", r"returned \(\); expected"), ("measure", "has no gradient")])
def test_losses_that_cannot_be_are_explained(kind, message):
    _, made = scores([-1.0, -2.0])
    with pytest.raises(BadConfig, match=message):
        policy_loss(made, batch([1.0, 1.0], [-1.0, -2.0]), function=wrong(kind))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--loss", "cispo", "--clip-low", "0.1"], "clip_low is 0.1 and has no effect with loss 'cispo'"),
        (["--loss", "cispo", "--loss.dual_clip", "3"], "dual_clip"),
        (["--loss.dual_clip", "-1"], "dual_clip of loss 'clip' is -1.0; expected a number from 0"),
        (["--loss", "icepop", "--loss.band_low", "2", "--engine", "vllm", "--model", "x"], "band_low"),
        (["--loss", "clip_cov", "--loss.share", "1.5"], "share of loss 'clip_cov'"),
    ],
)
def test_what_is_set_wrongly_is_said(words, message):
    with pytest.raises(BadConfig, match=message):
        resolve_loss(flags(*words))


def test_a_need_that_nothing_computes_is_refused():
    agentgym.loss("bonus", needs=["entropy_gradient"])(lambda tokens: tokens.logprobs)
    with pytest.raises(UnknownName, match="no need 'entropy_gradient'"):
        resolve_loss(TrainConfig(loss="bonus"))
