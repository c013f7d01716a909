"""What a turn costs apart from the engine: microseconds of CPU per `take()` of the agents with a model.

Run `python benchmarks/agents.py [--tokenizer tokenizer.json …] [--rounds 5]`. The engine answers at once; observations are
short and were seen before. `whole` encodes each text as one; both arms run in turn (A B B A); medians.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
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
        self._calls = 0

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, session: str, **_: Any) -> Completion:
        """Return the next reply."""
        self._calls += 1
        ids = [*self._replies[self._calls % len(self._replies)], sampling.stop_ids[0]]
        return Completion(ids, [0.0] * len(ids), "stop")


async def microseconds(agent: Any) -> float:
    """Return the mean time of a turn."""
    observations = [f"On the desk {i}, you see a book {j}, a pencil 2, and a cup 1." for i in range(20) for j in range(20)]
    started, count = time.process_time(), 0
    for episode in range(EPISODES):
        talk = agent.begin(Task(instruction="put a book in shelf"), {})
        for turn in range(TURNS):
            observation = observations[(7 * episode + 13 * turn) % len(observations)]
            await talk.take(observation, {"admissible": COMMANDS}, env=None, seed=count, session="a")
            count += 1
    return (time.process_time() - started) / count * 1e6


def tokenizers(paths: Sequence[Path]) -> dict[str, Any]:
    """Return one token a byte, and those of files with a ChatML template."""
    from transformers import PreTrainedTokenizerFast

    own = ByteTokenizer()
    kinds: dict[str, Any] = {"bytes": own}
    for path in paths:
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path), eos_token=own.eos_token)
        tokenizer.add_tokens([*own.control], special_tokens=True)
        tokenizer.chat_template = own.chat_template
        kinds[str(path)] = tokenizer
    return kinds


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, nargs="*", default=[], help="tokenizer.json of models, besides bytes")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of both arms")
    arguments = parser.parse_args()
    print("| tokenizer | agent | whole, µs a turn | in words | ratio |\n|---|---|---|---|---|")
    for name, tokenizer in tokenizers(arguments.tokenizer).items():
        kinds: dict[str, Any] = {
            "ChatAgent bare": lambda engine: ChatAgent(engine, prompt="bare"),
            "ChatAgent react": lambda engine: ChatAgent(engine, prompt="react"),
            "ChatAgent bare, history=template": lambda engine: ChatAgent(engine, prompt="bare", history="template"),
            "WindowAgent": WindowAgent,
        }
        for kind, make in kinds.items():
            arms = [make(Instant(tokenizer)) for _ in range(2)]
            arms[0].template.encoder._border = None
            times: tuple[list[float], list[float]] = ([], [])
            for agent in arms:
                asyncio.run(microseconds(agent))
            for number in range(arguments.rounds):
                for arm in (0, 1) if number % 2 == 0 else (1, 0):
                    times[arm].append(asyncio.run(microseconds(arms[arm])))
            whole, cut = map(statistics.median, times)
            ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
            print(f"| {name} | {kind} | {whole:.0f} | {cut:.0f} | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    main()
