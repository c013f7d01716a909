"""Steps and tokens per second through the adapters of agentgym/integrations, beside ours alone in the same process.

PYTHON benchmarks/integrations.py [--seconds 3] [--only NAME …] [--clients CLIENTS_PYTHON] [--limit 300]

PYTHON is that of an environment that has some of the packages: `.venv/bin/python` (TRL, the gateway), or one that `./dev
test-integrations` made (`.venv-verifiers/bin/python` …). What is not installed is named and left out. Steps are guesses at
rlvr/GuessNumber-v0, episodes of 20 turns, resets included; tokens are sampled on the CPU from a model of one layer, made
from nothing: what an adapter costs is its rate against that of ours alone. Harbor's need a daemon: integrations_harbor.py
says how. With --clients the openai package of that interpreter asks the gateway, over an engine that answers at once. Each
measure is a group of processes of its own, killed after --limit seconds: verifiers' client waits for ever for a server
that has died.
"""

import argparse
import asyncio
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import integrations_harbor
import integrations_mcp
from integrations_rate import env_rate, rate
from integrations_tokens import gateway, instant, scripted_alone, trl_async, trl_rollouts, verl

import agentgym

ENV, HORIZON = "rlvr/GuessNumber-v0", 20
GUESS = "<action>1</action>"
Rates = dict[str, float]


def alone(seconds: float) -> float:
    """Return the steps a second of a Session, which is what the adapters use."""
    with agentgym.Session(ENV, horizon=HORIZON) as session:

        def episode(number: int) -> int:
            session.reset(number)
            while not session.done:
                session.act("1")
            return session.turns

        return rate(seconds, episode)


# Steps


def gymnasium(seconds: float) -> Rates:
    import gymnasium as gym

    return {"steps": env_rate(gym.make(ENV, horizon=HORIZON), "1", seconds), "alone": alone(seconds)}


def trl_tools(seconds: float) -> Rates:
    from agentgym.integrations.trl import environment

    played: Any = environment("rlvr/TwentyQuestions-v0", horizon=HORIZON)()

    def episode(number: int) -> int:
        played.reset(task_id=f"train/0/{number}")
        for _ in range(HORIZON):
            if not played.session.done:
                played.ask(question="color red")
        return played.session.turns

    with agentgym.Session("rlvr/TwentyQuestions-v0", horizon=HORIZON) as session:

        def ours(number: int) -> int:
            session.reset(f"train/0/{number}")
            while not session.done:
                session.call("ask", {"question": "color red"})
            return session.turns

        return {"steps": rate(seconds, episode), "alone": rate(seconds, ours)}


def skyrl_gym(seconds: float) -> Rates:
    import skyrl_gym as theirs

    from agentgym.integrations.skyrl_gym import dataset, register

    register()
    rows = dataset(ENV, "train", 32, horizon=HORIZON)

    def episode(number: int) -> int:
        row = rows[number % 32]
        env = theirs.make(row["env_class"], env_config={}, extras={"task": row["task"]})
        env.init(row["prompt"])
        steps = 1 + sum(1 for _ in iter(lambda: env.step(GUESS)["done"], True))
        env.close()
        return steps

    return {"steps": rate(seconds, episode), "alone": alone(seconds)}


