"""What agents of different memory cost and get right in `rlvr/Memory-v0`: success against tokens, with scripted models.

    python benchmarks/memory_agents.py [--sessions 10 30] [--tasks 40]

The model reads its prompt and nothing else: it answers from the lines that stand there, and writes the facts that count when
it is asked for a summary. The agent with notes has the environment's expert for a model, in the prompts of a window. Nobody
misreads anything, so a wrong answer is one that the memory had lost. Tokens are those of a tokenizer trained on the
environment's text.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import mean
from typing import Any

import agentgym
from agentgym import ChatAgent, SummaryAgent, WindowAgent
from agentgym.agents.demonstrator import Demonstrator
from agentgym.agents.prompt import Prompt, parse_prompt
from agentgym.core.actions import spell
from agentgym.engines.scripted import ScriptedEngine
from agentgym.envs.memory import expert
from agentgym.envs.memory.facts import Statement, answer, read, read_question, valid_after
from agentgym.trainers.model.policy import env_text, train_tokenizer

ID = "rlvr/Memory-v0"
DIFFICULTY = 3
FULL = "Write down everything that counts."
PROMPT = f"""\
[turn]
{{history}}
{{observation}}
[first]
{{observation}}
[reply]
bare
[summary]
{FULL}
[resume]
{{summary}}
{{observation}}
"""


def lines_of(text: str) -> list[str]:
    """Return the lines of a prompt without the marks of the agent around them."""
    return [re.sub(r"<\|\w+\|>.*$|', Action \d+: .*$", "", line) for line in text.splitlines()]


def statements(lines: Sequence[str]) -> list[Statement]:
    """Return what the lines state, in people's words or in those of a note."""
    return [found for line in lines if (found := read(line) or expert.read_note(line))]


def reply(text: str, _: int) -> str:
    """Return what a careful model says to a prompt: a summary, an answer, or a call for the next session."""
    lines = lines_of(text)
    if FULL in text.rpartition("Session ")[2]:
        watched = [line for line in lines if "Questions will be about" in line][-1:]
        return "\n".join([*watched, *map(expert.written, valid_after(statements(lines)).values())])
    sessions = text.rpartition("Session ")[2]
    question = re.search(r"Question: ([^\n<]+\?)", sessions)
    if question is None:
        return spell("next")
    day = int(re.search(r"day (\d+)", sessions)[1])  # type: ignore[index]
    return spell("answer", answer(read_question(question[1]), valid_after(statements(lines)), day))


@dataclass(frozen=True)
class Arm:
    """An agent, and how many notes it may keep."""

    name: str
    kind: Any
    options: dict[str, Any]
    notes: int = 0


ARMS = (
    Arm("full history", ChatAgent, {}),
    *(Arm(f"window of {turns} turns", WindowAgent, {"turns": turns}) for turns in (2, 8, 32)),
    *(Arm(f"summary at {size} tokens", SummaryAgent, {"memory_tokens": size}) for size in (400, 1000)),
    Arm("window of 2 turns, notes", WindowAgent, {"turns": 2}, notes=12),
)


@cache
def tokenizer() -> Any:
    """Return a tokenizer trained on the environment's text."""
    return train_tokenizer(env_text(ID, {"difficulty": DIFFICULTY}, 100, 0), 2000, "words")


def prompt() -> Prompt:
    """Return the prompt of every agent: the environment's words, and what is remembered."""
    return parse_prompt(PROMPT, "memory")


def measure(arm: Arm, sessions: int, tasks: int) -> tuple[float, float, float, float]:
    """Return success, the longest prompt, tokens to compute and turns, means over episodes.

    A prompt that extends the last turn's tokens costs its new tokens alone; any other costs all of its tokens.
    """
    agent: Any = arm.kind(ScriptedEngine(reply, tokenizer()), prompt=prompt(), turn_tokens=400, **arm.options)
    agent = Demonstrator(agent) if arm.notes else agent
    options = {"difficulty": DIFFICULTY, "sessions": sessions, "notes": arm.notes}
    episodes = agentgym.collect(agent, ID, tasks=tasks, split="test", env_options=options)
    longest, computed = list[int](), list[int]()
    for episode in episodes:
        calls = [call for turn in episode.turns for call in (*turn.notes, turn)]
        past: list[int] = []
        computed.append(0)
        for call in calls:
            known = len(past) if call.prompt_ids[: len(past)] == past else 0
            computed[-1] += len(call.prompt_ids) - known + len(call.output_ids)
            past = [*call.prompt_ids, *call.output_ids]
        longest.append(max(len(call.prompt_ids) for call in calls))
    success = mean(bool(episode.success) for episode in episodes)
    return success, mean(longest), mean(computed), mean(len(episode.turns) for episode in episodes)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, nargs="*", default=[10, 30])
    parser.add_argument("--tasks", type=int, default=40)
    arguments = parser.parse_args()
    print("| sessions | agent | success | longest prompt | tokens to compute | turns |\n|---|---|---|---|---|---|")
    for sessions in arguments.sessions:
        for arm in ARMS:
            success, longest, computed, turns = measure(arm, sessions, arguments.tasks)
            print(
                f"| {sessions} | {arm.name} | {100 * success:.0f} % | {longest:,.0f} | {computed:,.0f} | {turns:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
