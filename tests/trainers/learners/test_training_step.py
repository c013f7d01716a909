"""Packed rows, merged rows and micro-batches: one gradient, whatever the layout."""

from functools import partial

import numpy as np
import pytest
import torch
from tiny_rows import tiny_model, token_episodes

from agentgym.errors import BadConfig
from agentgym.trainers.data.packing import count, idle, pack, token_weights, unpack
from agentgym.trainers.data.segments import build
from agentgym.trainers.losses.policy import clip, imitation_loss, policy_loss
from agentgym.trainers.model import logprobs
from agentgym.trainers.model.attention import choose
from agentgym.trainers.model.logprobs import policy_logprobs as scores
from agentgym.trainers.model.logprobs import token_logprobs


@pytest.fixture(scope="module", params=["small", "split", "mixture of experts"])
def model(request):
    model = tiny_model(moe=request.param == "mixture of experts")
    METHOD[0] = choose(model, "split" if request.param == "split" else "auto")
    return model


METHOD = ["rows"]
"""How the rows of the model under test share a forward pass."""


def policy_logprobs(model, batch, temperature=1.0):
    return scores(model, batch, temperature, METHOD[0])


def gradient(
    model, segments, *, tokens=64, loss_aggregation="token", constant=None, temperature=0.7, loss=policy_loss, level="token"
):
    model.zero_grad()
    for batch in pack(segments, token_weights(segments, loss_aggregation, constant=constant), tokens):
        scored = policy_logprobs(model, batch, temperature)
        options = {"function": partial(clip, importance_sampling_level=level)} if loss is policy_loss else {}
        loss(scored, batch, **options)[0].backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()]).clone()


def close(a, b):
    assert float(b.norm()) > 1e-3
    torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-6 * float(b.norm()))


def row_by_row(model, segment, temperature=1.0):
    logits = model(input_ids=torch.tensor(segment.ids[None].astype(np.int64))).logits[0, :-1]
    every = torch.log_softmax(logits / temperature, -1)
    found = every[torch.arange(len(segment) - 1), torch.tensor(segment.ids[1:].astype(np.int64))]
    return found.detach().numpy()[segment.mask[1:]]


@pytest.mark.parametrize("tokens", [1, 40, 10_000])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_packed_log_probabilities_equal_those_of_single_rows(model, tokens, temperature):
    segments = build(*token_episodes(n=8))
    batches = pack(segments, token_weights(segments), tokens)
    with torch.no_grad():
        packed = unpack(batches, [policy_logprobs(model, b, temperature).logprobs for b in batches], segments)
    for segment, found in zip(segments, packed, strict=True):
        np.testing.assert_allclose(found[segment.mask], row_by_row(model, segment, temperature), atol=1e-5)
        assert np.isnan(found[~segment.mask]).all()
    assert sorted(i for b in batches for i in b.segments) == list(range(len(segments)))
    assert all(b.ids.numel() <= tokens or len(b.ids) == 1 for b in batches)


@pytest.mark.parametrize("loss_aggregation", ["token", "turn", "episode", "episode-sum", "constant"])
@pytest.mark.parametrize("level", ["token", "turn"])
def test_merged_rows_and_rows_per_turn_give_the_same_gradient(model, loss_aggregation, level):
    episodes, advantages = token_episodes()
    merged, unmerged = build(episodes, advantages), build(episodes, advantages, merge=False)
    assert len(merged) < len(unmerged)
    options = {
        "loss_aggregation": loss_aggregation,
        "constant": 50.0 if loss_aggregation == "constant" else None,
        "level": level,
    }
    close(gradient(model, merged, **options), gradient(model, unmerged, **options))


@pytest.mark.parametrize("level", ["token", "turn", "sequence"])
@pytest.mark.parametrize("window", [False, True])
def test_the_size_of_micro_batches_does_not_change_the_gradient(model, level, window):
    segments = build(*token_episodes(window=window))
    whole = gradient(model, segments, tokens=10_000, level=level)
    close(gradient(model, segments, tokens=1, level=level), whole)
    close(gradient(model, segments, tokens=30, level=level), whole)


