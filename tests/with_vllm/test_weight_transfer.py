"""New weights in a running vLLM engine: one suite for every transport and shape of model."""

import asyncio
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not in this environment: ./dev test-vllm")

import greedy
import tiny
import torch
from safetensors.torch import load_file, save_file

from agentgym.engines import Completion, Sampling, shards
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.vllm import transfer as vllm_transfer
from agentgym.engines.vllm.engine import VLLMEngine
from agentgym.errors import BadData, Fault
from agentgym.trainers.weights.checkpoint import Checkpoint
from agentgym.trainers.weights.sync import weight_sync

PROMPT = [256, 72, 101, 108, 108, 111, 44, 32, 119, 111, 114, 108, 100, 10]
MODELS = {  # all with fused query-key-value and gate-up
    "tied": {"kind": "Qwen3"},
    "untied-bias": {"kind": "Qwen2", "tie_word_embeddings": False},
    "mixture": {"kind": "Qwen3Moe"},
}
NEEDS = {"shared_memory": 0, "ipc": 1, "nccl": 2}
"""GPUs of each transport."""


@dataclass
class Pair:
    """A trainer's model, an engine that began with other weights, and one that began with the trainer's."""

    transport: str
    model: Any
    engine: VLLMEngine
    fresh: VLLMEngine
    before: Path


