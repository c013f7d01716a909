"""How far engine and trainer are apart: by hand, and before the first update."""

import io
import math

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from rich.console import Console
from tiny_rows import tiny_model, token_episodes

from agentgym.cli.train_screen import Screen
from agentgym.episodes.episode import Group
from agentgym.errors import BadConfig, UnknownName
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.packing import pack, token_weights, unpack
from agentgym.trainers.data.segments import build
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.losses.policy import policy_loss
from agentgym.trainers.model.logprobs import policy_logprobs
from agentgym.trainers.run.metrics import mismatch


def gaps(*values):
    return np.array(values, dtype=np.float32)


def test_by_hand():
    found = mismatch(gaps(0.0, math.log(2), math.nan, -math.log(2)))  # weights 1, 2, 1/2
    assert found["mismatch_mean"] == pytest.approx(2 * math.log(2) / 3)
    assert found["mismatch_kl"] == pytest.approx((0 + (2 - 1 - math.log(2)) + (0.5 - 1 + math.log(2))) / 3)
    assert found["mismatch_ess"] == pytest.approx(3.5**2 / (3 * (1 + 4 + 0.25)))
    # of |0|, |0.1|, |-0.3| the quantile lies 0.999 * 2 = 1.998 places up: 0.1 + 0.998 * 0.2
    assert mismatch(gaps(0.1, -0.3, 0.0))["mismatch_q999"] == pytest.approx(0.2996)
    assert mismatch(gaps()) == mismatch(gaps(math.nan)) == {}
    assert mismatch(gaps(0.0, 0.0))["mismatch_ess"] == 1.0
    assert mismatch(gaps(1000.0, 0.0))["mismatch_ess"] == pytest.approx(0.5)  # exp stays finite


def learner(lr):
    model = tiny_model()
    return TrainedModel(Accelerator(cpu=True), Scorer(model, 0.7), [torch.optim.SGD(model.parameters(), lr=lr)])


def played(temperature=0.7, off=None):
    """Return a group whose recorded log-probabilities are the model's own, `off` subtracted by token in turn."""
    model, (episodes, _) = tiny_model(), token_episodes(n=8)
    rows = build(episodes, merge=False)
    batches = pack(rows, token_weights(rows), 10_000)
    with torch.no_grad():
        scored = unpack(batches, [policy_logprobs(model, batch, temperature).logprobs for batch in batches], rows)
    values, number = [row[s.mask].tolist() for row, s in zip(scored, rows, strict=True)], 0
    for turn, own in zip((t for e in episodes for t in e.turns), values, strict=True):
        turn.logprobs = []
        for value in own:
            turn.logprobs.append(value - (off[number % len(off)] if off else 0.0))
            number += 1
    return Group("t", "agent", episodes), number


def credit(groups, step=0):
    return [[np.full(len(e.turns), 1.0 if i % 2 else -1.0) for i, e in enumerate(group.episodes)] for group in groups]


credit.needs = ()


def test_it_is_measured_before_the_first_update():
    group, _ = played()
    config = TrainConfig(temperature=0.7, minibatches=4, batch_tokens=40)
    found = reinforce(learner(lr=5.0), [group], credit, config, 0)
    assert found["approx_kl"] > 0.1  # the later mini-batches meet other weights
    assert found["mismatch_mean"] < 1e-5 and found["mismatch_q999"] < 1e-4
    assert found["mismatch_ess"] == pytest.approx(1.0, abs=1e-6)
    assert "correction" not in found


def test_an_engine_that_differs_is_measured_over_every_token_and_corrected():
    off = [math.log(4.0), 0.0, -math.log(2.0)]  # the trainer says 4, 1 and 1/2 times what the engine said
    group, number = played(off=off)
    config = TrainConfig(temperature=0.7, engine="vllm", model="folder", minibatches=4, tis_cap=2.0)
    found = reinforce(learner(lr=5.0), [group], credit, config, 0)
    every = [off[i % 3] for i in range(number)]
    weights = [math.exp(gap) for gap in every]
    assert found["mismatch_mean"] == pytest.approx(sum(map(abs, every)) / number, rel=1e-4)
    assert found["mismatch_q999"] == pytest.approx(math.log(4), rel=1e-4)
    assert found["mismatch_ess"] == pytest.approx(sum(weights) ** 2 / (number * sum(w * w for w in weights)), rel=1e-4)
    assert found["correction"] == pytest.approx(sum(min(w, 2.0) for w in weights) / number, rel=1e-4)
    turns = [turn for episode in group for turn in episode.turns]  # the report shows the gap of every token
    differences = [
        abs(float(ours) - engine) for t in turns for ours, engine in zip(t.extra["logprobs"], t.logprobs, strict=True)
    ]
    assert sum(differences) == pytest.approx(sum(map(abs, every)), rel=1e-4)


