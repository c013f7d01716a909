"""Tokens per second through adapters: what benchmarks/integrations.py measures with a model, or over the gateway."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import agentgym

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / folder) for folder in ("with_integrations", "fakes")]
ENV = "rlvr/GuessNumber-v0"
GUESS = "<action>1</action>"
Rates = dict[str, float]


def instant(tokenizer: Any = None) -> Any:
    """Return the gateway over an engine that answers at once."""
    from agentgym.engines.scripted import ByteTokenizer, ScriptedEngine
    from agentgym.gateway import App, Gateway

    engine = ScriptedEngine(lambda prompt, turn: GUESS, tokenizer or ByteTokenizer(), context=1 << 20)
    return App(Gateway(engine, "model"))


def scripted_alone(tasks: int, attempts: int, horizon: int) -> float:
    """Return the steps a second of `collect` over the same engine."""
    from agentgym.engines.scripted import ByteTokenizer, ScriptedEngine

    agent = agentgym.ChatAgent(ScriptedEngine(lambda prompt, turn: GUESS, ByteTokenizer(), context=1 << 20))
    started = time.perf_counter()
    played = agentgym.collect(agent, ENV, tasks=tasks, attempts=attempts, horizon=horizon)
    return sum(len(episode.turns) for episode in played) / (time.perf_counter() - started)


def policy(folder: str, template: str = "chatml") -> Path:
    from agentgym.trainers.model.policy import PolicySize, init_policy

    size = PolicySize(width=64, layers=1, heads=2, feed_forward=64, vocabulary=400, context=4096)
    return init_policy(ENV, Path(folder) / "policy", size=size, episodes=20, template=template)


def tokens_alone(path: Path, episodes: int) -> float:
    """Return the sampled tokens a second of `collect`."""
    engine = agentgym.engine(f"hf:{path}")
    agent = agentgym.ChatAgent(engine, turn_tokens=16)
    started = time.perf_counter()
    played = agentgym.collect(agent, ENV, tasks=episodes // 8, attempts=8, horizon=5)
    return sampled(played) / (time.perf_counter() - started)


def sampled(episodes: Any) -> int:
    return sum(len(turn.output_ids) for episode in episodes for turn in episode.turns)


def trl_rollouts(seconds: float) -> Rates:
    import torch
    from trl import GRPOConfig

    from agentgym.integrations.trl import TurnCreditTrainer, dataset, rollout

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = policy(folder)
        played = rollout(ENV, turn_tokens=16, horizon=5)
        rows = dataset(ENV, "train", 8)
        args = GRPOConfig(f"{folder}/out", per_device_train_batch_size=8, num_generations=8, report_to=[], bf16=False)
        trainer = TurnCreditTrainer(str(path), args=args, train_dataset=rows, rollout_func=played, credit="gigpo")
        prompts = [row["prompt"] for row in rows.to_list() for _ in range(8)]
        played(prompts, trainer)
        started = time.perf_counter()
        played(prompts, trainer)
        spent = time.perf_counter() - started
        played.close()
        tokens_alone(path, 64)
        return {"tokens": sampled(played.episodes) / spent, "alone": tokens_alone(path, 64)}


def trl_async(seconds: float) -> Rates:
    import torch

    from agentgym.integrations.trl_async import RolloutWorker

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = policy(folder)
        worker = RolloutWorker(
            ENV, lambda: agentgym.engine(f"hf:{path}"), group_size=8, ahead=512, credit="gigpo", turn_tokens=16, horizon=5
        )
        worker.start()
        try:
            first = worker.rollout_buffer.get(timeout=120)
            assert first
            found, started = 0, time.perf_counter()
            while (spent := time.perf_counter() - started) < max(seconds, 5):
                found += int(sum(worker.rollout_buffer.get(timeout=60).completion_mask))
        finally:
            worker.stop()
        tokens_alone(path, 64)
        return {"tokens": found / spent, "alone": tokens_alone(path, 64)}


def verl(seconds: float) -> Rates:
    import test_verl as theirs
    from verl.trainer.ppo import core_algos

    from agentgym.engines.hf.engine import HFEngine
    from agentgym.integrations.verl import AgentgymLoop, dataset
    from agentgym.trainers.model.policy import load_policy

    assert core_algos
    params = {"temperature": 1.0, "top_p": 1.0, "top_k": -1}
    with tempfile.TemporaryDirectory() as folder:
        path = policy(folder, "own")
        model, tokenizer = load_policy(path)
        servers = theirs.Servers(HFEngine(model, tokenizer))
        rows = dataset(ENV, "train", 21)

        async def group(number: int) -> int:
            loops = [theirs.loop_over(servers, tokenizer, "gigpo") for _ in range(3)]
            runs = (one.run(params, session_id=n, uid=str(number), **rows[number]) for n, one in enumerate(loops))
            return sum(sum(output.response_mask) for output in await asyncio.gather(*runs))

        async def main() -> float:
            await group(20)
            started = time.perf_counter()
            found = sum(await asyncio.gather(*(group(number) for number in range(20))))
            spent = time.perf_counter() - started
            for pool in AgentgymLoop.pools.values():
                pool.close()
            return found / spent

        return {"tokens": asyncio.run(main())}


def gateway(seconds: float, clients: str) -> Rates:
    import loopback
    from native_talks import SOURCES, SURVEY

    chats = TESTS / "with_clients" / "openai_chats.py"
    with loopback.serving(instant(SURVEY.tokenizer_for(SOURCES["qwen2_5"]))) as url:
        started = time.perf_counter()
        subprocess.run([clients, str(chats), f"{url}/v1", "1", "1"], check=True, stdout=subprocess.DEVNULL)
        start = time.perf_counter() - started
        started = time.perf_counter()
        done = subprocess.run([clients, str(chats), f"{url}/v1", "16", "20"], check=True, capture_output=True, text=True)
        spent = time.perf_counter() - started - start
    records = [json.loads(line) for line in done.stdout.splitlines()]
    chat = [turn for one in records for turn in one["log"]]
    return {"steps": len(chat) / spent, "tokens": sum(len(turn["ids"]) for turn in chat) / spent}
