"""Rows that share their prefixes: each token is computed once, and every loss and gradient is that of the rows apart."""

import dataclasses
import importlib
from functools import partial

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from adapted import adapted
from hypothesis import given, settings
from hypothesis import strategies as st
from small_families import make
from tiny_rows import VOCABULARY, tiny_model, token_episode

from agentgym.episodes.episode import groups
from agentgym.errors import BadConfig
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.data import prefixes
from agentgym.trainers.data.minibatches import deal
from agentgym.trainers.data.packing import pack, token_weights, unpack
from agentgym.trainers.data.prefixes import layouts
from agentgym.trainers.data.segments import Segment, build
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.losses.policy import clip, imitation_loss, policy_loss
from agentgym.trainers.model import forward, layers
from agentgym.trainers.model.attention import choose, inputs
from agentgym.trainers.model.logprobs import policy_logprobs
from agentgym.trainers.model.tree import Tree


def segment(rng, ids, episode, temperatures=False, vocabulary=VOCABULARY):
    """A row with random trained tokens, one at least, each with numbers of its own."""
    mask = rng.random(len(ids)) < 0.6
    mask[0] = False
    mask[rng.integers(1, len(ids))] = True
    turns = np.where(mask, np.arange(len(ids)) // 4, -1).astype(np.int32)
    numbers = [np.where(mask, rng.normal(size=len(ids)), nothing).astype(np.float32) for nothing in (0, np.nan, np.nan)]
    row = Segment(episode, np.array(ids, dtype=np.int32) % vocabulary, mask, numbers[0], -np.abs(numbers[1]) - 1, turns)
    row.extra = {"values": numbers[2]}
    if temperatures:
        row.temperatures = rng.choice([np.nan, 0.7, 1.3], len(ids)).astype(np.float32)
    return row


def forest(seed, rows, deepest=12, temperatures=False):
    """Rows that go on from a random place of an earlier one, or are one again, or begin anew."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(rows):
        prefix = made[rng.integers(len(made))] if made and rng.random() < 0.8 else []
        prefix = prefix[: rng.integers(len(prefix) + 1)] if rng.random() < 0.8 else prefix
        fresh = rng.integers(
            0, 4, rng.integers(0 if len(prefix) > 1 else 2, deepest)
        ).tolist()  # few ids: chance prefixes too
        made.append([*prefix, *fresh])
    return [segment(rng, ids, episode, temperatures) for episode, ids in enumerate(made)]


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Forks of one token, however little they save; attention in parts of five queries."""
    monkeypatch.setattr(forward, "QUERIES", 5)
    monkeypatch.setattr(prefixes, "SHORTEST", 1)
    monkeypatch.setattr(prefixes, "PAYS", 0.0)


trees = partial(given, st.integers(0, 10_000), st.integers(1, 9), st.sampled_from([1, 12, 30, 10_000]))


@settings(max_examples=200, deadline=None)
@trees()
def test_every_row_is_a_path_and_no_token_is_there_twice(seed, rows, tokens):
    ids = [row.ids for row in forest(seed, rows)]
    found = layouts(ids, tokens)
    assert sorted(i for one in found for i in one.rows) == list(range(len(ids)))
    for one in found:
        assert len(one.ids) <= tokens or len(one.rows) == 1
        positions, ends = one.tree.positions.numpy(), one.tree.ends.numpy()
        for i, where in zip(one.rows, one.where, strict=True):
            np.testing.assert_array_equal(one.ids[where], ids[i])
            np.testing.assert_array_equal(positions[where], np.arange(len(where)))
            last = where[-1]  # sees exactly its row
            np.testing.assert_array_equal(np.flatnonzero((np.arange(len(ends)) <= last) & (last < ends)), where)
        spans = np.split(np.arange(len(one.ids)), np.cumsum(one.tree.lengths)[:-1])
        paths = {tuple(np.concatenate([spans[i] for i in path])) for path in one.tree.paths}
        assert all(any(path[: len(where)] == tuple(where) for path in paths) for where in one.where)
        assert len(one.ids) == len({tuple(ids[i][: n + 1]) for i in one.rows for n in range(len(ids[i]))})


def gradient(model, method, rows, tokens, share, loss, temperature=0.7):
    """The gradient, the loss, the metrics and the scores of rows."""
    model.zero_grad()
    batches = pack(rows, token_weights(rows, "episode"), tokens, share=share)
    total, scores = 0.0, []
    for batch in batches:
        scores.append(policy_logprobs(model, batch, temperature, method))
        value, _ = loss(scores[-1], batch)
        value.backward()
        total += float(value.detach())
    flat = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).clone()
    return flat, total, [unpack(batches, [getattr(one, name) for one in scores], rows) for name in ("logprobs", "entropy")]