def test_two_processes_add_up_to_one(model):
    segments = build(*token_episodes(n=7, window=True))
    whole = gradient(model, segments, loss_aggregation="turn")
    parts = [[row for row in segments if row.episode % 2 == part] for part in range(2)]
    total = sum(count(part, "turn") for part in parts)
    assert total == count(segments, "turn")
    added = 0
    for part in parts:
        model.zero_grad()
        for batch in pack(part, token_weights(part, "turn", total=total), 64):
            policy_loss(policy_logprobs(model, batch, 0.7), batch)[0].backward()
        added = added + torch.cat([p.grad.flatten() for p in model.parameters()])
    close(added, whole)


def test_on_policy_gradient_is_that_of_the_plain_policy_gradient(model):
    """At ratio 1 the gradient is that of -mean(A * logp), computed here with the library's own forward pass."""
    segments = build(*token_episodes())
    for segment in segments:
        segment.logprobs[segment.mask] = row_by_row(model, segment)
    found = gradient(model, segments, temperature=1.0)
    model.zero_grad()
    total = sum(s.trained for s in segments)
    for s in segments:
        ids = torch.tensor(s.ids[None].astype(np.int64))
        logp = torch.log_softmax(model(input_ids=ids).logits[0, :-1], -1).gather(-1, ids[0, 1:, None]).squeeze(-1)
        (-(logp * torch.tensor(s.advantages[1:])).sum() / total).backward()
    close(found, torch.cat([p.grad.flatten() for p in model.parameters()]))


def test_imitation_is_the_librarys_own_loss(model):
    segments = build(token_episodes()[0])
    found = gradient(model, segments, temperature=1.0, loss=imitation_loss)
    model.zero_grad()
    total = sum(s.trained for s in segments)
    for s in segments:
        ids = torch.tensor(s.ids[None].astype(np.int64))
        labels = torch.where(torch.tensor(s.mask[None]), ids, -100)
        (model(input_ids=ids, labels=labels).loss * s.trained / total).backward()
    close(found, torch.cat([p.grad.flatten() for p in model.parameters()]))


def test_a_chunked_projection_changes_nothing(model, monkeypatch):
    segments = build(*token_episodes())
    whole = gradient(model, segments)
    monkeypatch.setattr(logprobs, "CHUNK", 3 * 61)  # three tokens at a time
    close(gradient(model, segments), whole)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_chunked_projection_is_that_of_the_whole_and_of_trl(monkeypatch, frozen, dtype):
    from trl.kernels import ChunkedLogProbFunction

    torch.manual_seed(0)
    head, hidden = torch.nn.Linear(16, 61).to(dtype), torch.randn(20, 16).to(dtype).requires_grad_()
    head.weight.requires_grad_(not frozen)
    ids, direction = torch.randint(0, 61, (20,)), torch.linspace(-1, 1, 20)

    def found(scores):
        learned = [hidden, head.bias] if frozen else [hidden, head.bias, head.weight]
        return [scores[0], scores[1], *torch.autograd.grad(scores[0] @ direction, learned)]

    whole = found(logprobs.project(head, hidden, ids, 0.7))
    monkeypatch.setattr(logprobs, "CHUNK", 3 * 61)
    chunked = logprobs.project(head, hidden, ids, 0.7)
    assert not chunked.entropy.requires_grad
    theirs = ChunkedLogProbFunction.apply(hidden, head.weight, head.bias, ids, 0.7, 8, None, 1.0, ("entropy",))
    close_to = {"atol": 1e-5, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 0.02, "rtol": 0.02}
    for mine, other, their in zip(found(chunked), whole, found(theirs), strict=True):
        torch.testing.assert_close(mine, other, **close_to)
        torch.testing.assert_close(mine, their, **close_to)


