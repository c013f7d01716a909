"""The shelf of losses: each by hand, and what each is for."""

import math

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from fresh_run import fresh
from loss_batches import batch
from loss_gradients import gradient, update
from small_runs import curve, goes_on_to_the_last_digit, policy, small
from tiny_rows import tiny_model, token_episodes

from agentgym.episodes.episode import Group
from agentgym.errors import BadConfig
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.step import Scorer, TrainedModel, scored
from agentgym.trainers.losses.interface import LOSSES, check, factors, resolve_loss, top_of
from agentgym.trainers.losses.policy import Update, means, policy_loss
from agentgym.trainers.losses.simko import forks
from agentgym.trainers.model import logprobs
from agentgym.trainers.model.logprobs import project, token_logprobs
from agentgym.trainers.model.scores import Scores
from agentgym.trainers.needs import interface as needs
from agentgym.trainers.needs.entropy_mean import entropy_mean, turn_entropy_mean

SHELF = ("aepo", "gspo", "dppo", "kl_cov", "high_entropy", "llds", "entropy_band", "epo", "simko")


def loss_of(name, **options):
    return resolve_loss(TrainConfig(loss=name, loss_options=options, minibatches=2))


def by_token(function, new, old, advantages, *, turns=None, extra=None, entropy=None, top=None, step=0):
    """Return the loss and its gradient by each log-probability, as sums over tokens."""
    logp = torch.log(torch.tensor(new)).requires_grad_()
    made = batch(advantages, torch.log(torch.tensor(old)).tolist(), turns)
    made.weights = torch.ones(len(new))
    made.extra = {name: torch.tensor(value) for name, value in (extra or {}).items()}
    scores = Scores(logp, torch.tensor(entropy or [1.0] * len(new)), top=top)
    total, sums = policy_loss(scores, made, function=lambda tokens: function(tokens, step=step))
    total.backward()
    return float(total.detach()), logp.grad.tolist(), means(sums)


def test_gspo_by_hand():
    # one row: mean log ratio log(2) / 2, so s = sqrt(2) above 1.0004: clipped; with A = -1 it is not
    total, slopes, metrics = gradient(loss_of("gspo"), [0.4, 0.2], [0.2, 0.2], [1.0, 1.0])
    assert total == pytest.approx(-1.0004) and slopes == [0.0, 0.0] and metrics["clip_fraction"] == 1.0
    total, slopes, _ = gradient(loss_of("gspo"), [0.4, 0.2], [0.2, 0.2], [-1.0, -1.0])
    assert total == pytest.approx(2**0.5) and slopes == pytest.approx([2**0.5 / 2] * 2)
    wide = gradient(loss_of("gspo", high=1.0), [0.4, 0.2], [0.2, 0.2], [1.0, 1.0])
    assert wide[0] == pytest.approx(-(2**0.5))


def test_dppo_by_hand():
    new, old = [0.5, 0.02, 0.1, 0.5], [0.2, 0.002, 0.5, 0.2]
    # p - mu: 0.3 (dropped where A > 0), 0.018 though the ratio is 10, -0.4 (dropped where A <= 0), 0.3 with A < 0: kept
    total, slopes, metrics = by_token(loss_of("dppo", tau=0.0), new, old, [1.0, 1.0, -1.0, -1.0])
    assert total == pytest.approx(-10 + 2.5) and slopes == pytest.approx([0.0, -10.0, 0.0, 2.5])
    assert metrics["masked_fraction"] == 0.5
    total, slopes, _ = by_token(loss_of("dppo", tau=0.1), new[:1], old[:1], [1.0])  # the dropped one is drawn back
    assert total == pytest.approx(0.1 * math.log(2.5) ** 2) and slopes == pytest.approx([0.2 * math.log(2.5)])


def test_dppo_with_the_divergence_of_two_way_distributions():
    mu, p = 0.2, 0.5
    divergence = mu * math.log(mu / p) + (1 - mu) * math.log((1 - mu) / (1 - p))
    for bound, is_kept in ((divergence + 0.01, True), (divergence - 0.01, False)):
        loss = loss_of("dppo", divergence="kl", high=bound, tau=0.0)
        assert by_token(loss, [p], [mu], [1.0])[0] == pytest.approx(-2.5 if is_kept else 0.0)
        assert by_token(loss, [p], [mu], [-1.0])[0] == pytest.approx(2.5)  # on its way back


