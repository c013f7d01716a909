"""Steps and episodes a second of rlvr/Code-v0, beside a fresh Python; writes a table.

Run `python benchmarks/programs.py` (about two minutes). Every step is timed in turn with `python -I -c pass`, so that what
else the machine does falls on both. `--human-eval FILE` adds the checks of HumanEval.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from agentgym.core.seeding import generator
from agentgym.envs.code import Code
from agentgym.envs.code.families import FAMILIES, family
from agentgym.envs.code.files import load, whole
from agentgym.envs.code.grading.checks import Checks, run_checks
from agentgym.sandbox.warm_pool import take


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def fresh() -> float:
    """Return the seconds of a fresh Python that does nothing."""
    return seconds(lambda: subprocess.run([sys.executable, "-I", "-c", "pass"], check=True))


def steps(episodes: int, difficulty: int) -> dict[str, list[float]]:
    """Return the seconds of each kind of step over expert episodes, and those of a fresh Python beside each."""
    env, found = Code(difficulty=difficulty), defaultdict(list)
    for task in env.tasks(episodes):
        found["reset"].append(seconds(lambda task=task: env.reset(seed=0, options={"task": task})))
        for kind, action in zip(("first run", "test", "submit"), _actions(env), strict=True):
            if kind == "submit":
                found["further run"].append(seconds(lambda: env.step("run[x = 1]")))
            found["fresh Python"].append(fresh())
            found[kind].append(seconds(lambda action=action: env.step(action)))
        assert env.success
    env.close()
    return found


def _actions(env: Code) -> list[str]:
    code = env.task.data["reference"]
    call = json.dumps({"name": "run", "arguments": {"code": code}})
    return [call, "test[]", json.dumps({"name": "submit", "arguments": {"code": code}})]


def play(difficulty: int, first: int, episodes: int) -> int:
    """Play expert episodes and return how many steps they took."""
    env, turns_taken = Code(difficulty=difficulty), 0
    for number in range(first, first + episodes):
        env.reset(seed=0, options={"task": number})
        while env.success is None:
            env.step(next(iter(env.expert())))
            turns_taken += 1
    env.close()
    return turns_taken


def rates(workers: int, episodes: int) -> tuple[float, float]:
    """Return episodes and steps a second of the expert on so many processes."""
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(play, [0] * workers, [0] * workers, [1] * workers))  # all is imported
        started = time.perf_counter()
        firsts = [1000 * n for n in range(workers)]
        turns_taken = sum(pool.map(play, [0] * workers, firsts, [episodes] * workers))
        wall = time.perf_counter() - started
    return workers * episodes / wall, turns_taken / wall


def human_eval(path: str) -> str:
    """Return how many references pass and how many empty bodies fail, and the checks a second."""
    one, two = take(limits=Code.limits), take(limits=Code.limits)
    right = wrong = 0
    started = time.perf_counter()
    tasks = load(path).tasks
    for task in tasks:
        checks = Checks(task.data["names"], task.data["hidden"], task.data["before"], task.data["setup"])
        right += all(each.passed for each in run_checks(one, two, whole(task.data, task.data["reference"]), checks))
        wrong += not all(each.passed for each in run_checks(one, two, whole(task.data, "    pass"), checks))
    rate = 2 * len(tasks) / (time.perf_counter() - started)
    one.close()
    two.close()
    return f"{right} of {len(tasks)} references pass, {wrong} of {len(tasks)} empty ones fail, {rate:.1f} /s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--human-eval", default="")
    options = parser.parse_args()
    for difficulty in (0, 3):
        spent = [seconds(lambda n=n, d=difficulty: family(n).draw(generator("bench", n, d), d)) for n in FAMILIES * 5]
        print(f"| a task drawn, difficulty {difficulty}, median | {1000 * statistics.median(spent):.1f} ms |")
    found = steps(options.episodes, 0)
    base = statistics.median(found["fresh Python"])
    for kind, each in found.items():
        middle = statistics.median(each)
        print(f"| {kind}, median | {1000 * middle:.1f} ms, {middle / base:.2f} of a fresh Python |")
    for workers in (1, os.cpu_count() or 1):
        episodes, steps_ = rates(workers, options.episodes)
        print(f"| expert episodes, {workers} processes | {episodes:.1f} /s, {steps_:.1f} steps /s |", flush=True)
    if options.human_eval:
        print(f"| HumanEval | {human_eval(options.human_eval)} |")


if __name__ == "__main__":
    main()