@pytest.mark.parametrize("chunk", [2**25, 3 * 61])
def test_the_gradient_of_the_entropy_is_that_of_its_formula(monkeypatch, chunk):
    torch.manual_seed(0)
    head, hidden = torch.nn.Linear(16, 61), torch.randn(20, 16).requires_grad_()
    ids, a, b = torch.randint(0, 61, (20,)), torch.linspace(-1, 1, 20), torch.linspace(0, 2, 20)
    learned = [hidden, head.bias, head.weight]
    p = torch.softmax(head(hidden) / 0.7, -1)
    by_hand = (p.gather(1, ids[:, None]).squeeze(1).log() * a).sum() - ((p * p.log()).sum(-1) * b).sum()
    monkeypatch.setattr(logprobs, "CHUNK", chunk)
    scores = logprobs.project(head, hidden, ids, 0.7, entropy_gradient=True)
    found = torch.autograd.grad(scores.logprobs @ a + scores.entropy @ b, learned)
    for mine, theirs in zip(found, torch.autograd.grad(by_hand, learned), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)


def test_models_that_change_their_logits_take_their_own_forward_pass(model):
    from transformers import Gemma2Config, Gemma2ForCausalLM

    torch.manual_seed(0)
    capped = Gemma2ForCausalLM(
        Gemma2Config(
            vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            intermediate_size=48, final_logit_softcapping=0.5, initializer_range=0.5,
        )
    ).eval()  # fmt: skip
    segments = build(*token_episodes())
    batches = pack(segments, token_weights(segments), 1000)
    with torch.no_grad():
        packed = unpack(batches, [scores(capped, b).logprobs for b in batches], segments)
    for segment, found in zip(segments, packed, strict=True):
        np.testing.assert_allclose(found[segment.mask], row_by_row(capped, segment), atol=1e-5)


def test_entropy_and_log_probabilities_by_hand():
    # logits log 1, log 3 at temperature 1: p = 1/4, 3/4; H = 1/4 log 4 + 3/4 log 4/3 = 0.5623
    scores = token_logprobs(torch.tensor([[0.0, np.log(3)]]), torch.tensor([1]))
    assert float(scores.logprobs) == pytest.approx(np.log(0.75))
    assert float(scores.entropy) == pytest.approx(0.5623351)
    # at temperature 1/2: p = 1/10, 9/10
    assert float(token_logprobs(torch.tensor([[0.0, np.log(3)]]), torch.tensor([1]), 0.5).logprobs) == pytest.approx(
        np.log(0.9)
    )
    with pytest.raises(ValueError, match="temperature"):
        token_logprobs(torch.zeros(1, 2), torch.tensor([0]), 0.0)


def test_weights_by_hand():
    # an episode of two turns with 1 and 3 output tokens, and one of one turn with 2
    from agentgym.episodes.episode import Episode, Turn

    def one(name, *lengths):
        return Episode("e", name, name, 0, turns=[Turn("o", prompt_ids=[9], output_ids=[1] * n) for n in lengths])

    segments = build([one("a", 1, 3), one("b", 2)])  # three rows: the second prompt does not extend the first

    def values(loss_aggregation, constant=None):
        found = token_weights(segments, loss_aggregation, constant=constant)
        return [float(w[s.mask][0]) for w, s in zip(found, segments, strict=True)]

    assert values("token") == pytest.approx([1 / 6, 1 / 6, 1 / 6])
    assert values("turn") == pytest.approx([1 / 3, 1 / 9, 1 / 6])
    assert values("episode") == pytest.approx([1 / 8, 1 / 8, 1 / 4])
    assert values("episode-sum") == pytest.approx([1 / 2, 1 / 2, 1 / 2])
    assert values("constant", 10.0) == pytest.approx([1 / 20, 1 / 20, 1 / 20])
    assert all(w[0] == 0 for w in token_weights(segments))
    for wrong in (
        {"loss_aggregation": "tokens"},
        {"loss_aggregation": "constant"},
        {"loss_aggregation": "token", "constant": 3.0},
    ):
        with pytest.raises(BadConfig):
            token_weights(segments, **wrong)
    with pytest.raises(BadConfig, match="at least 1"):
        pack(segments, token_weights(segments), 0)


def test_a_process_that_waits_for_others_computes_two_tokens_without_weight(model):
    batch = idle()
    assert batch.ids.shape == (1, 2) and batch.segments == () and batch.counts == (1,)
    model.zero_grad()
    loss, _ = policy_loss(policy_logprobs(model, batch), batch)
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    assert float(loss.detach()) == 0 and grads and not any(grad.any() for grad in grads)
