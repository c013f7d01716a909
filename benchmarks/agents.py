"""What a turn costs apart from the engine: microseconds per `take()` of the agents with a model.

Run `python benchmarks/agents.py`. The engine answers at once; observations are short, new to the agent's cache in the first
pass and known in the second.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from agentgym import ChatAgent, Sampling, Task, WindowAgent
from agentgym.engines import Completion
from agentgym.engines.scripted import ByteTokenizer

TURNS, EPISODES = 12, 200
COMMANDS = [f"go to {name} {n}" for name in ("desk", "shelf", "drawer") for n in range(1, 7)]


class Instant:
    """An engine that costs nothing: one of a few replies, at once."""

    policy_version, context = 0, 1_000_000

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._replies = [tokenizer.encode(command) for command in COMMANDS]
        self._asked = 0

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, session: str, **_: Any) -> Completion:
        """Return the next reply."""
        self._asked += 1
        ids = [*self._replies[self._asked % len(self._replies)], sampling.stop_ids[0]]
        return Completion(ids, [0.0] * len(ids), "stop")


async def microseconds(agent: Any) -> float:
    """Return the mean time of a turn."""
    observations = [f"On the desk {i}, you see a book {j}, a pencil 2, and a cup 1." for i in range(20) for j in range(20)]
    started, count = time.perf_counter(), 0
    for episode in range(EPISODES):
        talk = agent.begin(Task(instruction="put a book in shelf"), {})
        for turn in range(TURNS):
            observation = observations[(7 * episode + 13 * turn) % len(observations)]
            await talk.take(observation, {"admissible": COMMANDS}, env=None, seed=count, session="a")
            count += 1
    return (time.perf_counter() - started) / count * 1e6


def main() -> None:
    """Print a table."""
    tokenizer = ByteTokenizer()
    kinds = {
        "ChatAgent bare": ChatAgent(Instant(tokenizer), prompt="bare"),  # type: ignore[arg-type]
        "ChatAgent react": ChatAgent(Instant(tokenizer), prompt="react"),  # type: ignore[arg-type]
        "ChatAgent bare, history=template": ChatAgent(Instant(tokenizer), prompt="bare", history="template"),  # type: ignore[arg-type]
        "WindowAgent": WindowAgent(Instant(tokenizer)),  # type: ignore[arg-type]
    }
    print("| agent | first pass, µs a turn | again |\n|---|---|---|")
    for name, agent in kinds.items():
        first, again = asyncio.run(microseconds(agent)), asyncio.run(microseconds(agent))
        print(f"| {name} | {first:.0f} | {again:.0f} |")


if __name__ == "__main__":
    main()
