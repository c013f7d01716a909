"""What the training benchmark measures on a GPU: vLLM under our engine against vLLM's own benchmark, and whole updates.

The policy has the true shape of Qwen2.5-1.5B with random weights, in bfloat16. An update is 16 tasks of 8 episodes with a
window of 2 turns, stopped at planned turns and reply lengths; 150 of them are our estimate against the 12 hours that the
authors of GiGPO report for ALFWorld on two GPUs. Weights reach vLLM through a folder in shared memory.
"""

import asyncio
import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from train_arms import ARMS, Run, Setting, update
from train_env import Clock, env_tokenizer, planned
from transformers import Qwen2Config, Qwen2ForCausalLM

from agentgym.engines import Completion, Request, Sampling
from agentgym.episodes.episode import groups
from agentgym.trainers.model.policy import load_policy, save_policy
from agentgym.trainers.weights import sync

PROMPT, REPLY, REQUESTS = 700, 100, 512  # of the comparison with vLLM's own benchmark
UPDATES, PUBLISHED = 150, 12.0  # updates of the published runs, and their hours
TURNS = (8, 12, 15, 18, 22, 26, 50, 50, 50)
SHAPE = {
    "vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
    "num_attention_heads": 12, "num_key_value_heads": 2, "max_position_embeddings": 32768, "rope_theta": 1e6,
    "tie_word_embeddings": True,
}  # fmt: skip


def main(out: Path | None) -> None:
    """Measure what can be measured here and print it."""
    missing = [] if torch.cuda.is_available() else ["CUDA"]
    missing += [] if importlib.util.find_spec("vllm") else ["vLLM"]
    if missing:
        print(f"GPU: not run; there is no {' and no '.join(missing)} here.")
        return
    scratch = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        folder = make_policy(scratch / "policy")
        theirs = own_benchmark(folder, scratch)  # before our engine takes the memory
        results = asyncio.run(ours(folder)) | {"vllm_own_tokens_per_second": theirs}
    finally:
        shutil.rmtree(scratch)
    results["hours_estimated"] = results["seconds_per_update"] * UPDATES / 3600
    if out:
        out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for name, value in results.items():
        print(f"{name:32} {value:.3f}")
    print(f"published: {PUBLISHED:g} hours on two GPUs; turns and lengths here are planned, weights random")


def make_policy(folder: Path) -> Path:
    """Write a policy of the true shape and random weights, with the environment's small tokenizer."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    model = Qwen2ForCausalLM(Qwen2Config(**SHAPE))
    torch.set_default_dtype(torch.float32)
    return save_policy(model, env_tokenizer(), folder)


def own_benchmark(folder: Path, scratch: Path) -> float:
    """Return the sampled tokens a second of `vllm bench throughput` at our lengths."""
    found = scratch / "throughput.json"
    words = [sys.executable, "-m", "vllm.entrypoints.cli.main", "bench", "throughput", "--model", str(folder)]
    words += ["--dataset-name", "random", "--input-len", str(PROMPT), "--output-len", str(REPLY)]
    words += ["--num-prompts", str(REQUESTS), "--max-model-len", "4096", "--output-json", str(found)]
    subprocess.run(words, check=True)
    return REQUESTS * REPLY / float(json.loads(found.read_text(encoding="utf-8"))["elapsed_time"])


async def ours(folder: Path) -> dict[str, float]:
    """Return our engine's tokens a second at the same lengths, and what one update takes."""
    from agentgym.engines.vllm.engine import VLLMEngine

    lengths = planned(997, 0, median=80.0, most=512)

    class Planned(VLLMEngine):
        """vLLM with replies of planned lengths."""

        async def complete(self, request: Request) -> Completion:
            sampling = request.sampling
            length = lengths[sampling.seed % len(lengths)] if sampling.max_tokens != REPLY else REPLY
            return await super().complete(replace(request, sampling=replace(sampling, max_tokens=length, stop_ids=())))

    engine = Planned(folder, context=4096, gpu_memory_utilization=0.45)
    try:
        rate = await throughput(engine)
        return {"engine_tokens_per_second": rate} | await updates(folder, engine, max(lengths))
    finally:
        engine.close()


async def throughput(engine: Any) -> float:
    """Return the sampled tokens a second over random prompts, all at once."""
    rng = np.random.default_rng(0)
    prompts = rng.integers(10, SHAPE["vocab_size"], (REQUESTS, PROMPT)).tolist()
    started = time.perf_counter()
    completions = [engine.generate(ids, Sampling(max_tokens=REPLY, seed=i), str(i)) for i, ids in enumerate(prompts)]
    found = await asyncio.gather(*completions)
    return sum(len(completion.ids) for completion in found) / (time.perf_counter() - started)


async def updates(folder: Path, engine: Any, longest: int) -> dict[str, float]:
    """Return what a whole update takes: one to warm up, then the mean of two."""
    model = load_policy(folder, torch.bfloat16)[0].to(torch.device("cuda"))
    model.gradient_checkpointing_enable()
    setting = Setting(agent="window", lengths=TURNS, tasks=16, group=8)
    run = Run(setting, ARMS["packed"], model, engine, Clock(), longest)
    run.config = replace(run.config, batch_tokens=16384)
    weights = sync.weight_sync(model, engine)
    spent: dict[str, float] = dict.fromkeys(("rollout", "update", "sync"), 0.0)
    with Utilisation() as gpu:
        for number in (0, 1, 2):
            marks = [time.perf_counter()]
            episodes = await run.play(number)
            marks.append(time.perf_counter())
            update(run.learner, groups(episodes), setting, run.arm, run.config)
            torch.cuda.synchronize()
            marks.append(time.perf_counter())
            await weights.push(number + 1)
            marks.append(time.perf_counter())
            if number:
                for name, begin, end in zip(spent, marks, marks[1:], strict=False):
                    spent[name] += (end - begin) / 2
            else:
                gpu.seen.clear()
    return {
        "seconds_per_update": sum(spent.values()),
        **{f"seconds_{name}": seconds for name, seconds in spent.items()},
        "seconds_forward_and_backward": (run.clock.forward + run.clock.backward) / 2,
        "utilisation": statistics.mean(gpu.seen),
        "peak_gb_trainer": torch.cuda.max_memory_allocated() / 1e9,
        "turns_per_update": sum(len(episode.turns) for episode in episodes),
    }


class Utilisation:
    """Asks the driver once a second how busy the GPU is."""

    def __init__(self) -> None:
        self.seen: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Utilisation":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        words = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        while not self._over.wait(1.0):
            self.seen.append(float(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[0]))
