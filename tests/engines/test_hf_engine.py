"""Slots, caches and failures of the hf engine."""

import asyncio
import random
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from agentgym.engines import Completion, Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.errors import BadConfig, BadData, Fault

MODEL = tiny.model()


async def episode(engine: HFEngine, number: int, turns: int = 4) -> list[Completion]:
    """Play some turns of uneven length; every fourth episode shares its first prompt with its siblings."""
    first = random.Random(number // 4)
    prompt = [first.randrange(272) for _ in range(40)]
    rng = random.Random(number)
    done: list[Completion] = []
    for turn in range(turns):
        sampling = Sampling(max_tokens=rng.randint(1, 6), seed=100 * number + turn, stop_ids=(7,))
        done.append(await engine.generate(prompt, sampling, f"episode {number}"))
        prompt = [*prompt, *done[-1].ids, *(rng.randrange(272) for _ in range(rng.randint(3, 20)))]
    return done


async def episodes(engine: HFEngine, count: int) -> list[list[Completion]]:
    return list(await asyncio.gather(*(episode(engine, number) for number in range(count))))


def tokens(all_turns: list[list[Completion]]) -> list[list[list[int]]]:
    return [[turn.ids for turn in turns] for turns in all_turns]


def test_any_number_of_slots_gives_the_same_tokens() -> None:
    want = asyncio.run(episodes(HFEngine(MODEL, slots=12), 12))
    for slots in (1, 3, 5):
        got = asyncio.run(episodes(HFEngine(MODEL, slots=slots, prefill_tokens=50), 12))
        assert tokens(got) == tokens(want)
        for a, b in zip(chain(*got), chain(*want), strict=True):
            assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)


def test_same_calls_same_digits() -> None:
    assert asyncio.run(episodes(HFEngine(MODEL, slots=5), 12)) == asyncio.run(episodes(HFEngine(MODEL, slots=5), 12))


def test_a_turn_computes_only_what_is_new() -> None:
    async def play() -> list[int]:
        engine, seen = HFEngine(MODEL, slots=2), []
        prompt = list(range(30))
        for turn in range(3):
            got = await engine.generate(prompt, Sampling(max_tokens=4, seed=turn), "a")
            prompt = [*prompt, *got.ids, 1, 2, 3]
            seen.append(engine.prefilled)
        return seen

    # The last sampled token was never fed back, so it comes with the three new ones.
    assert asyncio.run(play()) == [30, 34, 38]


def test_siblings_share_their_prompt() -> None:
    async def play() -> int:
        engine = HFEngine(MODEL, slots=8)
        await asyncio.gather(*(engine.generate(list(range(60)), Sampling(seed=i, max_tokens=3), f"s{i}") for i in range(8)))
        return engine.prefilled

    assert asyncio.run(play()) == 60


def computed(engine: HFEngine) -> list[int]:
    """Return a list to which each step of the engine appends its number of rows."""
    backend: Any = engine._backend
    counts, forward = list[int](), backend.forward
    backend.forward = lambda rows: (counts.append(len(rows)), forward(rows))[1]
    return counts


@pytest.mark.parametrize("slots", [4, 12])
def test_equal_tokens_are_computed_once_and_change_no_reply(slots: int) -> None:
    """Twelve sessions of three kinds: equal in all turns, in the first turn, and different from the start."""

    async def play(engine: HFEngine, names: list[int]) -> list[list[Completion]]:
        async def session(name: int) -> list[Completion]:
            kind, done = name % 3, list[Completion]()
            prompt = [100 + kind, *range(40 if kind else 3)]
            for turn in range(4):
                seed = turn if kind == 0 else 10 * turn + (turn > 0) * name
                got = await engine.generate(prompt, Sampling(max_tokens=5, seed=seed, stop_ids=(7,)), f"s{name}")
                done.append(got)
                prompt = [*prompt, *got.ids, 50 + (turn if kind < 2 else turn + name)]
            return done

        return list(await asyncio.gather(*map(session, names)))

    engine = HFEngine(MODEL, slots=slots)
    counts = computed(engine)
    together = asyncio.run(play(engine, list(range(12))))
    for name, turns in enumerate(together):
        alone = asyncio.run(play(HFEngine(MODEL, slots=1), [name]))[0]
        assert [turn.ids for turn in turns] == [turn.ids for turn in alone]
        for a, b in zip(turns, alone, strict=True):
            assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)
    if slots == 12:
        assert counts[0] == 3 and sum(counts) < 0.7 * sum(len(turn.ids) for turns in together for turn in turns)
    assert max(counts) <= slots


