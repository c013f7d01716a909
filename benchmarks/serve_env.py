"""Steps per second of served environments, ours and OpenEnv's, in turn in one run.

python benchmarks/serve_env.py OPENENV_PYTHON [--rounds 3] [--seconds 3] [--env ENV --action TEXT]

OPENENV_PYTHON has openenv 0.10 (`./dev test-openenv` makes .venv-openenv/bin/python). If it has uvloop too, OpenEnv's
server is measured twice: on asyncio, as its package installs it, and on uvloop, on which ours runs. Both servers echo, so
that what is measured is the serving; with --env both have that environment of ours, and every step is the same action. One
program asks each of them in OpenEnv's own messages over WebSockets: over one connection and several, one message at a time
or many ahead of the answers. The client is a bare socket (raw_sockets.py), so that it is not the bound; connecting and
resetting are not counted. A third server answers the same bytes each time and does nothing else: what the event loop and
the system calls cost. Ours is also asked for a step of 256 sessions in one request, which OpenEnv has not. Answers have no
info (`"info": false` at the reset), as OpenEnv's have none; one line has it.
"""

import argparse
import http.client
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import raw_sockets

from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.registry import register

HERE = Path(__file__).resolve()
BATCH = 256
COMES_UP = 600  # seconds, of which importing openenv takes minutes on a busy machine


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


Clock = Callable[[], float]
Measure = Callable[[str, float, Clock, str], tuple[float, float]]


def batches(url: str, seconds: float, cpu: Clock, action: str) -> tuple[float, float]:
    """Step in BATCH sessions without info, one request after another."""
    client = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)

    def post(path: str, body: str) -> dict[str, Any]:
        client.request("POST", path, body.encode(), {"Content-Type": "application/json"})
        return json.loads(client.getresponse().read())

    ids = [post("/reset", '{"seed": 1}')["session"] for _ in range(BATCH)]
    body = json.dumps({"steps": [{"session": id, "action": action} for id in ids], "info": False})
    steps, started, before = 0, time.perf_counter(), cpu()
    while (spent := time.perf_counter() - started) < seconds:
        results = post("/steps", body)["results"]
        assert all(one.get("done") is False for one in results)
        steps += len(results)
    used = cpu() - before
    for id in ids:
        post("/close", json.dumps({"session": id}))
    client.close()
    return steps / spent, steps / max(used, 1e-6)


def messages(connections: int, ahead: int, info: bool = False) -> Measure:
    """Return what measures steps over connections with so many messages ahead."""
    return lambda url, seconds, cpu, action: raw_sockets.steps(url, seconds, cpu, connections, ahead, info, action)


def ours(env: str) -> tuple[subprocess.Popen[str], str]:
    command = [
        sys.executable,
        "-m",
        "agentgym",
        "serve",
        "env",
        env or "serve_env:bench/Echo-v0",
        "--port",
        "0",
        "--sessions",
        "256",
        "--env.horizon",
        str(10**9),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parent)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found
    return process, found[0]


def theirs(python: str, env: str, loop: str) -> tuple[subprocess.Popen[str], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python, str(HERE.with_name("openenv_echo.py")), str(port), "256", loop, *([env] if env else [])]
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + COMES_UP
    with tempfile.TemporaryFile("w+") as log:  # it logs every client that hangs up
        process = subprocess.Popen(command, text=True, stderr=log)
        while process.poll() is None and time.monotonic() < until:
            try:
                httpx2.get(f"{url}/health", trust_env=False)
                return process, url
            except httpx2.HTTPError:
                time.sleep(0.1)
        process.kill()
        log.seek(0)
        raise SystemExit(f"OpenEnv's server did not come up in {COMES_UP} seconds:\n{log.read()[-2000:]}")


def bare() -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([sys.executable, str(HERE.with_name("raw_sockets.py"))], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def ratio(own: list[float], other: list[tuple[float, float]] | None) -> str:
    """Return the median over rounds of the steps per CPU second against another server's."""
    return f"{statistics.median(o / t[1] for o, t in zip(own, other, strict=True)):>5.1f}x" if other else "      "


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """Return the CPU time of a process and all its threads, which other work on the machine changes little."""
    spent = (path.read_text().split()[0] for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat"))
    return sum(int(nanoseconds) for nanoseconds in spent) / 1e9


THEIRS = ("OpenEnv", "OpenEnv on uvloop")
ALL = ("ours", *THEIRS, "bare")
KINDS: dict[str, tuple[Measure, tuple[str, ...]]] = {
    "1 connection": (messages(1, 1), ALL),
    "16 connections": (messages(16, 1), ALL),
    f"{BATCH} connections": (messages(BATCH, 1), ALL),
    "1 connection, 16 ahead": (messages(1, 16), ALL),
    "1 connection, 64 ahead": (messages(1, 64), ALL),
    "16 connections, 16 ahead": (messages(16, 16), ALL),
    "16 connections, with info": (messages(16, 1, info=True), ("ours",)),
    f"{BATCH} sessions, 1 request": (batches, ("ours",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--env", default="")
    parser.add_argument("--action", default="hello")
    arguments = parser.parse_args()
    servers = {"ours": ours(arguments.env), "OpenEnv": theirs(arguments.python, arguments.env, "asyncio"), "bare": bare()}
    if subprocess.run([arguments.python, "-c", "import uvloop"], stderr=subprocess.DEVNULL).returncode == 0:
        servers["OpenEnv on uvloop"] = theirs(arguments.python, arguments.env, "uvloop")
    else:
        print(f"OpenEnv on uvloop is left out: {arguments.python} has no uvloop", flush=True)
    rates: dict[tuple[str, str], list[tuple[float, float]]] = {}
    try:
        for _ in range(arguments.rounds):
            for kind, (measure, names) in KINDS.items():
                for name in names:
                    if name not in servers or (arguments.env and name == "bare"):
                        continue
                    process, url = servers[name]
                    found = measure(url, arguments.seconds, partial(processor_seconds, process), arguments.action)
                    rates.setdefault((kind, name), []).append(found)
    finally:
        for process, _ in servers.values():
            process.terminate()
            process.wait(60)
    print("steps per second by the clock, and per second of the server's CPU (medians; all rounds)")
    print("then CPU against OpenEnv's, and against OpenEnv's on uvloop")
    for (kind, name), found in rates.items():
        clock, own = (list(column) for column in zip(*found, strict=True))
        rates_text = f"({', '.join(f'{r:.0f}' for r in own)})"
        against = " ".join(ratio(own, rates.get((kind, other))) for other in THEIRS)
        print(
            f"{kind:<26} {name:<18} {statistics.median(clock):>8.0f} {statistics.median(own):>8.0f} {against} {rates_text}"
        )


if __name__ == "__main__":
    main()
