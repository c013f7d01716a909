"""Drawing tokens, by hand-computed numbers and against the library's own filters."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TopKLogitsWarper, TopPLogitsWarper

from agentgym.engines import Sampling
from agentgym.engines.hf.sampling import Draw, sample, uniforms

LOGITS = torch.tensor([0.5, 0.2, 0.0, 0.3]).log()[None]  # probabilities 0.5, 0.2, 0, 0.3


@pytest.mark.parametrize(("uniform", "id"), [(0.0, 0), (0.49, 0), (0.51, 1), (0.69, 1), (0.71, 3), (1 - 2**-53, 3)])
def test_inverse_of_the_distribution(uniform: float, id: int) -> None:
    ids, logprobs = sample(LOGITS, [Draw(Sampling(), uniform, ())])
    assert ids == [id] and logprobs[0] == pytest.approx(LOGITS[0, id].item(), abs=1e-6)


def test_a_token_without_probability_is_never_drawn() -> None:
    """Not even by a uniform number of exactly 0, or exactly on the step before it."""
    logits = torch.tensor([[0.0, 0.5, 0.0, 0.5]]).log().repeat(2, 1)
    ids, _ = sample(logits, [Draw(Sampling(), 0.0, ()), Draw(Sampling(), 0.5, ())])
    assert ids == [1, 3]


def test_the_last_tokens_are_never_run_past() -> None:
    logits = torch.randn(500, 997, generator=torch.Generator().manual_seed(0)) * 3
    logits[:, -3:] = -torch.inf
    ids, logprobs = sample(logits, [Draw(Sampling(), float(np.nextafter(1, 0)), ())] * 500)
    assert max(ids) < 994 and all(np.isfinite(logprobs))


def test_temperature_and_greedy_rows_in_one_batch() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]]).repeat(3, 1)
    draws = [Draw(Sampling(temperature=t), 0.0, ()) for t in (0.5, 0.0, 1.0)]
    ids, logprobs = sample(logits, draws)
    assert ids == [0, 2, 0]
    want = [2 - np.logaddexp.reduce([2, 4, 6]), 3 - np.logaddexp.reduce([1, 2, 3]), 1 - np.logaddexp.reduce([1, 2, 3])]
    assert logprobs == pytest.approx(want, abs=1e-6)


def test_uniforms_depend_on_seed_and_position_alone() -> None:
    assert uniforms(5, 3) == uniforms(5, 400)[:3] != uniforms(6, 3)
    assert all(0 <= u < 1 for u in uniforms(-1, 100))
    for seed in (
        0,
        1,
        -1,
        2**64 - 1,
        2**64,
        2**127 + 12345,
        2**128 + 7,
    ):  # one generator serves all
        alone = np.random.Generator(np.random.Philox(key=seed % 2**128))
        assert uniforms(seed, 7) == alone.random(7).tolist()


def test_frequencies_follow_the_distribution() -> None:
    draws = [Draw(Sampling(temperature=0.7), u, ()) for u in uniforms(0, 20_000)]
    logits = torch.tensor([0.1, 1.0, -1.0, 0.4, 2.0])
    ids, _ = sample(logits.repeat(20_000, 1), draws)
    expected = (logits / 0.7).softmax(-1).numpy() * 20_000
    chi_square = float(((np.bincount(ids, minlength=5) - expected) ** 2 / expected).sum())
    assert chi_square < 18.5  # 99.9 % of chi-square with 4 degrees of freedom


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 1000),
    st.floats(0.05, 1.0),
    st.integers(0, 12),
    st.floats(0.0, 0.5),
    st.sampled_from([1.0, 0.8, 1.7]),
    st.sampled_from([0.7, 1.0, 0.0]),
)
def test_filters_equal_the_library(
    seed: int, top_p: float, top_k: int, min_p: float, penalty: float, temperature: float
) -> None:
    logits = torch.randn(1, 20, generator=torch.Generator().manual_seed(seed)) * 2
    seen = [1, 5, 5, 9]
    want = RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([seen]), logits.clone()) / (temperature or 1.0)
    if min_p > 0:
        want = MinPLogitsWarper(min_p)(None, want)
    if top_k > 0:
        want = TopKLogitsWarper(top_k)(None, want)
    if top_p < 1:
        want = TopPLogitsWarper(top_p)(None, want)
    table = want.log_softmax(-1)[0]
    sampling = Sampling(temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p, repetition_penalty=penalty)
    draws: list[Draw] = []
    for u in np.linspace(0, 1 - 1e-9, 150):
        # A greedy row and a plain one beside it must change nothing.
        draws += [Draw(Sampling(temperature=0), 0.5, ()), Draw(sampling, float(u), seen), Draw(Sampling(), 0.5, ())]
    ids, logprobs = sample(logits.repeat(len(draws), 1), draws)
    reached = dict(zip(ids[1::3], logprobs[1::3], strict=True))
    for id, logprob in reached.items():
        assert logprob == pytest.approx(table[id].item(), abs=1e-4)
    if temperature == 0:
        assert list(reached) == [int(table.argmax())]
    else:
        assert set(reached) >= {i for i, p in enumerate(table.exp().tolist()) if p > 0.01}
