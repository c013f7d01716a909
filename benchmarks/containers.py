"""Containers side by side with Harbor's own local Docker (0.26.0), interleaved, on one machine and one daemon.

Needs an environment that has harbor, a Docker daemon with `docker compose` and the tests' image, as
benchmarks/integrations_harbor.py says; then

    .venv-harbor/bin/python benchmarks/containers.py --rounds 20 --commands 10 --at-once 64

A line of JSON for each measure. A fresh container of ours is made with the command before it (`waiting`), or when it is
asked for (`made`), from the caller's question to the end of its first command; Harbor's likewise.
"""

import argparse
import asyncio
import gc
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harbor.environments.factory import EnvironmentFactory
from harbor.models.environment_type import EnvironmentType
from harbor.models.task.config import EnvironmentConfig
from harbor.models.trial.paths import TrialPaths

from agentgym.sandbox import warm_pool
from agentgym.sandbox.docker.container import ROOT_CAPABILITIES
from agentgym.sandbox.protocol import MEGABYTE, Limits, sandbox

IMAGE = "agentgym-test/python"
COMMAND = "true"
OPTIONS: dict[str, Any] = {
    "image": IMAGE,
    "user": "root",
    "writable": True,
    "work": "/tmp",
    "network": "none",
    "capabilities": ROOT_CAPABILITIES,
}
LIMITS = Limits(timeout=120, memory=256 * MEGABYTE, processes=1000, disk=64 * MEGABYTE)


class Theirs:
    """An environment of Harbor's local Docker, as a trial uses it."""

    def __init__(self, folder: Path, number: int) -> None:
        (folder / "environment").mkdir(exist_ok=True)
        trial = TrialPaths(folder / f"trial{number}")
        trial.mkdir()
        config = EnvironmentConfig(docker_image=IMAGE, memory_mb=256)
        name = f"h35b-{os.getpid()}-{number}"
        self.inner: Any = EnvironmentFactory.create_environment(
            EnvironmentType.DOCKER, folder / "environment", "bench", name, trial, config
        )

    async def start(self) -> None:
        await self.inner.start(force_build=False)

    async def run(self) -> None:
        result = await self.inner.exec(COMMAND)
        assert result.return_code == 0, result

    async def close(self) -> None:
        await self.inner.stop(delete=True)


def command(container: Any) -> None:
    """Run the command as an environment does."""
    result = container.run_as("root", ["/bin/bash", "-c", COMMAND])
    assert result.ok, result


def timed(work: Callable[[], object]) -> float:
    """Return milliseconds."""
    started = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - started)


def one_by_one(rounds: int, commands: int) -> dict[str, list[float]]:
    """Measure fresh containers and commands in pairs."""
    times: dict[str, list[float]] = {
        f"{what} {who}": [] for what in ("container", "command") for who in ("harbor", "made", "waiting")
    }
    del times["command waiting"]
    loop = asyncio.new_event_loop()
    warm_pool.take("docker", limits=LIMITS, options=OPTIONS).close()  # the second waits from here on
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            theirs = Theirs(Path(folder), number)

            def begin(theirs: Theirs = theirs) -> None:
                loop.run_until_complete(theirs.start())
                loop.run_until_complete(theirs.run())

            times["container harbor"].append(timed(begin))
            made: list[Any] = []

            def make(made: list[Any] = made) -> None:
                made.append(sandbox("docker", limits=LIMITS, **OPTIONS))
                command(made[0])

            times["container made"].append(timed(make))

            def take(made: list[Any] = made) -> None:
                made.append(warm_pool.take("docker", limits=LIMITS, options=OPTIONS))
                command(made[1])

            times["container waiting"].append(timed(take))
            for _ in range(commands):
                times["command harbor"].append(timed(lambda theirs=theirs: loop.run_until_complete(theirs.run())))
                times["command made"].append(timed(lambda made=made: command(made[0])))
            loop.run_until_complete(theirs.close())
            for container in made:
                container.close()
    return times


def resident() -> float:
    """Return megabytes of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def at_once(number: int) -> dict[str, float]:
    """Measure containers that are there at the same time."""
    before, threads = resident(), threading.active_count()
    started = time.perf_counter()
    with ThreadPoolExecutor(number) as pool:
        made = list(pool.map(lambda _: sandbox("docker", limits=LIMITS, **OPTIONS), range(number)))
        seconds = time.perf_counter() - started
        list(pool.map(command, made))
        list(pool.map(command, made))
        each = (resident() - before) / number
        running = threading.active_count() - threads - number
        list(pool.map(lambda container: container.close(), made))
    return {"containers": number, "seconds": seconds, "errors": 0, "mb_each": each, "threads_beyond_callers": running}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--commands", type=int, default=10)
    parser.add_argument("--at-once", type=int, default=64)
    arguments = parser.parse_args()
    print(json.dumps({"measure": "at once", **at_once(arguments.at_once)}), flush=True)
    times = one_by_one(arguments.rounds, arguments.commands)
    for name, found in times.items():
        spread = statistics.quantiles(found, n=20)
        print(
            json.dumps({"measure": name, "n": len(found), "median_ms": statistics.median(found), "p95_ms": spread[-1]}),
            flush=True,
        )


if __name__ == "__main__":
    main()