def test_kl_cov_by_hand():
    tokens = update([-1.0, -3.0, -1.0, -3.0, -2.0], [3.0, 2.0, -2.0, -2.0, -1.0])  # covariances 3, -2, -2, 2, 0
    assert factors(loss_of("kl_cov"), tokens, 0).tolist() == [1, 0, 0, 0, 0]
    assert factors(loss_of("kl_cov", share=0.4), tokens, 0).tolist() == [1, 0, 0, 1, 0]
    extra = {"chosen": [1.0, 0.0]}
    total, slopes, metrics = by_token(loss_of("kl_cov", weight=0.5), [0.4, 0.4], [0.2, 0.2], [1.0, 1.0], extra=extra)
    assert total == pytest.approx(-4 + 0.5 * math.log(2)) and slopes == pytest.approx([-2 + 0.5, -2.0])  # no clip
    assert metrics["held_fraction"] == 0.5


def test_high_entropy_by_hand():
    tokens = update([0.0] * 5, [1.0] * 5, entropy=[0.1, 0.9, 0.5, 0.9, 0.2])
    assert factors(loss_of("high_entropy", share=0.4), tokens, 0).tolist() == [False, True, False, True, False]
    assert factors(loss_of("high_entropy"), tokens, 0).tolist() == [False, True, False, False, False]


def test_llds_by_hand():
    # turn 0 fell by log 2 and rose by log 4 / 3: fallen as a whole; turn 1 rose as a whole; turn 2 has A < 0
    new, old = [0.2, 0.4, 0.2, 0.9, 0.1], [0.4, 0.3, 0.4, 0.3, 0.4]
    advantages, turns = [0.0, 0.0, 0.0, 0.0, -1.0], [0, 0, 1, 1, 2]
    loss = loss_of("llds", weight=0.5)
    total, slopes, metrics = by_token(loss, new, old, advantages, turns=turns)
    assert slopes == pytest.approx([-0.5, 0.0, 0.0, 0.0, 0.0]) and metrics["fallen_fraction"] == pytest.approx(0.4)
    assert total == pytest.approx(0.5 * math.log(2) + 0.8)  # the last: -A clip(0.25, 0.8, 1.2)
    # as one sequence, log 2 - log 4/3 + log 2 - log 3 < 0: it rose
    assert by_token(loss_of("llds", weight=0.5, unit="sequence"), new, old, advantages, turns=turns)[1] == [0.0] * 5


def test_llds_is_refused_where_it_would_do_nothing():
    with pytest.raises(BadConfig, match="loss 'llds' with minibatches = 1"):
        check(fresh(TrainConfig(loss="llds", minibatches=1)))
    check(fresh(TrainConfig(loss="llds", minibatches=2)))


def test_the_entropy_band_by_hand():
    # entropies 1 within 0.8 to 1.2 times 1, 2 above and 0.5 below; at step 100 of phase 100, b = 2 (1 - 1/e) = 1.264
    b = 2 * (1 - math.exp(-1))
    loss = loss_of("entropy_band", weight=0.1, smooth=2.0)
    p, entropy = [0.2, 0.2, 0.2], [1.0, 2.0, 0.5]
    _, slopes, metrics = by_token(loss, p, p, [0.0] * 3, entropy=entropy, extra={"entropy_mean": [1.0] * 3}, step=100)
    expected = [0.1 * s * (math.log(0.2) + h) for s, h in zip((1, 1 - b, 1 + b), entropy, strict=True)]
    assert slopes == pytest.approx(expected) and metrics["outside_fraction"] == pytest.approx(2 / 3)
    _, slopes, _ = by_token(loss, p, p, [0.0] * 3, entropy=entropy, extra={"entropy_mean": [1.0] * 3}, step=0)
    assert slopes == pytest.approx([0.1 * (math.log(0.2) + h) for h in entropy])  # a plain bonus at first


def test_epo_by_hand():
    # entropies 1 within 0.8 to 1.2 times 1, 2 above and 0.5 below, 2 in a turn without a band (an early one)
    p, entropy = [0.2] * 4, [1.0, 2.0, 0.5, 2.0]
    extra = {"turn_entropy_mean": [1.0, 1.0, 1.0, math.nan]}
    loss = loss_of("epo", weight=0.1, penalty=0.3)
    total, slopes, metrics = by_token(loss, p, p, [1.0] * 4, entropy=entropy, extra=extra)
    assert total == pytest.approx(-4 - 0.1 * (5.5 - 2 * 0.3)) and metrics["outside_fraction"] == pytest.approx(0.5)
    # the penalty is a constant: the gradient is that of a bonus for entropy, whatever the band
    assert slopes == pytest.approx([-1 + 0.1 * (math.log(0.2) + h) for h in entropy])
    wide = by_token(loss_of("epo", weight=0.1, low=0.0, high=9.0), p, p, [1.0] * 4, entropy=entropy, extra=extra)
    assert wide[1] == slopes and wide[2]["outside_fraction"] == 0.0
    assert wide[0] == pytest.approx(-4 - 0.1 * 5.5)


