"""How long steps of environments take that wait: recorded with their oracles, for `overlap.py` to replay.

    python benchmarks/steps.py [--seconds 60] [--out benchmarks/steps.json]

One episode at a time, so many seconds for each environment, seeds and tasks in order; the file is added to. Of an episode it
has the seconds of the reset and of each step.
"""

import argparse
import itertools
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import gymnasium

import agentgym  # noqa: F401  (importing it registers the environments)

ENVS = ("rlvr/Web-v0", "rlvr/SWE-v0", "rlvr/Terminal-v0")


def record(name: str, seconds: float, first: int) -> list[list[float]]:
    """Play episodes of an environment from a seed on and return what each reset and step took."""
    env: Any = gymnasium.make(name)
    episodes: list[list[float]] = []
    end = time.perf_counter() + seconds
    tasks = env.unwrapped.tasks(40)
    for seed in itertools.count(first):
        if time.perf_counter() > end:
            break
        started = time.perf_counter()
        env.reset(seed=seed, options={"task": tasks[seed % len(tasks)]})
        times, done = [time.perf_counter() - started], False
        actions = iter(env.unwrapped.oracle())
        while not done and (action := next(actions, None)) is not None:
            started = time.perf_counter()
            _, _, terminated, truncated, _ = env.step(action)
            times.append(time.perf_counter() - started)
            done = terminated or truncated
        episodes.append([round(value, 4) for value in times])
    env.close()
    return episodes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each environment")
    parser.add_argument("--envs", nargs="*", default=list(ENVS))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    recorded: dict[str, Any] = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for name in arguments.envs:
        episodes: list[list[float]] = recorded.get(name, {}).get("episodes", [])
        episodes += record(name, arguments.seconds, len(episodes))
        steps = [value for episode in episodes for value in episode[1:]]
        cuts = statistics.quantiles(steps, n=100)
        print(
            f"{name}: {len(episodes)} episodes, {len(steps)} steps, load {os.getloadavg()[0]:.0f}; reset "
            f"{statistics.median(episode[0] for episode in episodes):.3f} s, step {cuts[49]:.3f} s at the median, "
            f"{cuts[89]:.3f} at 90 %, {cuts[98]:.3f} at 99 %, {statistics.mean(steps):.3f} in the mean",
            flush=True,
        )
        recorded[name] = {"load": round(os.getloadavg()[0], 1), "episodes": episodes}
        lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in recorded.items()]
        arguments.out.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
