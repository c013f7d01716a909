"""The door of prime-rl: verifiers' environment server in a process of its own, asked for episodes with tokens for training.

prime-rl's orchestrator never imports an environment: it starts `verifiers.v1.serve.serve_env`, and sends tasks, the address
of the engine and the sampling through `EnvClient`. prime-rl itself is not on the package index, so that is what is run here.
"""

import asyncio
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers", reason="verifiers is not installed: ./dev test-integrations")
sys.path.insert(0, str(Path(__file__).parent))
import agentgym_there  # noqa: F401
from engine_there import engine, tokenizer_folder
from verifiers.v1.configs.client import TrainClientConfig
from verifiers.v1.serve import EnvClient, env_config_data, serve_env
from verifiers.v1.types import SamplingConfig
from verifiers.v1.utils.loaders import load_taskset, resolve_env_config, taskset_config_type

TASKSET = {"id": "agentgym_there", "env": "rlvr/GuessNumber-v0", "tasks": 3}


def start() -> tuple[Any, str]:
    """Start the server as prime-rl does, and return its process and address."""
    spawn = multiprocessing.get_context("spawn")
    queue: Any = spawn.Queue()
    config = resolve_env_config({"taskset": TASKSET, "horizon": 4})
    options = {
        "max_workers": 1,
        "address": "tcp://127.0.0.1:0",
        "address_queue": queue,
        "config_data": env_config_data(config),
    }
    process = spawn.Process(target=serve_env, kwargs=options)
    process.start()
    return process, queue.get(timeout=240)


async def episodes(address: str, url: str, folder: Path, attempts: int) -> list[Any]:
    """Ask for a group of episodes of each task, as the orchestrator does."""
    client = EnvClient(address)
    await client.wait_for_server_startup()
    config = TrainClientConfig.model_validate(
        {"base_url": url, "api_key_var": "NONE", "renderer": {"name": "default"}, "renderer_model_name": str(folder)}
    )
    tasks = list(load_taskset(taskset_config_type("agentgym_there").model_validate(TASKSET)))
    sampling = SamplingConfig(temperature=1.0, max_tokens=64)
    data = [task.data.model_dump(mode="json") for task in tasks for _ in range(attempts)]
    played = await asyncio.gather(*(client.run(config, "model", sampling, one) for one in data))
    await client.close()
    return list(played)


def test_what_reaches_the_trainer_is_what_was_sampled(tmp_path: Path) -> None:
    folder = tokenizer_folder(tmp_path / "tokenizer")
    process, address = start()
    try:
        with engine(lambda prompt: f"I guess.<action>{40 + prompt.count('assistant')}</action>") as (url, sampled_replies):
            played = asyncio.run(episodes(address, url, folder, 2))
    finally:
        process.terminate()
        process.join(60)
    assert len(played) == 6 and not any(episode.errors for episode in played)
    sampled = {(tuple(prompt), tuple(ids)): logprobs for prompt, ids, logprobs in sampled_replies}
    tokens = turns = 0
    for episode in played:
        (trace,) = episode.traces
        assert not trace.errors and set(trace.rewards) == {"reward"} and trace.metrics["turns"] >= 1
        for branch in trace.branches:
            ids, mask, logprobs = branch.token_ids, branch.sampled_mask, branch.logprobs
            edges = [place for place in range(1, len(ids)) if mask[place] != mask[place - 1]] + [len(ids)] * mask[-1]
            for begin, end in zip(edges[::2], edges[1::2], strict=True):
                assert sampled[tuple(ids[:begin]), tuple(ids[begin:end])] == logprobs[begin:end]
                tokens, turns = tokens + end - begin, turns + 1
    assert turns == len(sampled_replies) == sum(int(episode.traces[0].metrics["turns"]) for episode in played)
    assert tokens == sum(len(ids) for _, ids, _ in sampled_replies) > 100
    seeds = {(e.traces[0].info["agentgym"]["task_id"], e.traces[0].info["agentgym"]["seed"]) for e in played}
    assert len(seeds) == 6  # attempts of a group differ
    print(f"\n{len(played)} episodes, {turns} turns, {tokens} sampled tokens, all of them as the engine gave them")