def equal(model, method, rows, tokens, most=1e-5, loss=policy_loss):
    row_by_row = gradient(model, method, rows, tokens, False, loss)
    together = gradient(model, method, rows, tokens, True, loss)
    assert float((together[0] - row_by_row[0]).norm()) <= most * max(float(row_by_row[0].norm()), 1e-3)
    assert together[1] == pytest.approx(row_by_row[1], rel=10 * most, abs=10 * most)
    for mine, theirs in zip(together[2], row_by_row[2], strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


MODELS = {
    "small": tiny_model(),
    "split": tiny_model().double(),
    "sdpa": tiny_model().double(),
    "split, fp32": tiny_model(),
    "split, window": make("mistral").double(),
    "split, both": make("qwen3 sliding"),
    "split, experts": tiny_model(moe=True),
    "sdpa, scaled": make("cohere").double(),
    "split, scaled": make("cohere").double(),
}
for kind, model in MODELS.items():
    choose(model, kind.partition(",")[0], shared=True)


@settings(max_examples=25, deadline=None)
@trees(st.sampled_from(sorted(MODELS)), st.booleans())
def test_gradients_of_any_tree_are_those_of_its_rows_apart(seed, rows, tokens, kind, temperatures):
    equal(MODELS[kind], kind.partition(",")[0], forest(seed, rows, temperatures=temperatures), tokens)


@pytest.mark.parametrize("level", ["turn", "sequence"])
@pytest.mark.parametrize("kind", ["small", "split"])
def test_ratios_of_turns_and_of_rows_stay_those_of_each_row(kind, level):
    loss = partial(policy_loss, function=partial(clip, importance_sampling_level=level))
    equal(MODELS[kind], kind, forest(3, 8), 10_000, loss=loss)


def test_a_token_trained_in_several_rows_counts_with_each_ones_own_numbers():
    """By hand: two rows of the same ids and one that goes on; -A * w * ratio, summed over rows, of one computed token."""
    model, ids = tiny_model().double(), [5, 6, 7]
    rows = []
    for advantage, engine in ((1.0, -1.0), (-0.5, -2.0), (2.0, -4.0)):
        row_ids = ids if len(rows) < 2 else [*ids, 8]
        mask = np.array([False, False, True, False][: len(row_ids)])
        numbers = [np.where(mask, x, y).astype(np.float32) for x, y in ((advantage, 0), (engine, np.nan))]
        rows.append(
            Segment(len(rows), np.array(row_ids, dtype=np.int32), mask, *numbers, np.where(mask, 0, -1).astype(np.int32))
        )
    (batch,) = pack(rows, token_weights(rows), 100, share=True)
    assert batch.ids.tolist() == [[5, 6, 7, 8]]
    assert batch.trained == 3 and len(batch.places) == 1 and batch.shares.tolist() == [0, 0, 0]
    wide = partial(policy_loss, function=partial(clip, clip_low=1.0, clip_high=1e9))
    scores = policy_logprobs(model, batch, 1.0, choose(model, "split", shared=True))
    wide(scores, batch)[0].backward()
    mine = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    logprob = torch.log_softmax(model(torch.tensor([ids[:2]])).logits[0, -1], -1)[7]
    share = sum(-a / 3 * float((logprob.detach() - e).exp()) for a, e in ((1.0, -1.0), (-0.5, -2.0), (2.0, -4.0)))
    (share * logprob).backward()
    for found, parameter in zip(mine, model.parameters(), strict=True):
        torch.testing.assert_close(found, parameter.grad, rtol=1e-4, atol=1e-5 * float(parameter.grad.norm()) + 1e-9)


def test_imitation_counts_a_shared_token_as_often_as_it_is_shown():
    equal(MODELS["small"], "small", forest(11, 9), 10_000, loss=imitation_loss)


@pytest.mark.parametrize("method", ["split", "sdpa"])
def test_layers_that_are_computed_again_see_the_same_tree(method):
    model = tiny_model()
    choose(model, method, shared=True)
    rows = forest(5, 9)
    expected = gradient(model, method, rows, 10_000, False, policy_loss)[0]
    again = layers.prepare(model, gradient_checkpointing=True, compiled=False)
    with layers.recomputed(again):
        found = gradient(model, method, rows, 10_000, True, policy_loss)[0]
    assert float((found - expected).norm()) <= 1e-5 * float(expected.norm())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9))