def test_aepo_by_hand():
    # ratios 2 (risen too far), 1, 0.5 (fallen too far) with A > 0, then the same with A < 0
    new, old, advantages = [0.4, 0.2, 0.1] * 2, [0.2] * 6, [1.0] * 3 + [-1.0] * 3
    options = {"clip_low": 0.2, "clip_high": 0.28}
    loss = resolve_loss(TrainConfig(loss="aepo", **options))
    total, slopes, metrics = by_token(lambda tokens, step: loss(tokens), new, old, advantages)
    plain = resolve_loss(TrainConfig(loss="clip", **options))
    value, clipped, _ = by_token(lambda tokens, step: plain(tokens), new, old, advantages)
    assert total == pytest.approx(value) and metrics["carried_fraction"] == pytest.approx(1 / 6)
    assert clipped[0] == 0.0 and slopes[0] == pytest.approx(-1.28)  # as at the edge of the clip
    assert slopes[1:] == clipped[1:] == pytest.approx([-1.0, -0.5, 2.0, 1.0, 0.0])


def test_the_gradient_of_the_entropy_bonus_is_that_of_the_entropy_in_expectation():
    logits = torch.tensor([0.3, -1.0, 2.0, 0.1], dtype=torch.float64, requires_grad=True)
    every = torch.log_softmax(logits, -1)
    entropy = -(every.exp() * every).sum()
    exact = torch.autograd.grad(entropy, logits, retain_graph=True)[0]
    bonus = -(every.detach() + entropy.detach()) * every  # of each token, if it were sampled
    expected = torch.autograd.grad((every.detach().exp() * bonus).sum(), logits)[0]
    torch.testing.assert_close(expected, exact)


def test_simko_by_hand():
    old = [0.2, 0.2, 0.5, 0.2, 0.5]
    top = torch.log(torch.tensor([[0.5, 0.2], [0.5, 0.2], [0.5, 0.2], [0.5, 0.2], [0.5, 0.2]])).requires_grad_()
    chosen = {"chosen": [1.0, 0.0, 1.0, 1.0, 0.0], "entropy": [1.0] * 5}
    advantages = [1.0, 1.0, -1.0, -1.0, -1.0]
    loss = loss_of("simko", k=2, alpha=0.1, first=1.5)
    total, slopes, metrics = by_token(loss, old, old, advantages, extra=chosen, top=top)
    assert total == pytest.approx(-2 + 1.5 + 2)  # the value of the ratio is as it was
    assert slopes == pytest.approx([-0.9, -1.0, 1.5, 1.0, 1.0]) and metrics["harder_fraction"] == pytest.approx(0.2)
    assert top.grad[0].tolist() == pytest.approx([-0.05, -0.05]) and not top.grad[1:].any()


def test_simko_chooses_by_the_quantile_of_each_reply():
    rng = np.random.default_rng(0)
    turns = np.array([3, 0, 0, 1, 3, 0, 0, 0, 1, 3, 3, 3, 3, 2])  # in no order; one reply of a single token
    entropy = rng.random(len(turns)).round(2)
    for share in (0.2, 0.5):
        found = forks(Update(entropy, entropy, turns, turns, {"entropy": entropy}), share=share)
        thresholds = {turn: np.quantile(entropy[turns == turn], 1 - share) for turn in range(4)}
        assert found.tolist() == [bool(one > thresholds[turn]) for one, turn in zip(entropy, turns, strict=True)]
    assert not found[-1] and found[:-1].any()
    alike = Update(entropy, entropy, turns, turns, {"entropy": np.ones(len(turns))})
    assert not forks(alike, share=0.2).any()


@pytest.mark.parametrize("temperature", [0.7, torch.linspace(0.5, 1.5, 20)])
def test_the_likeliest_tokens_of_a_chunked_projection_are_those_of_the_whole(monkeypatch, temperature):
    torch.manual_seed(0)
    head, ids = torch.nn.Linear(16, 61), torch.randint(0, 61, (20,))
    hidden = torch.randn(20, 16)
    found = []
    for chunk in (2**25, 3 * 61):
        monkeypatch.setattr(logprobs, "CHUNK", chunk)
        states = hidden.clone().requires_grad_()
        made = project(head, states, ids, temperature, 3)
        assert made.top.shape == (20, 3)
        (made.top.sum() + made.logprobs.sum()).backward()
        found.append((made.top.detach(), made.logprobs.detach(), made.entropy, states.grad))
    for whole, parts in zip(*found, strict=True):
        torch.testing.assert_close(parts, whole)
    every = torch.log_softmax(head(hidden) / (temperature if isinstance(temperature, float) else temperature[:, None]), -1)
    torch.testing.assert_close(found[0][0], every.sort(descending=True).values[:, :3])
    assert token_logprobs(torch.zeros(2, 2), torch.tensor([0, 1]), top=5).top.shape == (2, 2)