def test_a_session_that_ends_leaves_the_others_their_tokens() -> None:
    async def play() -> list[Completion]:
        engine = HFEngine(MODEL, slots=4)

        def watch(token: int, logprob: float) -> bool:
            engine.abort("s1")
            return False

        sampling = Sampling(max_tokens=6, temperature=0)
        prompt = list(range(30))
        return list(
            await asyncio.gather(
                engine.generate(prompt, sampling, "s0", watch=watch),
                engine.generate(prompt, sampling, "s1"),
                engine.generate(prompt, Sampling(max_tokens=2, temperature=0), "s2"),
                engine.generate(prompt, sampling, "s3"),
            )
        )

    first, gone, short, last = asyncio.run(play())
    assert gone.finish == "abort" and first.ids == last.ids and len(last.ids) == 6 and short.ids == last.ids[:2]


def test_generic_path_equals_the_library(caplog: pytest.LogCaptureFixture) -> None:
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=272, n_positions=256, n_embd=64, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    engine = HFEngine(model, slots=3)
    assert "generic path" in caplog.text and len(caplog.records) == 1
    for turns in asyncio.run(episodes(engine, 5)):
        assert all(turn.ids for turn in turns)
    got = asyncio.run(engine.generate([5, 6, 7], Sampling(temperature=0, max_tokens=8), "greedy"))
    want = model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert got.ids == want[0, 3:].tolist()


def test_library_generate_agrees_when_greedy() -> None:
    got = asyncio.run(HFEngine(MODEL, slots=2).generate([5, 6, 7], Sampling(temperature=0, max_tokens=20), "greedy"))
    want = MODEL.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert got.ids == want[0, 3:].tolist()


def test_weights_changed_in_place() -> None:
    """A trainer shares the module: after `load_weights` nothing old is used, and its mode is left as it was."""

    async def play() -> None:
        model = tiny.model()
        engine = HFEngine(model, slots=2)
        model.train()
        prompt = list(range(20))
        await engine.generate(prompt, Sampling(max_tokens=5), "a")
        storage = model.model.embed_tokens.weight.data_ptr()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
        await engine.load_weights(model.named_parameters(), 3)
        got = await engine.generate(prompt, Sampling(max_tokens=5), "a")
        want = await HFEngine(model, slots=2).generate(prompt, Sampling(max_tokens=5), "b")
        assert (got.ids, got.policy_version) == (want.ids, 3) and got.logprobs == pytest.approx(want.logprobs, abs=1e-5)
        assert model.training and model.model.embed_tokens.weight.data_ptr() == storage

    asyncio.run(play())


def test_no_completion_spans_two_versions() -> None:
    async def play() -> None:
        model, other = tiny.model(), tiny.model(seed=1)
        engine = HFEngine(model, slots=2)
        old = [asyncio.create_task(engine.generate([1, 2, i], Sampling(max_tokens=30, seed=i), f"o{i}")) for i in range(3)]
        await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        await engine.load_weights(other.state_dict().items(), 1)
        versions = [(await task).policy_version for task in old]
        assert versions == [0, 0, 1]  # the third had found no slot yet

    asyncio.run(play())


@pytest.mark.parametrize(
    ("weights", "message"),
    [([("model.norm.wieght", torch.zeros(64))], "model.norm.weight"), ([("model.norm.weight", torch.zeros(3))], r"\(3,\)")],
)
def test_wrong_weights_are_refused_and_then_mended(weights: Any, message: str) -> None:
    async def play() -> None:
        model = tiny.model()
        engine = HFEngine(model, slots=2)
        running = asyncio.create_task(engine.generate([1, 2], Sampling(max_tokens=20), "running"))
        for _ in range(20):
            await asyncio.sleep(0)
        update = asyncio.create_task(engine.load_weights(weights, 1))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(engine.generate([1], Sampling(), "waiting"))
        with pytest.raises(BadConfig, match=message):
            await update
        assert len((await running).ids) == 20 and engine.policy_version == 0
        with pytest.raises(Fault, match="half-way"):
            await waiting
        with pytest.raises(Fault, match="half-way"):
            await engine.generate([1], Sampling(), "a")
        await engine.load_weights(tiny.model().named_parameters(), 2)
        assert (await engine.generate([1], Sampling(max_tokens=1), "a")).policy_version == 2

    asyncio.run(play())


def test_diverged_weights_are_a_fault_not_a_hang() -> None:
    async def play() -> None:
        model = tiny.model()
        with torch.no_grad():
            model.model.norm.weight.fill_(float("nan"))
        engine = HFEngine(model, slots=2)
        completions = [engine.generate([1, 2, i], Sampling(max_tokens=5), f"s{i}") for i in range(4)]
        for result in await asyncio.gather(*completions, return_exceptions=True):
            assert isinstance(result, Fault) and result.reason == "engine" and "not finite" in str(result)

    asyncio.run(play())