def test_flex_attention_sees_the_tree_as_it_is(seed, rows):
    """Its backward pass needs a GPU; what its mask lets through, and its scores, do not."""
    made = forest(seed, rows)
    (batch,) = pack(made, token_weights(made), 10_000, share=True)
    arguments, _ = inputs(batch.ids, batch.places, batch.lengths, "flex", batch.tree)
    mask = arguments["attention_mask"]
    size = arguments["input_ids"].shape[1]
    assert size % 128 == 0 and mask.shape == (1, 1, size, size)
    at = torch.arange(size)
    seen = mask.mask_mod(0, 0, at[:, None], at)
    dense = inputs(batch.ids, batch.places, batch.lengths, "sdpa", batch.tree)[0]["attention_mask"][0, 0]
    count = batch.ids.shape[1]
    torch.testing.assert_close(seen[:count, :count], dense)
    assert not seen[:count, count:].any() and not seen[count:, :count].any()


def test_gradients_by_flex_attention_are_those_of_rows_apart(monkeypatch):
    """By torch's plain implementation: the compiled one has no backward pass on a CPU."""
    flex = importlib.import_module("torch.nn.attention.flex_attention")
    library = importlib.import_module("transformers.integrations.flex_attention")
    monkeypatch.setattr(flex, "_validate_device", lambda *tensors: None)
    monkeypatch.setattr(
        library, "compile_friendly_flex_attention", lambda *a, training=False, **o: flex.flex_attention(*a, **o)
    )
    model, rows = tiny_model(), forest(2, 9)
    choose(model, "split")
    expected = gradient(model, "split", rows, 10_000, False, policy_loss)[0]
    model.set_attn_implementation("agentgym-flex")
    found = gradient(model, "flex", rows, 10_000, True, policy_loss)[0]
    assert float((found - expected).norm()) <= 1e-5 * float(expected.norm())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="flex attention has a backward pass on a GPU alone; none is here")
@pytest.mark.parametrize("method", ["flex", "sdpa"])
def test_gradients_on_a_gpu(method):
    model = tiny_model().cuda()
    choose(model, method, shared=True)
    for seed in range(5):
        made = forest(seed, 9)
        results = []
        for share in (False, True):
            model.zero_grad()
            for batch in pack(made, token_weights(made), 10_000, share=share):
                moved = batch.to("cuda")
                policy_loss(policy_logprobs(model, moved, 0.7, method), moved)[0].backward()
            results.append(torch.cat([p.grad.flatten() for p in model.parameters()]).clone())
        assert float((results[1] - results[0]).norm()) <= 1e-4 * float(results[0].norm())


def test_rows_are_packed_as_ever_where_sharing_would_not_pay(monkeypatch):
    rng = np.random.default_rng(0)
    head, tails = rng.integers(0, 61, 20).tolist(), [rng.integers(0, 61, n).tolist() for n in (60, 80, 100)]
    made = [segment(rng, head + tail, i) for i, tail in enumerate(tails)]  # 300 tokens, 40 could be saved
    for shortest, pays, shared in ((16, 0.1, True), (21, 0.1, False), (20, 40 / 300, True), (16, 0.14, False)):
        monkeypatch.setattr(prefixes, "SHORTEST", shortest)
        monkeypatch.setattr(prefixes, "PAYS", pays)
        batches = pack(made, token_weights(made), 10_000, share=True)
        assert [batch.tree is not None for batch in batches] == [shared]
        if not shared:
            plain = pack(made, token_weights(made), 10_000)
            for field in dataclasses.fields(plain[0]):
                a, b = getattr(batches[0], field.name), getattr(plain[0], field.name)
                if not isinstance(a, dict):
                    assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        else:
            assert batches[0].ids.shape == (1, 260)