def step(name, batch_tokens, **changes):
    """Return how the weights of a model move in one step on stored episodes."""
    model = tiny_model().double()
    before = torch.cat([p.detach().flatten() for p in model.parameters()])
    config = TrainConfig(loss=name, minibatches=2, batch_tokens=batch_tokens, grad_clip=1e9, **changes)
    stage = resolve_loss(config)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    learner = TrainedModel(Accelerator(cpu=True), Scorer(model, 0.7, "rows", top=top_of(stage)), [optimizer])
    episodes, _ = token_episodes(n=8)
    for number, episode in enumerate(episodes):
        episode.attempt = number
        episode.pay_last(float(number % 3 == 0), {})
        for turn in episode.turns:
            turn.extra["entropy_mean"] = turn.extra["turn_entropy_mean"] = 2.0
    if "entropy" in stage.attributes["needs"]:
        needs.score(episodes, ("entropy",), lambda rows: scored(learner, rows, config))
    metrics = reinforce(learner, [Group("t", "agent", episodes)], resolve("grpo"), config, 3, stage)
    return torch.cat([p.detach().flatten() for p in model.parameters()]) - before, metrics


@pytest.mark.parametrize("name", SHELF)
def test_the_size_of_micro_batches_changes_nothing(name):
    whole, metrics = step(name, 10_000)
    assert float(whole.norm()) > 1e-5 and np.isfinite(metrics["loss"])
    torch.testing.assert_close(step(name, 30)[0], whole, rtol=1e-6, atol=1e-8)


def test_the_mean_entropy_of_earlier_steps_is_over_all_processes_and_kept():
    episodes, _ = token_episodes(n=3)
    group, state = [Group("t", "agent", episodes)], {}

    class Run:
        class learner:
            scale = 1.0

            @classmethod
            def score(cls, rows):
                return {"entropy": [np.full(len(row), cls.scale) for row in rows]}

        @staticmethod
        def gather(items):
            return [*items, (30.0, 10)]  # another process, with ten tokens of 3 nats

    tokens = sum(len(turn.output_ids) for episode in episodes for turn in episode.turns)
    entropy_mean(group, run=Run, state=state, window=2)
    first = (tokens + 30) / (tokens + 10)
    assert state["means"] == pytest.approx([first])
    assert {turn.extra["entropy_mean"] for e in episodes for turn in e.turns} == {first}
    Run.learner.scale = 2.0
    for _ in range(3):
        entropy_mean(group, run=Run, state=state, window=2)
    assert state["means"] == pytest.approx([(2 * tokens + 30) / (tokens + 10)] * 2)
    entropy_mean([], run=Run, state=state, window=2)  # a process without groups goes along
    assert len(state["means"]) == 2


def test_the_mean_entropy_of_a_turn_number_is_over_steps_and_known_from_half_of_the_horizon_on():
    episodes, _ = token_episodes(n=2)
    turns = max(len(episode.turns) for episode in episodes)
    longest = [episode for episode in episodes if len(episode.turns) == turns]
    size = sum(len(episode.turns[-1].output_ids) for episode in longest)
    for episode in episodes:
        episode.horizon = turns

    class Run:
        class learner:
            scale = 1.0

            @classmethod
            def score(cls, rows):
                return {"entropy": [cls.scale * (1.0 + row.turns) for row in rows]}  # turn k has k + 1 nats

        @staticmethod
        def gather(items):
            return [*items, {turns - 1: (30.0, 10)}]  # another process, with ten tokens of 3 nats in the last turn

    state: dict[str, list[float]] = {}
    turn_entropy_mean([Group("t", "agent", episodes)], run=Run, state=state)
    first = (size * turns + 30) / (size + 10)
    for episode in episodes:
        known = [turn.extra["turn_entropy_mean"] for turn in episode.turns]
        assert [math.isnan(value) for value in known] == [number < turns / 2 for number in range(len(known))]
    assert longest[0].turns[-1].extra["turn_entropy_mean"] == pytest.approx(first)
    Run.learner.scale = 3.0
    turn_entropy_mean([Group("t", "agent", episodes)], run=Run, state=state)
    second = (3 * size * turns + 30) / (size + 10)
    assert longest[0].turns[-1].extra["turn_entropy_mean"] == pytest.approx((first + second) / 2)
    assert state["steps"] == [2.0] * turns


@pytest.mark.parametrize("name", ["entropy_band", "epo", "simko"])
def test_a_resumed_run_goes_on_to_the_last_digit(tmp_path, name):
    model = policy(tmp_path / "model")
    goes_on_to_the_last_digit(tmp_path, lambda folder: small(folder, model, loss=name))
    assert len(curve(tmp_path / "whole")) == 3


def test_every_loss_of_the_table_declares_itself():
    for name in LOSSES.table:
        assert LOSSES.looked_up(name).name == name
