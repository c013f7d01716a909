"""Steps per second over MCP: what benchmarks/integrations.py measures with the official package, over stdio."""

import asyncio
import itertools
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from integrations_rate import env_rate

ENV, HORIZON = "rlvr/GuessNumber-v0", 20
SERVER = Path(__file__).resolve().parents[1] / "tests" / "fakes" / "mcp_server.py"


async def _served(seconds: float) -> float:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    words = ["-m", "agentgym", "serve", "mcp", ENV, "--env.horizon", str(HORIZON)]
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=words))) as client:

        async def episode(number: int) -> int:
            await client.call_tool("reset", {"seed": number})
            for turn in itertools.count(1):
                answer = await client.call_tool("act", {"action": "1"})
                if "The episode is over." in str(answer.content):
                    return turn
            raise AssertionError

        await episode(0)
        steps, started = 0, time.perf_counter()
        for number in itertools.count(1):
            steps += await episode(number)
            if (spent := time.perf_counter() - started) > seconds:
                return steps / spent
        raise AssertionError


def served(seconds: float) -> float:
    """Steps of our environment served by `agentgym serve mcp`, resets included."""
    return asyncio.run(_served(seconds))


def tools(seconds: float) -> float:
    """Calls of a server's tool in an environment here; every episode has a server process of its own."""
    from agentgym import Task
    from agentgym.mcp_tools import McpEnv

    class Sums(McpEnv):
        """Add two numbers with the server's tool."""

        tool_server = f"mcp:{shlex.join([sys.executable, str(SERVER)])}"
        horizon = HORIZON

        def generate(self, rng: Any, difficulty: int) -> Task:
            return Task(instruction="Add.", data={"salt": int(rng.integers(10**6))})

        def judge(self, answer: str) -> bool:
            return False

    return env_rate(Sums(), '{"name": "add", "arguments": {"a": 2, "b": 3}}', seconds)
