"""Adapters in real vLLM: what they compute, how they are swapped, and that no cache outlives its adapter."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not in this environment: ./dev test-vllm")
pytest.importorskip("peft", reason="peft is not in this environment: ./dev test-vllm")

import tiny
import torch
import transformers
import vllm
from greedy import SMALL, compare, episode
from peft import LoraConfig

from agentgym.engines import Sampling, engine
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.vllm.engine import VLLMEngine
from agentgym.errors import BadConfig, Fault
from agentgym.trainers import resume, train
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.model.policy import PolicySize, init_policy

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
PROMPT = [256, *range(40, 120), 10]
RANK = 5  # one that vLLM has no room of just that size for


def library(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def write_adapter(base: Path, path: Path, seed: int, targets: list[str] = TARGETS, rank: int = RANK) -> Path:
    model = library(base)
    torch.manual_seed(seed)
    model.add_adapter(LoraConfig(r=rank, lora_alpha=7, target_modules=targets, task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    model.save_pretrained(path)
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Return a base and two adapters of it."""
    base = tiny.folder(tmp_path_factory.mktemp("base"))
    return base, *(write_adapter(base, tmp_path_factory.mktemp("adapter"), seed) for seed in (1, 2))


@pytest.fixture(scope="module")
def served(loop: asyncio.Runner, folders: tuple[Path, Path, Path]) -> Iterator[VLLMEngine]:
    async def make() -> VLLMEngine:
        return VLLMEngine(folders[0], lora_rank=RANK, **SMALL)

    made = loop.run(make())
    yield made
    made.close()


async def known(engine: VLLMEngine) -> set[int]:
    return set(await engine._llm.list_loras())