def test_a_method_that_would_mix_up_a_tree_is_not_taken(monkeypatch):
    monkeypatch.setattr(Tree, "above", lambda self, spans, dimension=0: list(spans))  # each span sees itself alone
    with pytest.raises(BadConfig, match=r"attention 'split' cannot run here: .*(differ|size)"):
        choose(tiny_model(), "split", shared=True)
    assert choose(tiny_model(), "split") == "split"


def test_what_shares_no_prefix_says_so():
    with pytest.raises(BadConfig, match="attention 'rows' cannot run here: rows share no prefix by it"):
        choose(tiny_model(), "rows", shared=True)
    with pytest.raises(BadConfig, match="knows no sliding window"):
        choose(make("mistral"), "sdpa", shared=True)
    with pytest.raises(BadConfig, match=r"share_prefixes: rows of this model cannot share a prefix here .*linear_attention"):
        choose(make("hybrid"), shared=True)


def test_adapters_learn_what_they_learn_from_rows_apart():
    model = adapted()
    method = choose(model, shared=True)
    assert method == "split"
    equal(model, method, forest(8, 9), 10_000)


def siblings(numbers, prompt=24, reward=lambda attempt: float(attempt % 2)):
    """Groups of episodes, as many in each as a number says, that begin with one prompt a group."""
    rng, found = np.random.default_rng(0), []
    for number, size in enumerate(numbers):
        common = rng.integers(0, 61, prompt).tolist()
        for attempt in range(size):
            episode = token_episode(rng, 2, task=f"t{number}")
            for turn in episode.turns:
                turn.prompt_ids = common + turn.prompt_ids
            episode.attempt, episode.reward = attempt, reward(attempt)
            episode.turns[-1].reward = episode.reward
            found.append(episode)
    return groups(found)


def stepped(policy, played, **changes):
    """Take a step of reinforcement learning; return the metrics and the weights after it."""
    config = TrainConfig(**{"credit": "grpo", "minibatches": 1, "batch_tokens": 300, **changes})
    scorer = Scorer(policy, 0.7, shared=config.share_prefixes)
    reference = Scorer(tiny_model(seed=1), 0.7, shared=config.share_prefixes) if config.kl else None
    learner = TrainedModel(Accelerator(cpu=True), scorer, [torch.optim.SGD(policy.parameters(), lr=1.0)], reference)
    metrics = reinforce(learner, played, resolve(config.credit), config, 0)
    return metrics, torch.cat([p.detach().flatten() for p in policy.parameters()])


@pytest.mark.parametrize("changes", [{}, {"kl": 0.1}, {"minibatches": 2}, {"engine": "vllm", "model": "x", "epochs": 2}])
def test_a_step_that_shares_prefixes_is_the_step_that_does_not(changes, monkeypatch):
    monkeypatch.setattr(prefixes, "SHORTEST", 16)
    monkeypatch.setattr(prefixes, "PAYS", 0.1)
    played, before = siblings([4, 3, 5]), torch.cat([p.detach().flatten() for p in tiny_model().parameters()])
    (row_by_row, expected), (together, found) = (
        stepped(tiny_model(), played, share_prefixes=share, **changes) for share in (False, True)
    )
    assert together.pop("prefix_tokens_shared") > 0.3
    assert float((found - expected).norm()) < 1e-5 * float((expected - before).norm())
    assert together == pytest.approx(row_by_row, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("minibatches", [1, 2, 3, 5])
def test_rows_are_dealt_alike_with_and_without_shared_prefixes(minibatches):
    rows = build([episode for group in siblings([4, 2, 4, 2, 4]) for episode in group])
    config = TrainConfig(minibatches=minibatches, share_prefixes=True)
    dealt = deal(rows, config, 3, 0)
    assert sorted(row for part in dealt for row in part) == list(range(len(rows)))
    assert max(len(part) for part in dealt) - min(len(part) for part in dealt) <= 1
    assert dealt == deal(rows, TrainConfig(minibatches=minibatches), 3, 0)
    assert dealt != deal(rows, config, 4, 0) or minibatches == 1


def test_attention_that_shares_no_prefix_is_refused_when_the_configuration_is_read():
    for attention in ("flash", "rows"):
        with pytest.raises(BadConfig, match=f"share_prefixes with attention '{attention}'"):
            TrainConfig(share_prefixes=True, attention=attention)
