"""Event-driven against lockstep rollouts: the same episodes from the same seeds, two arms in one run, in paired rounds.

    python benchmarks/rollout.py [--rounds 5] [--out rollout.json]

`waiting`: an environment in worker processes whose steps take 5 ms, one in twenty 100 ms, and whose episodes take 3 to 30
turns; the expert plays. `household`: Household in process and the hf engine, a policy after a short SFT warm start, so
that replies and episodes differ in length; as many episodes in flight as a training step has. Lockstep makes every
episode wait for the slowest at every turn, but fills the places of finished episodes at once, as the event-driven arm does.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from agentgym import Episode, TextEnv
from agentgym.agents import ExpertAgent
from agentgym.agents.base import Agent
from agentgym.core.env import Outcome
from agentgym.core.tasks import Task
from agentgym.registry import Maker
from agentgym.rollout.collect import jobs_of
from agentgym.rollout.pool import Factory, RolloutConfig, RolloutPool

QUICK, SLOW, SLOW_SHARE = 0.005, 0.1, 0.05  # seconds of a step, and how often it is a slow one

Play = Callable[[bool], Awaitable[list[Episode]]]
"""Plays the episodes of a setting, in lockstep or not."""


class Waiting(TextEnv):
    """An environment whose steps wait, unevenly, for nothing: what a browser or a server would look like."""

    blocking = True
    horizon = 30

    def begin(self, task: Task) -> str:
        self.left: int = task.data["turns"]
        return "Wait."

    def act(self, action: str) -> str | Outcome:
        time.sleep(SLOW if self.np_random.random() < SLOW_SHARE else QUICK)
        self.left -= 1
        return "Wait." if self.left else self.win("Done.")

    def state(self) -> int:
        return self.left

    def expert(self) -> Iterator[str]:
        while True:
            yield "wait"

    @staticmethod
    def generate(rng: np.random.Generator, difficulty: int) -> Task:
        return Task(data={"turns": int(rng.integers(3, 30, endpoint=True)), "key": int(rng.integers(2**31))})


async def played(
    agent: Agent, make: Factory, config: RolloutConfig, tasks: int, attempts: int, lockstep: bool
) -> list[Episode]:
    """Play the first tasks of an environment, all episodes in step or each as it goes."""
    with closing(RolloutPool({"env": make}, config)) as pool:
        jobs = jobs_of("env", pool.probe("env").tasks(tasks), attempts, seed=0)
        return await pool.collect(agent, jobs, lockstep=lockstep)


def waiting(episodes: int, concurrency: int) -> Play:
    """Return the setting of slow steps."""
    return lambda lockstep: played(ExpertAgent(), Waiting, RolloutConfig(concurrency, workers=2), episodes, 1, lockstep)


def household(folder: Path, sft_episodes: int, threads: int) -> Play:
    """Return the setting of uneven replies: 16 groups of 8, as in a training step."""
    import torch  # here, so that the worker processes of the other setting start without it
    import transformers

    from agentgym.agents import ChatAgent
    from agentgym.engines import Sampling
    from agentgym.engines.hf.engine import HFEngine
    from agentgym.trainers import train
    from agentgym.trainers.config.train_config import TrainConfig
    from agentgym.trainers.model.policy import load_policy

    print(f"an SFT warm start of {sft_episodes} episodes …", flush=True)
    torch.set_num_threads(threads)
    transformers.logging.disable_progress_bar()
    options = {"preset": "tiny"}
    recipe: dict[str, Any] = {"sft_episodes": sft_episodes, "sft_batch": 16, "steps": 0, "test_tasks": 0, "eval_every": 0}
    out = folder / "warm"
    train(TrainConfig(env="rlvr/Household-v0", env_options=options, out=str(out), threads=threads, **recipe))
    (newest,) = sorted((out / "checkpoints").iterdir())[-1:]
    model, tokenizer = load_policy(newest)
    engine = HFEngine(model, tokenizer, slots=128)
    agent = ChatAgent(engine, tokenizer, prompt="bare", sampling=Sampling(temperature=1.0), turn_tokens=16)

    async def play(lockstep: bool) -> list[Episode]:
        return await played(agent, Maker("rlvr/Household-v0", options), RolloutConfig(128), 16, 8, lockstep)

    return play


def outcome(episode: Episode) -> tuple[Any, ...]:
    """Return what must be the same in both arms."""
    actions = tuple(turn.action for turn in episode.turns)
    return episode.task_id, episode.attempt, episode.reward, episode.reason, actions


async def compare(name: str, play: Play, rounds: int) -> dict[str, Any]:
    """Play both arms in turn, the first of each round alternating, and return speeds, ratios and equality."""
    speeds: dict[str, list[float]] = {"event-driven": [], "lockstep": []}
    played: dict[str, list[Episode]] = {}
    for round in range(-1, rounds):  # the first warms up
        for arm in sorted(speeds, reverse=round % 2 == 1):
            begun = time.perf_counter()
            played[arm] = await play(arm == "lockstep")
            if round >= 0:
                speeds[arm].append(len(played[arm]) / (time.perf_counter() - begun))
    ours, theirs = played["event-driven"], played["lockstep"]
    if [(e.task_id, e.attempt) for e in ours] != [(e.task_id, e.attempt) for e in theirs]:
        raise SystemExit(f"{name}: the arms played different tasks")
    lengths = [len(episode.turns) for episode in ours]
    ratios = [a / b for a, b in zip(*speeds.values(), strict=True)]
    return {
        "setting": name,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "episodes_per_second": {arm: statistics.median(values) for arm, values in speeds.items()},
        "episodes": len(ours),
        "equal_episodes": sum(outcome(a) == outcome(b) for a, b in zip(ours, theirs, strict=True)),
        "equal_rewards": sum(a.reward == b.reward for a, b in zip(ours, theirs, strict=True)),
        "turns": [min(lengths), statistics.median(lengths), max(lengths)],
        "faults": sum(episode.fault for episode in [*ours, *theirs]),
    }


def show(result: dict[str, Any]) -> None:
    speed, turns, low, high = result["episodes_per_second"], result["turns"], min(result["ratios"]), max(result["ratios"])
    print(f"{result['setting']}: event-driven is {result['ratio']:.2f} times lockstep ({low:.2f} to {high:.2f})")
    print(f"  episodes a second   {speed['event-driven']:.1f} and {speed['lockstep']:.1f}")
    same = f"{result['equal_episodes']} of {result['episodes']}"
    print(f"  same in both arms   {same} episodes action by action; {result['equal_rewards']} rewards")
    print(f"  turns               {turns[0]} to {turns[2]}, median {turns[1]:g}; faults {result['faults']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=256, help="of the waiting environment")
    parser.add_argument("--concurrency", type=int, default=32, help="of the waiting environment")
    parser.add_argument("--sft-episodes", type=int, default=3200, help="of the household policy; 0: `waiting` alone")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--out", type=Path, default=None, help="where to write the result as JSON")
    arguments = parser.parse_args()
    play = waiting(arguments.episodes, arguments.concurrency)
    results = [asyncio.run(compare("waiting", play, arguments.rounds))]
    show(results[0])
    if arguments.sft_episodes:
        with tempfile.TemporaryDirectory() as folder:
            play = household(Path(folder), arguments.sft_episodes, arguments.threads)
            results.append(asyncio.run(compare("household", play, arguments.rounds)))
        show(results[1])
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