@pytest.fixture(scope="module", params=[(t, m) for t in NEEDS for m in MODELS], ids="-".join)
def pair(request: Any, loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    transport, name = request.param
    if torch.cuda.device_count() < NEEDS[transport]:
        pytest.skip(f"{transport} needs {NEEDS[transport]} GPU(s), and there are {torch.cuda.device_count()}")
    before, after = (tiny.folder(tmp_path_factory.mktemp(name), seed=seed, **MODELS[name]) for seed in range(2))
    model = greedy.library(after)
    options: dict[str, Any] = {"weight_transport": transport}
    if transport != "shared_memory":
        model.to("cuda:0")
        options |= {"gpu_memory_utilization": 0.2}
    if transport == "nccl":
        options |= {"device_ids": [1]}
    engine, fresh = greedy.start(loop, before, **options), greedy.start(loop, after)
    yield Pair(transport, model, engine, fresh, before)
    engine.close()
    fresh.close()


def test_update_with_requests_in_flight(pair: Pair, loop: asyncio.Runner) -> None:
    """They end under the old weights; what comes after is the new ones', with nothing of the old cache."""
    sampling = Sampling(temperature=0, max_tokens=40)
    sync = weight_sync(pair.model, pair.engine)

    async def play() -> tuple[list[Completion], Completion, list[list[list[Completion]]]]:
        running = [asyncio.create_task(pair.engine.generate([*PROMPT, 60 + i], sampling, f"r{i}")) for i in range(20)]
        await asyncio.sleep(0.05)
        update = asyncio.create_task(sync.push(3))
        await asyncio.sleep(0)
        late = await pair.engine.generate([*PROMPT, 60], sampling, "late")  # a cached prefix, asked for during the update
        await update
        old = await asyncio.gather(*running)
        return old, late, [await greedy.episode([pair.fresh, pair.engine], number) for number in range(4)]

    old, late, episodes = loop.run(play())
    model = pair.model.cpu() if pair.transport == "shared_memory" else greedy.library(pair.before)
    assert pair.engine.policy_version == 3
    assert {got.policy_version for got in old if got.ids} <= {0, 3} and old[0].policy_version == 0
    was = HFEngine(greedy.library(pair.before), None, slots=1)
    for number, got in enumerate(old):
        if got.policy_version == 0:
            assert_scored(loop, was, [*PROMPT, 60 + number], got)
    new = HFEngine(model, None, slots=1)
    assert late.policy_version == 3
    assert_scored(loop, new, [*PROMPT, 60], late)
    tokens, ties, worst = greedy.compare(model, episodes)
    print(f"\n{tokens} greedy tokens equal a fresh engine's, {ties} near-ties, log-probabilities within {worst:.1e}")
    assert tokens > 180 and worst < 1e-4


def assert_scored(loop: asyncio.Runner, engine: HFEngine, prompt: list[int], got: Completion) -> None:
    want = loop.run(engine.score([*prompt, *got.ids]))[len(prompt) - 1 :]
    assert got.logprobs == pytest.approx(want, abs=1e-3)


def test_every_update_counts(pair: Pair, loop: asyncio.Runner) -> None:
    """Each parameter moved by itself reaches the engine, through fused, tied and stacked layers."""
    sync, engine = weight_sync(pair.model, pair.engine), HFEngine(pair.model, None, slots=1)
    moved: list[str] = []

    async def play() -> None:
        for number, (name, parameter) in enumerate(pair.model.named_parameters()):
            if "layers.0" in name:
                continue  # the same kinds again
            with torch.no_grad():
                parameter.add_(0.05 * torch.randn_like(parameter))
            await sync.push(10 + number)
            await engine.load_weights(pair.model.named_parameters(), 10 + number)
            got = await pair.engine.generate(PROMPT, Sampling(temperature=0.7, max_tokens=8, seed=number), name)
            want = (await engine.score([*PROMPT, *got.ids], 0.7))[-8:]
            assert got.logprobs == pytest.approx(want, abs=1e-3), name
            assert got.policy_version == 10 + number
            moved.append(name)

    loop.run(play())
    assert len(moved) > 10
    sync.close()


def test_an_engine_that_sleeps_wakes_for_the_weights_and_then_for_its_cache(
    loop: asyncio.Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM sleeps on GPUs only, so its two calls are recorded; requests, weights and order are real."""
    before, after = (tiny.folder(tmp_path / str(seed), seed=seed, kind="Qwen3") for seed in range(2))
    engine = greedy.start(loop, before)
    engine._sleeps, calls, memory_is_short = True, [], list[bool]()

    async def sleep(level: int) -> None:
        calls.append(("sleep", level, len(engine._running)))

    async def wake_up(tags: list[str]) -> None:
        calls.append(("wake", *tags))
        if memory_is_short:
            raise RuntimeError("out of memory")

    monkeypatch.setattr(engine._llm, "sleep", sleep)
    monkeypatch.setattr(engine._llm, "wake_up", wake_up)
    sync = weight_sync(greedy.library(after), engine)

    async def play() -> Completion:
        running = asyncio.create_task(engine.generate(PROMPT, Sampling(temperature=0, max_tokens=20), "running"))
        await asyncio.sleep(0.01)
        await engine.sleep()
        assert running.done() or not engine._running
        await engine.sleep()
        late = asyncio.create_task(engine.generate(PROMPT, Sampling(temperature=0, max_tokens=4), "late"))
        await asyncio.sleep(0.05)
        assert not late.done() and not engine._running
        await sync.push(1)
        return await late

    late = loop.run(play())
    assert calls == [("sleep", 2, 0), ("wake", "weights"), ("wake", "kv_cache")]
    assert late.policy_version == 1
    assert_scored(loop, HFEngine(greedy.library(after), None, slots=1), PROMPT, late)

    async def fail() -> None:  # whoever asks is told, and does not wait for an update that may never come
        await engine.sleep()
        memory_is_short.append(True)
        late = asyncio.create_task(engine.generate(PROMPT, Sampling(max_tokens=4), "late"))
        with pytest.raises(Fault, match=r"update to version 2 failed half way.*out of memory"):
            await sync.push(2)
        for request in (late, engine.generate(PROMPT, Sampling(max_tokens=4), "later"), engine.score(PROMPT)):
            with pytest.raises(Fault, match="cannot go on: the update to version 2 failed half way"):
                await asyncio.wait_for(request, 60)
        memory_is_short.clear()
        await sync.push(3)
        assert (await engine.generate(PROMPT, Sampling(max_tokens=4), "last")).policy_version == 3

    loop.run(fail())
    sync.close()
    engine.close()


def test_another_set_of_tensors_leaves_the_engine_as_it_was(pair: Pair, loop: asyncio.Runner) -> None:
    engine, source = pair.engine, Checkpoint(pair.model)
    version = engine.policy_version
    before = loop.run(engine.generate(PROMPT, Sampling(temperature=0, max_tokens=8), "before"))
    shapes = shards.shapes(source)
    less = {name: shape for name, shape in shapes.items() if "k_proj.weight" not in name}
    with pytest.raises(Fault, match=rf"brings nothing for .*k_proj.*had \(.*still has the weights of version {version}"):
        loop.run(engine.receive(less, lambda control: None, 99))
    other = {**shapes, "model.norm.weight": (3,)}
    with pytest.raises(Fault, match=r"brings \(3,\) for the weight 'model.norm.weight', where the last one had \(\d+,\)"):
        loop.run(engine.receive(other, lambda control: None, 99))
    after = loop.run(engine.generate(PROMPT, Sampling(temperature=0, max_tokens=8), "after"))
    assert after.ids == before.ids and after.policy_version == version


class Cut(vllm_transfer.SharedMemorySender):
    """Sends in many files, and damages one of them on the way."""

    def send_weights(self) -> None:
        self._control.start_weight_update()
        for number, sent in enumerate(shards.shards(self._source, 40_000)):
            if number == 4:
                path = Path(sent["path"])
                path.write_bytes(path.read_bytes()[:-8])
            self._control.update_weights(sent)
        self._control.finish_weight_update()


def test_a_damaged_transfer_is_told_and_mended_by_a_whole_one(pair: Pair, loop: asyncio.Runner) -> None:
    """Between the two the engine refuses to sample, for it holds weights of no version."""
    if pair.transport != "shared_memory":
        pytest.skip("files are those of shared_memory")
    engine, source = pair.engine, Checkpoint(pair.model)
    version, stood = engine.policy_version, set(Path("/dev/shm").glob("agentgym-weights-*"))
    with pytest.raises(Fault, match=r"update to version 50 failed half way: its weights are of no version.*damaged"):
        loop.run(engine.receive(shards.shapes(source), lambda control: Cut(control, source).send_weights(), 50))
    assert engine.policy_version == version
    with pytest.raises(Fault, match="cannot go on: the update to version 50 failed half way"):
        loop.run(engine.generate(PROMPT, Sampling(max_tokens=2), "refused"))
    assert set(Path("/dev/shm").glob("agentgym-weights-*")) <= stood  # nothing of ours is left
    loop.run(weight_sync(pair.model, engine).push(51))
    got = loop.run(engine.generate(PROMPT, Sampling(temperature=0, max_tokens=12), "mended"))
    assert got.policy_version == 51
    assert_scored(loop, HFEngine(pair.model, None, slots=1), PROMPT, got)


class Slow(vllm_transfer.SharedMemorySender):
    """Takes its time between begin and end, and says when it is there."""

    def send_weights(self) -> None:
        self._control.start_weight_update()
        Slow.there.set()
        time.sleep(0.3)
        for sent in shards.shards(self._source, 40_000):
            self._control.update_weights(sent)
        self._control.finish_weight_update()

    there = threading.Event()


def test_an_update_given_up_half_way_is_mended_by_the_next(pair: Pair, loop: asyncio.Runner) -> None:
    if pair.transport != "shared_memory":
        pytest.skip("files are those of shared_memory")
    engine, source = pair.engine, Checkpoint(pair.model)

    async def play() -> Completion:
        sending = asyncio.create_task(
            engine.receive(shards.shapes(source), lambda control: Slow(control, source).send_weights(), 60)
        )
        await asyncio.to_thread(Slow.there.wait, 60)
        sending.cancel()
        late = asyncio.create_task(engine.generate(PROMPT, Sampling(max_tokens=2), "late"))
        with pytest.raises(asyncio.CancelledError):
            await sending
        with pytest.raises(Fault, match="the update to version 60 failed half way"):
            await late
        await weight_sync(pair.model, engine).push(61)
        return await engine.generate(PROMPT, Sampling(temperature=0, max_tokens=12), "mended")

    got = loop.run(play())
    assert got.policy_version == 61
    assert_scored(loop, HFEngine(pair.model, None, slots=1), PROMPT, got)


def test_a_first_update_without_a_layer_is_told(loop: asyncio.Runner, tmp_path: Path) -> None:
    """Before any update there is nothing to compare with: vLLM's own list of what it loaded decides."""
    whole = tiny.folder(tmp_path / "whole")
    engine = greedy.start(loop, whole)
    try:
        part = shutil.copytree(whole, tmp_path / "part")
        tensors = load_file(part / "model.safetensors")
        del tensors["model.layers.1.mlp.down_proj.weight"]
        save_file(tensors, part / "model.safetensors")
        with pytest.raises(Fault, match=r"no weights came for model\.layers\.1\.mlp\.down_proj\.weight \(1 in all\)"):
            loop.run(engine.load_weights(part, 1))
        tensors["model.layers.1.mlp.down_proj.weight"] = torch.zeros(3, 3)
        with pytest.raises(Fault, match="failed half way"):
            loop.run(engine.load_weights(tensors.items(), 1))
        (part / "model.safetensors").write_bytes(b"no")
        with pytest.raises(BadData, match="damaged"):
            loop.run(engine.load_weights(part, 1))
        loop.run(engine.load_weights(whole, 2))
        assert loop.run(engine.generate(PROMPT, Sampling(max_tokens=3), "again")).policy_version == 2
    finally:
        engine.close()


def test_what_is_told_to_vllms_own_senders(tmp_path: Path) -> None:
    """The parts of ipc and nccl that need no GPU: vLLM's classes take our metadata and settings."""
    from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferUpdateInfo

    source = Checkpoint(tiny.model("Qwen3Moe", tie_word_embeddings=True))
    metas = source.metadata()
    info = NCCLWeightTransferUpdateInfo(**shards.message(metas))
    assert info.names == [meta.name for meta in metas] and info.shapes[0] == [272, 64]
    assert set(info.dtype_names) == {"float32"}
    nccl: Any = vllm_transfer.init_info("nccl", source, workers=2)
    assert (nccl.backend, nccl.is_sender, nccl.world_size, nccl.packed) == ("nccl", True, 3, True)
    ipc: Any = vllm_transfer.init_info("ipc", source, workers=1)
    assert (ipc.backend, ipc.is_sender, ipc.packed) == ("ipc", True, True)
    assert ipc.packed_buffer_size_bytes >= max(meta.bytes for meta in metas)
    from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerWeightTransferEngine as Sender

    assert [name for name, _ in Sender._checked_iter(source, metas)] == info.names  # vLLM's own check of a source