def test_versions_follow_one_another(
    served: VLLMEngine, loop: asyncio.Runner, folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    """Greedy turns equal those of hf with the same adapter; the old number is gone, its folder too."""
    base, *adapters = folders

    async def play(folder: Path) -> list[Any]:
        ours = HFEngine(str(folder), slots=8, dtype="float32")
        return list(await asyncio.gather(*(episode([ours, served], number) for number in range(4))))

    tokens, ties, worst = compare(library(base), loop.run(play(base)))
    print(f"\nbase alone: {tokens} greedy tokens equal, {ties} near-ties, within {worst:.1e}")
    assert tokens > 180 and worst < 1e-4 and loop.run(known(served)) == set()
    for version, adapter in enumerate([*adapters, adapters[0]], start=1):
        moved = tmp_path / f"v{version}"
        moved.mkdir()
        for file in adapter.iterdir():
            (moved / file.name).write_bytes(file.read_bytes())
        loop.run(served.load_weights(moved, version))
        for file in moved.iterdir():
            file.unlink()
        assert loop.run(known(served)) == {version}
        episodes = loop.run(play(adapter))
        assert all(both[1].policy_version == version for turns in episodes for both in turns)
        tokens, ties, worst = compare(library(adapter), episodes)
        print(f"version {version}: {tokens} greedy tokens equal, {ties} near-ties, within {worst:.1e}")
        assert tokens > 180 and ties < 4 and worst < 1e-4


def test_no_cached_prefix_outlives_its_adapter(
    served: VLLMEngine, loop: asyncio.Runner, folders: tuple[Path, Path, Path]
) -> None:
    """The same prompt under two adapters from one and the same path: nothing cached is found again after the swap."""
    prompt = [256, *(40 + i % 150 for i in range(300)), 10]  # longer than two of the CPU's blocks of 128
    path = folders[1].parent / "one path"
    parameters = vllm.SamplingParams(max_tokens=1, temperature=0, logprobs=0, detokenize=False)

    async def ask() -> tuple[int, int, float]:
        """Return how many tokens of the prompt came from the cache, the next token, and its log-probability."""
        id, last = f"cached/{next(served._numbers)}", None
        async for output in served._llm.generate({"prompt_token_ids": prompt}, parameters, id, lora_request=served._lora()):
            last = output
        (token,) = last.outputs[0].token_ids
        return last.num_cached_tokens, token, last.outputs[0].logprobs[0][token].logprob

    for version, adapter in enumerate(folders[1:], start=10):
        path.mkdir(exist_ok=True)
        for file in adapter.iterdir():
            (path / file.name).write_bytes(file.read_bytes())
        loop.run(served.load_weights(path, version))
        with torch.no_grad():
            want = library(adapter)(torch.tensor([prompt])).logits[0, -1].log_softmax(-1)
        for number in range(2):
            cached, token, logprob = loop.run(ask())
            assert logprob == pytest.approx(float(want[token]), abs=1e-3)
            assert cached == 256 * number, "of the adapter before, or nothing is ever cached"


def test_sampled_log_probabilities_at_temperature(
    served: VLLMEngine, loop: asyncio.Runner, folders: tuple[Path, Path, Path]
) -> None:
    async def play() -> list[Any]:
        await served.load_weights(folders[1], 20)
        draws = [Sampling(temperature=0.7, max_tokens=32, seed=i) for i in range(16)]
        return list(await asyncio.gather(*(served.generate([*PROMPT, i], s, f"s{i}") for i, s in enumerate(draws))))

    model, gaps = library(folders[1]), []
    for i, done in enumerate(loop.run(play())):
        with torch.no_grad():
            logits = model(torch.tensor([[*PROMPT, i, *done.ids]])).logits[0, len(PROMPT) : -1]
        want = (logits / 0.7).log_softmax(-1).gather(-1, torch.tensor(done.ids)[:, None])[:, 0]
        gaps += (want - torch.tensor(done.logprobs)).abs().tolist()
    print(f"\n{len(gaps)} sampled tokens, mean |difference| {sum(gaps) / len(gaps):.1e}, largest {max(gaps):.1e}")
    assert len(gaps) > 400 and sum(gaps) / len(gaps) < 1e-3


def test_a_swap_waits_for_what_is_running(
    served: VLLMEngine, loop: asyncio.Runner, folders: tuple[Path, Path, Path]
) -> None:
    async def play() -> tuple[list[Any], Any]:
        await served.load_weights(folders[1], 30)
        running = [
            asyncio.create_task(served.generate([*PROMPT, i], Sampling(temperature=0, max_tokens=60), f"r{i}"))
            for i in range(4)
        ]
        await asyncio.sleep(0.05)
        await served.load_weights(folders[2], 31)
        return await asyncio.gather(*running), await served.generate(PROMPT, Sampling(max_tokens=4), "after")

    before, after = loop.run(play())
    assert {done.policy_version for done in before} == {30} and after.policy_version == 31
    model = library(folders[1])
    for i, done in enumerate(before):
        with torch.no_grad():
            every = model(torch.tensor([[*PROMPT, i, *done.ids]])).logits[0, len(PROMPT) : -1].log_softmax(-1)
        want = every.gather(-1, torch.tensor(done.ids)[:, None])[:, 0]
        assert len(done.ids) == 60 and (want - torch.tensor(done.logprobs)).abs().max() < 1e-3


def test_what_it_cannot_take_is_refused_and_the_old_adapter_stays(
    served: VLLMEngine, loop: asyncio.Runner, folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    loop.run(served.load_weights(folders[1], 40))
    want, number = loop.run(served.score(PROMPT)), loop.run(known(served))
    wide = write_adapter(folders[0], tmp_path / "wide", 3, rank=9)  # room was made for 8
    with pytest.raises(Fault, match="rank 9"):
        loop.run(served.load_weights(wide, 41))
    broken = write_adapter(folders[0], tmp_path / "broken", 3)
    (broken / "adapter_model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(Fault, match="could not take the adapter"):
        loop.run(served.load_weights(broken, 41))
    with pytest.raises(BadConfig, match="load_weights takes an adapter's folder"):
        loop.run(served.load_weights(folders[0], 41))
    assert served.policy_version == 40 and loop.run(known(served)) == number
    assert loop.run(served.score(PROMPT)) == pytest.approx(want, abs=1e-5)


def test_a_folder_of_an_adapter_is_a_model(loop: asyncio.Runner, folders: tuple[Path, Path, Path]) -> None:
    async def play() -> tuple[list[float], list[float]]:
        made: Any = engine(f"vllm:{folders[2]}", **SMALL)
        try:
            return await made.score(PROMPT), await HFEngine(str(folders[2]), dtype="float32").score(PROMPT)
        finally:
            made.close()

    got, want = loop.run(play())
    assert got == pytest.approx(want, abs=1e-3)
    with pytest.raises(BadConfig, match="has rank 5"):
        VLLMEngine(folders[2], lora_rank=4)
    with pytest.raises(BadConfig, match="rank 1 to 512"):
        VLLMEngine(folders[0], lora_rank=600)


def test_a_run_trains_an_adapter_and_goes_on(tmp_path: Path) -> None:
    """Every version is served to vLLM, also after a stop half way; the base on disk is never touched."""
    init_policy("rlvr/GuessNumber-v0", tmp_path / "base", size=PolicySize(64, 2, 2, 96, 400, 512))
    before = (tmp_path / "base" / "model.safetensors").read_bytes()
    config = TrainConfig(
        env="rlvr/GuessNumber-v0", model=str(tmp_path / "base"), engine="vllm", out=str(tmp_path / "run"), steps=4,
        sft_episodes=16, sft_batch=2, sft_muon=False, sft_lr=2e-2, tasks_per_step=2, group_size=4, horizon=(2,),
        eval_every=0, test_tasks=0, checkpoint_every=1, select="keep", turn_tokens=6, threads=1, lora_rank=4,
        context_tokens=256, engine_options={name: SMALL[name] for name in SMALL.keys() - {"dtype", "context"}},
    )  # fmt: skip

    def stop(kind: str, numbers: dict[str, Any]) -> None:
        if kind == "step" and numbers["step"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, stop)
    again = {f"engine.{name}": value for name, value in config.engine_options.items()}
    resume(config.out, settings={"engine": "vllm", **again})
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    gaps = {row["step"]: row["mismatch_mean"] for row in rows if row["phase"] == "rl"}
    print(f"\nmean |log-probability difference| over {len(gaps)} steps: {max(gaps.values()):.1e} at most")
    assert list(gaps) == [1, 2, 3, 4] and max(gaps.values()) < 1e-3
    newest = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    prompt = torch.tensor([list(range(20, 60))])
    with torch.no_grad():
        moved = library(newest)(prompt).logits.log_softmax(-1) - library(tmp_path / "base")(prompt).logits.log_softmax(-1)
    assert moved.abs().mean() > 0.1, "an adapter that has not moved says nothing of what vLLM has seen"
    assert (newest / "adapter_model.safetensors").is_file() and not (newest / "model.safetensors").exists()
    assert (tmp_path / "base" / "model.safetensors").read_bytes() == before