@pytest.mark.parametrize("special", [{"engine": "vllm", "model": "folder"}, {"precision": "bf16"}])
def test_a_single_update_is_corrected_by_its_own_scores_without_another_pass(special):
    off, passes = [math.log(4.0), 0.0, -math.log(2.0)], []
    group, number = played(off=off)
    config = TrainConfig(temperature=0.7, minibatches=1, batch_tokens=40, tis_cap=2.0, grad_clip=1e9, **special)
    mine, theirs = learner(lr=0.1), learner(lr=0.1)
    mine.scorer.register_forward_pre_hook(lambda *_: passes.append(1))
    found = reinforce(mine, [group], credit, config, 0)
    rows = build(group.episodes, credit([group])[0])
    batches = pack(rows, token_weights(rows), 40)
    assert len(passes) == len(batches) > 1
    weights = [math.exp(off[i % 3]) for i in range(number)]
    assert found["correction"] == pytest.approx(sum(min(w, 2.0) for w in weights) / number, rel=1e-4)
    assert found["mismatch_mean"] == pytest.approx(sum(abs(off[i % 3]) for i in range(number)) / number, rel=1e-4)
    with torch.no_grad():
        before = [theirs.scorer(batch).logprobs for batch in batches]  # the pass that is spared
    for batch, old in zip(batches, before, strict=True):
        policy_loss(theirs.scorer(batch), batch, old=old, correction=2.0)[0].backward()
    theirs.optimizers[0].step()
    for (_, a), (_, b) in zip(mine.scorer.named_parameters(), theirs.scorer.named_parameters(), strict=True):
        torch.testing.assert_close(a, b)


def printed_plan(config):
    screen = io.StringIO()
    start = {"position": 0, "sft_steps": 0, "steps": 5, "parameters": 1e6, "attention": "split", "precision": "bf16"}
    start["correction"] = config.tis_cap if config.differs else None
    Screen(Console(file=screen, width=300), config, "runs/a")("start", start)
    return screen.getvalue()


def test_the_correction_is_announced_where_it_is_on():
    assert "min(trainer / engine, 3)" in printed_plan(TrainConfig(engine="vllm", model="folder", tis_cap=3.0))
    assert "min(trainer / engine, 2)" in printed_plan(TrainConfig(precision="bf16"))
    assert "trainer / engine" not in printed_plan(TrainConfig())
    assert "precision bf16, attention split" in printed_plan(TrainConfig())
    with pytest.raises(BadConfig, match=r"tis_cap is 0\.5; expected at least 1"):
        TrainConfig(tis_cap=0.5)
    with pytest.raises(UnknownName, match="Did you mean 'vllm'"):
        TrainConfig(engine="vlm")


def rounded(moe):
    """Return the mismatch of a bfloat16 copy that samples and the float32 model that trains."""
    trainer, engine = tiny_model(moe=moe), tiny_model(moe=moe).bfloat16()
    random = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 61, (16, 256), generator=random)
    with torch.no_grad():
        ours, theirs = ((m(input_ids=ids).logits.float() / 2).log_softmax(-1) for m in (trainer, engine))
    drawn = torch.multinomial(theirs.exp().flatten(0, 1), 1, generator=random).view(16, 256, 1)
    return mismatch((ours - theirs).gather(-1, drawn).flatten().numpy())


def test_routing_shows_in_the_tail():
    dense, mixture = rounded(moe=False), rounded(moe=True)
    assert mixture["mismatch_q999"] > 3 * dense["mismatch_q999"]
    assert mixture["mismatch_mean"] < 3 * dense["mismatch_mean"]
