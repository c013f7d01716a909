"""What an episode of rlvr/SWE-v0 costs: first command, step, snapshot, grading. Run: python benchmarks/swe.py"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

from agentgym.envs.swe import SWE
from agentgym.envs.swe import env as envs
from agentgym.envs.swe.grading import grading
from agentgym.sandbox import warm_pool


def milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - started)


def none_waits() -> None:
    """Let go of the sandboxes that wait: so begins the first episode of a run, or of a burst of them."""
    for line in warm_pool._waiting.values():
        while line:
            line.popleft().result().close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=20)
    count = parser.parse_args().tasks
    env = SWE(split="test")
    times: dict[str, list[float]] = {}

    def add(name: str, work: Callable[[], object]) -> None:
        times.setdefault(name, []).append(milliseconds(work))

    for seed, task in enumerate(env.tasks(count)):
        none_waits()
        env.reset(seed=seed, options={"task": task})
        add("reset to first command, no sandbox waiting", lambda: env.step("bash[ls]"))
        time.sleep(1)  # another sandbox is made meanwhile
        envs._prepared.clear()
        env.reset(seed=seed, options={"task": task})
        add("reset to first command, a sandbox waiting", lambda: env.step("bash[ls]"))
        time.sleep(1)
        env.reset(seed=seed, options={"task": task})
        add("the same, of a task played before", lambda: env.step("bash[ls]"))
        add("a command", lambda: env.step("bash[ls]"))
        add("view of a file", lambda: env.step("view[pyproject.toml]"))
        add("snapshot", env.snapshot)
        size = len(env.snapshot().payload[0]["folder"])
        times.setdefault("bytes of a snapshot", []).append(size)
        for action in env.oracle():
            if "submit" in action:
                break
            env.step(action)
        grading._known.clear()
        add("grading of a right repair", lambda: env.step("submit[]"))
        assert env.success
        env.reset(seed=seed, options={"task": task})
        env.step("bash[for file in $(git ls-files '*.py'); do echo '# read' >> $file; done]")
        add("grading of a wrong one", lambda: env.step("submit[]"))
        assert env.success is False
    env.close()
    print(f"{count} tasks, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'':42}{'least':>10}{'median':>10}{'p90':>10}   ms (or bytes)")
    for name, found in times.items():
        quantiles = (min(found), statistics.median(found), sorted(found)[int(0.9 * len(found))])
        print(f"{name:42}" + "".join(f"{value:10.1f}" for value in quantiles))


if __name__ == "__main__":
    main()
