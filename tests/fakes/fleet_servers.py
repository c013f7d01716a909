"""Fake servers for the tests of a fleet, and episodes asked of it."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fake_vllm import FakeVLLM

from agentgym.engines import Completion, Sampling, engine
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.vllm_servers.fleet import VLLMFleet

PROMPT = [256, *range(40, 90), 10]


@contextlib.contextmanager
def running(folder: Path, number: int = 2, **options: Any) -> Iterator[list[FakeVLLM]]:
    servers = [FakeVLLM(folder, **options).start() for _ in range(number)]
    try:
        yield servers
    finally:
        for server in servers:
            server.kill()


def over(servers: list[FakeVLLM], **options: Any) -> VLLMFleet:
    return engine(f"vllm:{','.join(s.url for s in servers)}", **{"patience": 20.0, "wait": 20.0, "timeout": 60.0, **options})


def generated(server: FakeVLLM) -> int:
    return server.requests["/inference/v1/generate"]


async def ask(made: VLLMFleet, number: int, turns: int = 1, session: str = "") -> list[Completion]:
    """Play turns of an episode, each from the exact tokens of the one before."""
    prompt, done = [*PROMPT, 60 + number], list[Completion]()
    for turn in range(turns):
        done.append(await made.generate(prompt, Sampling(max_tokens=5, seed=turn), session or f"episode {number}"))
        prompt += [*done[-1].ids, 10, 61 + turn, 62]
    return done


def expected(folder: Path, numbers: int, turns: int = 1) -> list[list[list[int]]]:
    """Return what one engine over the same weights samples."""

    async def play() -> list[list[list[int]]]:
        hf: Any = HFEngine(folder)
        return [[done.ids for done in await ask(hf, number, turns)] for number in range(numbers)]

    return asyncio.run(play())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def tokens(episodes: list[list[Completion]]) -> list[list[list[int]]]:
    return [[done.ids for done in episode] for episode in episodes]