def test_a_failing_step_fails_its_requests_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        engine = HFEngine(MODEL, slots=2)
        backend = engine._backend
        forward = backend.forward

        def fail(rows: Any) -> Any:
            if any(99 in row.ids for row in rows):
                raise RuntimeError("out of memory")
            return forward(rows)

        monkeypatch.setattr(backend, "forward", fail)
        with pytest.raises(Fault, match="out of memory"):
            await engine.generate([1, 99], Sampling(max_tokens=2), "bad")
        assert len((await engine.generate([1, 2], Sampling(max_tokens=2, temperature=0), "good")).ids) == 2

    asyncio.run(play())


def test_bad_ids_are_refused_beside_good_ones() -> None:
    async def play() -> None:
        engine = HFEngine(MODEL, slots=2)
        good = asyncio.create_task(engine.generate([1, 2], Sampling(max_tokens=4), "good"))
        with pytest.raises(BadConfig, match="272"):
            await engine.generate([1, 272], Sampling(), "bad")
        assert len((await good).ids) == 4

    asyncio.run(play())


def test_a_cancelled_request_frees_its_slot() -> None:
    async def play() -> None:
        engine = HFEngine(MODEL, slots=1)
        task = asyncio.create_task(engine.generate([1], Sampling(max_tokens=400), "a"))
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        got = await asyncio.wait_for(engine.generate([2], Sampling(max_tokens=3), "b"), 30)
        assert len(got.ids) == 3
        waiting = asyncio.create_task(engine.generate([1], Sampling(max_tokens=400), "a"))
        await asyncio.sleep(0)
        engine.abort("a")
        assert (await waiting).finish == "abort"

    asyncio.run(play())


def test_an_interrupted_event_loop_leaves_a_working_engine() -> None:
    engine = HFEngine(MODEL, slots=1)

    async def interrupted() -> None:
        completions = [engine.generate([i], Sampling(max_tokens=400), f"s{i}") for i in range(3)]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*completions), 0.05)
        engine.abort("s0")

    async def killed() -> None:
        asyncio.get_running_loop().create_task(engine.generate([1], Sampling(max_tokens=400), "killed"))
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(interrupted())
    asyncio.run(killed())
    got = asyncio.run(engine.generate([2], Sampling(max_tokens=3), "later"))
    assert len(got.ids) == 3


def test_close_ends_what_runs() -> None:
    async def play() -> None:
        engine = HFEngine(MODEL, slots=1)
        task = asyncio.create_task(engine.generate([1], Sampling(max_tokens=400), "a"))
        await asyncio.sleep(0)
        engine.close()
        assert (await task).finish == "abort"
        with pytest.raises(Fault, match="closed"):
            await engine.generate([1], Sampling(), "a")

    asyncio.run(play())


def test_what_cannot_be_loaded_is_said(tmp_path: Any) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(BadConfig, match="cannot be loaded"):
        HFEngine(tmp_path)
    MODEL.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])  # a copy that was cut off
    with pytest.raises(BadConfig, match="cannot be loaded"):
        HFEngine(tmp_path)
    with pytest.raises(BadData, match=r"model\.safetensors: damaged"):
        asyncio.run(HFEngine(MODEL).load_weights(tmp_path, 1))
    with pytest.raises(BadConfig, match="max_position_embeddings"):
        HFEngine(MODEL, context=10_000)


def test_a_folder_with_weights_of_something_else_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    file = tiny.folder(tmp_path / "moe", kind="Qwen3Moe") / "model.safetensors"
    engine, whole = HFEngine(tmp_path / "moe"), {key: value.clone() for key, value in load_file(file).items()}
    expert = "model.layers.0.mlp.experts.0.down_proj.weight"
    for name, weight, message in (
        ("model.stranger", whole[expert].clone(), "no weight of the model 'model.stranger'"),
        ("model.norm.weight", None, "lacks the weight 'model.norm.weight'"),
    ):
        changed = {key: value for key, value in {**whole, name: weight}.items() if value is not None}
        save_file(changed, file, {"format": "pt"})
        with pytest.raises(BadConfig, match=message):
            asyncio.run(engine.load_weights(file.parent, 1))


def test_a_folder_without_some_of_the_weights_is_refused_except_for_tied_ones(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    file = tiny.folder(tmp_path, seed=1) / "model.safetensors"
    engine, whole = HFEngine(tiny.model(tie_word_embeddings=True)), load_file(file)
    assert "lm_head.weight" not in whole
    asyncio.run(engine.load_weights(tmp_path, 1))
    assert torch.equal(engine.model.lm_head.weight, whole["model.embed_tokens.weight"])
    with pytest.raises(BadConfig, match=r"lacks the weight 'lm_head\.weight'"):
        asyncio.run(HFEngine(MODEL).load_weights(tmp_path, 1))
    del whole["model.norm.weight"]
    save_file({key: value.clone() for key, value in whole.items()}, tmp_path / "short.safetensors", {"format": "pt"})
    (tmp_path / "short.safetensors").replace(file)
    with pytest.raises(BadConfig, match=r"lacks the weight 'model\.norm\.weight'"):
        asyncio.run(engine.load_weights(tmp_path, 2))