@contextmanager
def openenv_server() -> Iterator[str]:
    import uvicorn

    from agentgym.integrations.openenv import app

    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.bind(("127.0.0.1", 0))
    bound.listen()
    server = uvicorn.Server(uvicorn.Config(app(ENV, horizon=HORIZON), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


def openenv_there(seconds: float) -> Rates:
    from openenv.core import GenericEnvClient

    with openenv_server() as url, GenericEnvClient(base_url=url).sync() as client:

        def episode(number: int) -> int:
            client.reset(seed=number)
            return 1 + sum(1 for _ in iter(lambda: client.step({"text": "1"}).done, True))

        return {"steps": rate(seconds, episode), "alone": alone(seconds)}


def openenv_here(seconds: float) -> Rates:
    from agentgym.integrations.openenv import remote

    with openenv_server() as url:
        return {"steps": env_rate(remote(url, horizon=HORIZON), "1", seconds), "alone": alone(seconds)}


def nemo_gym(seconds: float) -> Rates:
    return {"steps": env_rate(agentgym.make("nemo_gym:blackjack"), "<action>hit</action>", seconds)}


def verifiers_here(seconds: float) -> Rates:
    env = agentgym.make("verifiers:reverse_there")

    def episode(number: int) -> int:
        env.reset(options={"task": number % 3})
        env.step("pots")
        return 1

    return {"steps": rate(seconds, episode), "alone": alone(seconds)}


def verifiers_there(seconds: float) -> Rates:
    import loopback
    from verifiers.v1.cli.eval.runner import run_eval
    from verifiers.v1.configs.cli.eval import EvalConfig

    os.environ["FAKE_KEY"] = "none"

    async def episodes(url: str, rollouts: int, folder: str) -> tuple[int, float]:
        config = EvalConfig.model_validate(
            {
                "env": {"taskset": {"id": "agentgym_there", "env": ENV, "tasks": 4}, "horizon": 5},
                "model": "model",
                "client": {"base_url": f"{url}/v1", "api_key_var": "FAKE_KEY"},
                "num_rollouts": rollouts,
                "output_dir": folder,
                "rich": None,
                "sampling": {"temperature": 1.0, "max_tokens": 64},
            }
        )
        started = time.perf_counter()
        found = await run_eval(config)
        turns = sum(int(trace.metrics["turns"]) for one in found for trace in one.traces)
        return turns, time.perf_counter() - started

    with loopback.serving(instant()) as url, tempfile.TemporaryDirectory() as folder:
        few, four = asyncio.run(episodes(url, 1, f"{folder}/a")), asyncio.run(episodes(url, 4, f"{folder}/b"))
    started = (four[0] - few[0]) / max(four[1] - few[1], 0.01)
    return {"steps": four[0] / four[1], "after the start": started, "alone": scripted_alone(4, 4, 5)}


def verifiers_served(seconds: float) -> Rates:
    import test_verifiers_served as theirs
    from engine_there import engine, tokenizer_folder

    process, address = theirs.start()
    with tempfile.TemporaryDirectory() as folder, engine(lambda prompt: GUESS) as (url, replies):
        tokenizer = tokenizer_folder(Path(folder))
        try:
            asyncio.run(theirs.episodes(address, url, tokenizer, 1))
            before, started = len(replies), time.perf_counter()
            asyncio.run(theirs.episodes(address, url, tokenizer, 8))
            spent = time.perf_counter() - started
        finally:
            process.terminate()
            process.join(60)
        tokens = sum(len(ids) for _, ids, _ in replies[before:])
        rates = {"steps": (len(replies) - before) / spent, "tokens": tokens / spent}
        return {**rates, "alone": scripted_alone(3, 8, 4)}


def inspect_ai(seconds: float) -> Rates:
    from inspect_ai import eval as evaluate
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from agentgym.integrations.inspect_ai import KEY, environment_task

    def says(*_: Any) -> Any:
        output = ModelOutput.from_content("mockllm/model", GUESS)
        output.usage = ModelUsage(input_tokens=3, output_tokens=2, total_tokens=5)
        return output

    with tempfile.TemporaryDirectory() as folder:
        model = get_model("mockllm/model", custom_outputs=says)
        started = time.perf_counter()
        made = environment_task(ENV, split="test", tasks=16, horizon=HORIZON)
        (log,) = evaluate(made, model=model, log_dir=folder, display="none", epochs=2)
        turns = sum(sample.metadata[KEY]["turns"] for sample in log.samples)
        return {"steps": turns / (time.perf_counter() - started), "alone": alone(seconds)}


MEASURES: dict[str, tuple[str, Callable[[float], Rates]]] = {
    "Gymnasium": ("gymnasium", gymnasium),
    "TRL, our rollouts": ("trl", trl_rollouts),
    "TRL, environments as tools": ("trl", trl_tools),
    "TRL, AsyncGRPO": ("trl", trl_async),
    "verifiers, ours there": ("verifiers", verifiers_there),
    "verifiers, theirs here": ("verifiers", verifiers_here),
    "verifiers, its server": ("verifiers", verifiers_served),
    "OpenEnv, ours there": ("openenv", openenv_there),
    "OpenEnv, theirs here": ("openenv", openenv_here),
    "NeMo Gym, theirs here": ("nemo_gym", nemo_gym),
    "Harbor, its sandboxes": ("harbor", integrations_harbor.sandboxes),
    "Harbor, task folders here": ("harbor", integrations_harbor.tasks),
    "MCP, ours as a server": ("mcp", lambda seconds: {"steps": integrations_mcp.served(seconds), "alone": alone(seconds)}),
    "MCP, tools of servers here": (
        "mcp",
        lambda seconds: {"steps": integrations_mcp.tools(seconds), "alone": alone(seconds)},
    ),
    "inspect_ai": ("inspect_ai", inspect_ai),
    "SkyRL's gym": ("skyrl_gym", skyrl_gym),
    "verl": ("verl", verl),
}


def measured(name: str, limit: float, arguments: list[str]) -> None:
    """Measure in a group of processes of its own, of which nothing is left afterwards."""
    command = [sys.executable, __file__, "--here", "--only", name, *arguments]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        print(f"{name:<28} did not end within {limit:.0f} s", flush=True)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", nargs="+", default=[], choices=[*MEASURES, "gateway"], metavar="NAME")
    parser.add_argument("--clients", default="")
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--here", action="store_true", help="in this process, without a limit")
    arguments = parser.parse_args()
    measures = dict(MEASURES)
    if arguments.clients:
        measures["gateway"] = ("agentgym", lambda seconds: gateway(seconds, arguments.clients))
    for name, (package, measure) in measures.items():
        if arguments.only and name not in arguments.only:
            continue
        if importlib.util.find_spec(package) is None:
            print(f"{name:<28} left out: {package} is not installed here", flush=True)
        elif arguments.here:
            found = measure(arguments.seconds)
            print(
                f"{name:<28} "
                + ", ".join(f"{what} {value:,.{0 if value >= 10 else 2}f} a second" for what, value in found.items()),
                flush=True,
            )
        else:
            measured(name, arguments.limit, ["--seconds", str(arguments.seconds), "--clients", arguments.clients])


if __name__ == "__main__":
    main()
