"""Steps per second of served environments, ours and OpenEnv's, in turn in one run.

python benchmarks/serve_env.py OPENENV_PYTHON [--rounds 3] [--seconds 3] [--clients 16]

OPENENV_PYTHON has openenv-core 0.3 (`./dev test-openenv` makes .venv-openenv/bin/python). Both servers echo, so that what is
measured is the serving. Each is asked by the same program: one connection, and several at once, in OpenEnv's own messages
over raw WebSockets; ours also with a step of 256 sessions in one or two requests, which OpenEnv does not have.
"""

import argparse
import asyncio
import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
from websockets.asyncio.client import connect

from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.registry import register

HERE = Path(__file__).resolve()
BATCH = 256


class Echo(TextEnv):
    """Says what was said, for ever."""

    horizon = 10**9

    def generate(self, rng: object, difficulty: int) -> Task:
        return Task(instruction="ready")

    def begin(self, task: Task) -> str:
        return "ready"

    def act(self, action: str) -> str:
        return action


register("bench/Echo-v0", Echo)


async def talk(url: str, until: float) -> int:
    """Step in one connection, one message after another, and return how many steps were answered."""
    async with connect(url.replace("http", "ws") + "/ws", compression=None, proxy=None) as ws:
        await ws.send('{"type": "reset", "data": {}}')
        assert json.loads(await ws.recv())["type"] == "observation"
        steps = 0
        while time.perf_counter() < until:
            await ws.send('{"type": "step", "data": {"text": "hello"}}')
            answer = json.loads(await ws.recv())
            assert answer["data"]["observation"]["text"] == "hello"
            steps += 1
        return steps


async def talks(url: str, seconds: float, clients: int) -> float:
    until = time.perf_counter() + seconds
    return sum(await asyncio.gather(*(talk(url, until) for _ in range(clients)))) / seconds


def asked(url: str, sessions: int, seconds: float, brief: bool) -> float:
    """Step in many sessions, one request after another, and return how many steps were answered in a second."""
    client = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)

    def post(path: str, body: str) -> dict[str, Any]:
        client.request("POST", path, body.encode(), {"Content-Type": "application/json"})
        return json.loads(client.getresponse().read())

    ids = [post("/reset", "{}")["session"] for _ in range(sessions)]
    body = json.dumps({"steps": [{"session": id, "action": "hello"} for id in ids], "info": not brief})
    steps, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        results = post("/steps", body)["results"]
        assert all(one["observation"]["text"] == "hello" for one in results)
        steps += len(results)
    rate = steps / (time.perf_counter() - started)
    for id in ids:
        post("/close", json.dumps({"session": id}))
    client.close()
    return rate


async def batches(url: str, seconds: float, requests: int, brief: bool = False) -> float:
    """Step in BATCH sessions, in so many requests at once."""
    parts = (asyncio.to_thread(asked, url, BATCH // requests, seconds, brief) for _ in range(requests))
    return sum(await asyncio.gather(*parts))


async def brief_batches(url: str, seconds: float, requests: int) -> float:
    return await batches(url, seconds, requests, brief=True)


def ours() -> tuple[subprocess.Popen[str], str]:
    command = [
        sys.executable,
        "-m",
        "agentgym",
        "serve",
        "env",
        "serve_env:bench/Echo-v0",
        "--port",
        "0",
        "--sessions",
        "256",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parent)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found
    return process, found[0]


def theirs(python: str) -> tuple[subprocess.Popen[str], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python, str(HERE.with_name("openenv_echo.py")), str(port), "256"]
    process = subprocess.Popen(command, text=True, stderr=subprocess.DEVNULL)  # it logs every client that hangs up
    url = f"http://127.0.0.1:{port}"
    for _ in range(1200):
        try:
            httpx2.get(f"{url}/health", trust_env=False)
            return process, url
        except httpx2.HTTPError:
            time.sleep(0.1)
    raise SystemExit("OpenEnv's server did not come up in two minutes")


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """Return the CPU time of a process and all its threads, which other work on the machine does not change."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--clients", type=int, default=16)
    given = parser.parse_args()
    servers = {"ours": ours(), "OpenEnv": theirs(given.python)}
    kinds: dict[str, tuple[Callable[[str, float, int], Awaitable[float]], int, tuple[str, ...]]] = {
        "one connection": (talks, 1, ("ours", "OpenEnv")),
        f"{given.clients} connections": (talks, given.clients, ("ours", "OpenEnv")),
        f"{BATCH} connections": (talks, BATCH, ("ours", "OpenEnv")),
        f"{BATCH} sessions, 1 request": (batches, 1, ("ours",)),
        f"{BATCH} sessions, 2 requests": (batches, 2, ("ours",)),
        "the same without info": (brief_batches, 2, ("ours",)),
    }
    rates: dict[tuple[str, str], list[tuple[float, float]]] = {}
    try:
        for _ in range(given.rounds):
            for kind, (measure, clients, names) in kinds.items():
                for name in names:
                    process, url = servers[name]
                    before = processor_seconds(process)
                    rate = asyncio.run(measure(url, given.seconds, clients))  # type: ignore[arg-type]
                    own = rate * given.seconds / max(processor_seconds(process) - before, 0.01)
                    rates.setdefault((kind, name), []).append((rate, own))
    finally:
        for process, _ in servers.values():
            process.terminate()
            process.wait(60)
    print("steps per second by the clock, and per second of the server's CPU; medians, and all rounds")
    for (kind, name), found in rates.items():
        clock, own = (list(column) for column in zip(*found, strict=True))
        shown = f"({', '.join(f'{r:.0f}' for r in own)})"
        print(f"{kind:<26} {name:<8} {statistics.median(clock):>8.0f} {statistics.median(own):>8.0f}   {shown}")


if __name__ == "__main__":
    main()
