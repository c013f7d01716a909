"""Drafts: which tokens are kept, that the reply is distributed as the present weights say, and that caches stay right."""

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import tiny
import torch

from agentgym.engines import Completion, Draft, Sampling
from agentgym.engines.hf.drafting import accepted, remainder
from agentgym.engines.hf.engine import HFEngine

OLD = [0.5, 0.3, 0.2]
NEW = [0.25, 0.45, 0.3]


def logs(*rows: Sequence[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64).log()


def draft(tokens: Sequence[int], olds: Sequence[Sequence[float]], known: int = 3, lenience: float = 1.0) -> Draft:
    """A draft of tokens drawn from some distributions, of which the likeliest are known."""
    pairs = [sorted(((p, token) for token, p in enumerate(old)), reverse=True)[:known] for old in olds]
    likeliest = [([token for _, token in pair], [math.log(p) for p, _ in pair]) for pair in pairs]
    return Draft(
        list(tokens),
        [math.log(old[t]) for old, t in zip(olds, tokens, strict=True)],
        lenience,
        likeliest if known else (),
    )


@pytest.mark.parametrize(
    ("token", "lenience", "chance"),
    [(0, 1.0, 0.5), (1, 1.0, 1.0), (2, 1.0, 1.0), (0, 0.5, 0.25), (1, 0.5, 0.75), (0, 2.0, 1.0)],
)  # 0.25 / 0.5; 0.45 / 0.3 and 0.3 / 0.2 are above 1; half of 0.25 / 0.5; half of 1.5; twice of 0.5
def test_the_chance_of_a_token_to_be_kept_by_hand(token: int, lenience: float, chance: float) -> None:
    offered = draft([token], [OLD], lenience=lenience)
    assert accepted(logs(NEW), offered, [chance - 1e-9]) == 1
    assert chance == 1.0 or accepted(logs(NEW), offered, [chance + 1e-9]) == 0
    assert _accepted_share(offered, NEW) == pytest.approx(chance)


def test_nothing_is_kept_after_the_first_token_that_is_not() -> None:
    offered = draft([1, 0, 1], [OLD] * 3)
    assert accepted(logs(NEW, NEW, NEW), offered, [0.9, 0.6, 0.1]) == 1
    assert accepted(logs(NEW, NEW, NEW), offered, [0.9, 0.4, 0.1]) == 3


def test_what_is_drawn_in_the_place_of_a_token_by_hand() -> None:
    # p - min(p, q): 0.25 - 0.25, 0.45 - 0.3, 0.3 - 0.2
    assert remainder(torch.tensor(NEW), draft([0], [OLD]), 0).tolist() == pytest.approx([0, 0.15, 0.1])
    # with the two likeliest known, token 2 keeps all of its 0.3
    assert remainder(torch.tensor(NEW), draft([0], [OLD], known=2), 0).tolist() == pytest.approx([0, 0.15, 0.3])
    # with a lenience of 0.5: p - min(q, p / 2)
    half = remainder(torch.tensor(NEW), draft([0], [OLD], lenience=0.5), 0)
    assert half.tolist() == pytest.approx([0.125, 0.225, 0.15])
    assert remainder(torch.tensor(NEW), draft([0], [OLD], known=0), 0).tolist() == pytest.approx(NEW)


def _accepted_share(offered: Draft, new: Sequence[float]) -> float:
    """The chance that a draft of one token is kept, found by halving: what the code does, not what it should do."""
    low, high = 0.0, 1.0
    if accepted(logs(new), offered, [1 - 1e-12]):
        return 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if accepted(logs(new), offered, [middle]) else (low, middle)
    return low


FIRST = (OLD, NEW)
SECOND = {0: ([0.1, 0.6, 0.3], [0.3, 0.3, 0.4]), 1: ([0.7, 0.2, 0.1], [0.2, 0.2, 0.6]), 2: (OLD, NEW)}
"""By the first token, the old and the new distribution of the second."""


def _replies(known: int, lenience: float) -> dict[tuple[int, int], float]:
    """Return the distribution of replies of two tokens, over every draft and every way it may end."""
    chances: Counter[tuple[int, int]] = Counter()
    for first, second in itertools.product(range(3), repeat=2):
        drawn = FIRST[0][first] * SECOND[first][0][second]
        one, two = (draft([t], [old], known, lenience) for t, old in ((first, FIRST[0]), (second, SECOND[first][0])))
        keep_one, keep_two = _accepted_share(one, FIRST[1]), _accepted_share(two, SECOND[first][1])
        chances[first, second] += drawn * keep_one * keep_two
        for other, weight in enumerate(_share(remainder(torch.tensor(SECOND[first][1]), two, 0))):
            chances[first, other] += drawn * keep_one * (1 - keep_two) * weight
        for other, weight in enumerate(_share(remainder(torch.tensor(FIRST[1]), one, 0))):
            for last in range(3):
                chances[other, last] += drawn * (1 - keep_one) * weight * SECOND[other][1][last]
    return dict(chances)


def _share(weights: torch.Tensor) -> list[float]:
    return (weights.double() / weights.double().sum()).tolist()


@pytest.mark.parametrize("known", [1, 2, 3])
@pytest.mark.parametrize("lenience", [0.3, 1.0])
def test_up_to_a_lenience_of_one_a_reply_is_distributed_as_the_new_weights_say(known: int, lenience: float) -> None:
    chances = _replies(known, lenience)
    for (first, second), chance in chances.items():
        assert chance == pytest.approx(FIRST[1][first] * SECOND[first][1][second], abs=1e-6), (first, second)


def test_without_knowledge_of_the_old_distribution_a_reply_is_only_nearly_so() -> None:
    """The published rule draws from p: min(p, q) + (1 - sum of min(p, q)) p is what a token then comes from."""
    first = Counter[int]()
    for (token, _), chance in _replies(0, 1.0).items():
        first[token] += chance
    overlap = 0.25 + 0.3 + 0.2
    for token in range(3):
        assert first[token] == pytest.approx(min(OLD[token], NEW[token]) + (1 - overlap) * NEW[token], abs=1e-6)
    distance = sum(abs(first[token] - NEW[token]) for token in range(3)) / 2
    assert 0.05 < distance < overlap * (1 - overlap) <= 0.25  # never above a quarter
    gentle = Counter[int]()
    for (token, _), chance in _replies(0, 2 / 3).items():  # 2 / 3 times p / q is nowhere above 1: p again
        gentle[token] += chance
    assert [gentle[token] for token in range(3)] == pytest.approx(NEW, abs=1e-6)


SMALL = {"vocab_size": 6, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "head_dim": 8}


def _generated(engine: HFEngine, count: int, drafts: Sequence[Completion] = (), **options: float) -> list[Completion]:
    async def play() -> list[Completion]:
        def draft_of(number: int) -> Draft | None:
            if not drafts:
                return None
            old = drafts[number]
            return Draft(old.ids, old.logprobs, options.get("lenience", 1.0), old.likeliest)

        seed = int(options.get("seed", 0))
        return list(
            await asyncio.gather(
                *(
                    engine.generate(
                        [1, 2, 3],
                        Sampling(max_tokens=2, seed=seed + number),
                        str(number),
                        draft=draft_of(number),
                        likeliest=int(options.get("likeliest", 0)),
                    )
                    for number in range(count)
                )
            )
        )

    return asyncio.run(play())


def test_replies_of_an_engine_are_distributed_as_its_weights_say() -> None:
    count = 2500
    old, new = (HFEngine(tiny.model(seed=seed, **SMALL), slots=500) for seed in (1, 2))
    drafts = _generated(old, count, likeliest=3)
    replies = _generated(new, count, drafts, seed=100_000)
    assert 0.1 < new.reused / (2 * count) < 0.95, "a test of nothing, or of everything, kept"
    logits = {first: new._backend.logits([1, 2, 3, first])[[2, 3]].log_softmax(-1).double().exp() for first in range(6)}
    met = Counter(tuple(reply.ids) for reply in replies)
    square = 0.0
    for first, second in itertools.product(range(6), repeat=2):
        expected = count * float(logits[first][0, first] * logits[first][1, second])
        square += (met[first, second] - expected) ** 2 / expected
    assert square < 66.6, "chi-square of 35 degrees of freedom, 0.1 %"
    naive = [Completion(one.ids, one.logprobs, one.finish) for one in drafts]  # nothing known: the published rule
    met = Counter(tuple(reply.ids) for reply in _generated(new, count, naive, seed=200_000))
    distance = sum(
        (met[first, second] - count * float(logits[first][0, first] * logits[first][1, second])) ** 2
        / (count * float(logits[first][0, first] * logits[first][1, second]))
        for first, second in itertools.product(range(6), repeat=2)
    )
    assert distance > 80, "the published rule is told apart by as many replies"


@pytest.mark.parametrize("kind", ["Qwen3", "Qwen3Moe"])
def test_log_probabilities_and_later_turns_are_those_of_the_present_weights(kind: str) -> None:
    """Also where a part of the draft was computed and not kept, and by the generic path."""
    old, new = (HFEngine(tiny.model(kind, seed=seed), slots=4) for seed in (1, 2))

    async def play() -> None:
        rng = np.random.default_rng(0)
        prompt = [int(token) for token in rng.integers(0, 272, 20)]
        accepted_tokens = 0
        for turn in range(4):
            offered = await old.generate(prompt, Sampling(max_tokens=6, seed=turn), f"old {turn}", likeliest=20)
            # lenient, so that some tokens of so different weights are kept
            made = await new.generate(
                prompt,
                Sampling(max_tokens=8, seed=50 + turn),
                "new",
                draft=Draft(offered.ids, offered.logprobs, 100.0, offered.likeliest),
            )
            accepted_tokens += made.reused
            assert made.ids[: made.reused] == offered.ids[: made.reused] and len(made.ids) == 8
            scores = await new.score([*prompt, *made.ids])
            assert made.logprobs == pytest.approx(scores[len(prompt) - 1 :], abs=1e-4)
            prompt = [*prompt, *made.ids, *(int(token) for token in rng.integers(0, 272, 5))]
        assert 0 < accepted_tokens < 24

    asyncio.run(play())


def test_the_same_weights_keep_everything() -> None:
    engine = HFEngine(tiny.model(), slots=8)
    drafts = _generated(engine, 8, likeliest=20)
    decoded = engine.decoded
    again = _generated(engine, 8, [*drafts], seed=1000, likeliest=20)
    known = [all(t in tokens for t, (tokens, _) in zip(one.ids, one.likeliest, strict=True)) for one in drafts]
    for one, other, inside in zip(drafts, again, known, strict=True):
        if inside:
            assert other.ids == one.ids and other.reused == 2 and other.finish == "length"
            assert other.logprobs == pytest.approx(one.logprobs, abs=1e-5)
    assert any(known) and engine.reused == sum(one.reused for one in again)
    assert engine.decoded - decoded == 16 - engine.reused


def test_a_draft_ends_where_the_reply_ends() -> None:
    engine = HFEngine(tiny.model(), slots=1)

    async def ask(tokens: list[int], **options: object) -> Completion:
        sampling = Sampling(max_tokens=4, stop_ids=(9,))
        return await engine.generate(
            [1, 2, 3], sampling, "a", draft=Draft(tokens, [-100.0] * len(tokens)), **options
        )  # unlikely when drawn: all is kept

    stopped = asyncio.run(ask([5, 9, 6, 7]))
    assert (stopped.ids, stopped.finish, stopped.reused) == ([5, 9], "stop", 2)
    cut = asyncio.run(ask([5, 6, 7, 8, 10, 11]))
    assert (cut.ids, cut.finish, cut.reused) == ([5, 6, 7, 8], "length", 4)
    seen: list[int] = []

    def watch(token: int, logprob: float) -> bool:
        seen.append(token)
        return token == 6

    assert asyncio.run(ask([5, 6, 7], watch=watch)).ids == [5, 6] == seen
    greedy = Sampling(max_tokens=2, temperature=0)
    plain, built = (
        asyncio.run(engine.generate([1, 2, 3], greedy, "b", draft=offered)) for offered in (None, Draft([5], [-100.0]))
    )
    assert plain.ids == built.ids and not built.reused, "a greedy reply is no draw"
