"""What a turn costs the process that plays: environments in it, in worker processes, or on a Ray cluster of this machine.

    python benchmarks/turns.py [--episodes 2000] [--turns 20] [--workers 2] [--rounds 3] [--out turns.json]

All episodes are in flight at once; a policy of the environment answers at once and the environment does next to nothing, so
what is measured is the loop's own. Of this process alone, medians over the rounds: CPU time a turn and seconds of the whole
rollout over its turns. Memory of an episode in flight, at its end, is that of the first place in the first round: later ones
use again what it let go.
"""

import argparse
import asyncio
import json
import resource
import time
from contextlib import closing
from pathlib import Path

import numpy as np

import agentgym
from agentgym import RolloutConfig, TextEnv
from agentgym.core.tasks import Task
from agentgym.rollout.collect import jobs_of
from agentgym.rollout.pool import RolloutPool

OBSERVATION = "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a desk 1 and a drawer 3. "


class Quick(TextEnv):
    """An environment that answers at once, as much as Household says in a turn."""

    horizon = 1000

    def begin(self, task: Task) -> str:
        self.left: int = task.data["turns"]
        return OBSERVATION

    def act(self, action: str) -> str | agentgym.Outcome:
        self.left -= 1
        return f"{OBSERVATION}{self.left}" if self.left else self.win("Done.")

    def state(self) -> int:
        return self.left


class Blocking(Quick):
    """The same in a worker process."""

    blocking = True


class Scripted(agentgym.RandomAgent):
    """Always says the same."""

    def begin(self, task: Task, tools: object = None) -> "Scripted":
        return self

    def fork(self) -> "Scripted":
        return self

    async def take(self, observation: str, info: object, **_: object) -> agentgym.Turn:
        return agentgym.Turn(observation, text="look", action="look")


def resident() -> int:
    """Return the bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def measured(place: str, episodes: int, turns: int, workers: int) -> dict[str, float]:
    """Play a tenth of the episodes to start what is needed, then all of them, and return the figures of these."""
    kind = Quick if place == "here" else Blocking
    config = RolloutConfig(episodes, workers, worker_backend="ray" if place == "ray" else "process")
    tasks = [Task(id=f"t{number}", data={"turns": turns}) for number in range(episodes)]
    with closing(RolloutPool({"env": kind}, config)) as pool:
        await pool.collect(Scripted(), jobs_of("env", tasks[: episodes // 10], 1, 0))
        before, started, cpu = resident(), time.perf_counter(), time.process_time()
        played = await pool.collect(Scripted(), jobs_of("env", tasks, 1, 1))
        wall, cpu, after = time.perf_counter() - started, time.process_time() - cpu, resident()
    assert all(episode.success and len(episode.turns) == turns for episode in played)
    number = episodes * turns
    return {
        "cpu_us": cpu / number * 1e6,
        "wall_us": wall / number * 1e6,
        "kb_an_episode": (after - before) / (0.9 * episodes) / 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--places", nargs="+", default=["here", "process", "ray"])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = [
        {"place": place, **asyncio.run(measured(place, arguments.episodes, arguments.turns, arguments.workers))}
        for _ in range(arguments.rounds)
        for place in arguments.places
    ]
    for place in arguments.places:
        mine = [row for row in rows if row["place"] == place]
        figures = {name: float(np.median([row[name] for row in mine])) for name in ("cpu_us", "wall_us")}
        if place == arguments.places[0]:  # later ones fill what it freed
            figures["kb_an_episode"] = mine[0]["kb_an_episode"]
        print(f"{place:8}", "  ".join(f"{name} {value:.1f}" for name, value in figures.items()), flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
