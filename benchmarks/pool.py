"""What environments that live as long as a run save over environments made for each step: `python benchmarks/pool.py`.

Both play the same episodes by the oracle, in turn, in one process; a step is 8 episodes of new tasks.
"""

import argparse
import asyncio
import statistics
import time
from contextlib import closing

from agentgym import OracleAgent
from agentgym.registry import Maker, make
from agentgym.rollout.collect import jobs_of
from agentgym.rollout.pool import RolloutConfig, RolloutPool


async def compare(env: str, steps: int, episodes: int) -> tuple[list[float], list[float]]:
    """Return the seconds of each step: in a pool that is reused, and in one that is made for the step."""
    maker, config, agent = Maker(env, {}), RolloutConfig(concurrency=episodes), OracleAgent()
    with closing(make(env)) as probe:
        tasks = probe.tasks((steps + 1) * episodes)
    reused, fresh = [], []
    with closing(RolloutPool({env: maker}, config)) as pool:
        for step in range(steps + 1):
            jobs = jobs_of(env, tasks[step * episodes :][:episodes], 1, 0)
            started = time.perf_counter()
            played = await pool.collect(agent, jobs)
            reused.append(time.perf_counter() - started)
            started = time.perf_counter()
            with closing(RolloutPool({env: maker}, config)) as once:
                again = await once.collect(agent, jobs)
            fresh.append(time.perf_counter() - started)
            assert [e.success for e in played] == [e.success for e in again] == [True] * len(jobs)
    return reused[1:], fresh[1:]  # the first step makes the environments in both


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", nargs="+", default=["household", "math", "web"])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=8)
    options = parser.parse_args()
    for name in options.envs:
        reused, fresh = asyncio.run(compare(name, options.steps, options.episodes))
        ratio = statistics.median(b / a for a, b in zip(reused, fresh, strict=True))
        seconds = [statistics.median(values) for values in (reused, fresh)]
        print(f"{name}: reused {seconds[0]:.2f} s, made for each step {seconds[1]:.2f} s, {ratio:.2f} times")
