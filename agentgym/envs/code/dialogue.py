"""The environment: a description with gaps, and a colleague who knows the missing sentences."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from agentgym.core.actions import spell, tool
from agentgym.core.env import Outcome, Task
from agentgym.envs.code.env import Code
from agentgym.envs.code.families import ProgramSpec, read
from agentgym.envs.code.families.family import passes
from agentgym.envs.code.text import cut
from agentgym.errors import BadConfig
from agentgym.sandbox.env import ExternalAccess

GAP = "(open: ask)"
"""Text shown in place of a missing sentence."""
RESULT = "result"
"""Key of the sentence about the result to return; the key of a step is its number."""
LONGEST_QUESTION = 400
"""Maximum characters of a question."""
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_NUMBER = re.compile(r"\b\d{1,3}\b|\b(?:" + "|".join(ORDINALS) + r")\b", re.IGNORECASE)
_RESULT = re.compile(r"\b(?:results?|returns?|returned|outputs?)\b", re.IGNORECASE)
_STEP = re.compile(r"(\d+)\. (.*)")


class CodeDialogue(Code):
    """Write a program after asking for the missing parts of its description.

    The task is a statement of `rlvr/Code-v0` that lacks one or more steps, and sometimes the result. `ask` sends a
    question to a colleague. If the question names a step by its number, or the result, the answer is that sentence; it is
    never code. There are no examples and no public tests. Reward: 1 for a submission that passes every hidden test, else 0.
    A solution without the missing steps fails a hidden test. Metrics: `passed`, the share of hidden tests that pass, and
    `asked`, the share of gaps that the agent asked about.

    The setting follows ColBench (SWEET-RL, arXiv 2503.15478), where the collaborator is a language model that sees the
    solution; here, every answer is a sentence of the specification from which the tests were made.
    """

    settings: ClassVar[tuple[str, ...]] = tuple(
        name for name in Code.settings if name not in ("data", "verify", "strict", "ignore")
    )
    """Settings of Code without those of task files, whose statements have no sentences to leave out."""

    def setup(self) -> None:
        super().setup()
        del self.tools["test"]

    # Tasks

    def _drawn(self, rng: np.random.Generator, difficulty: int, accepts: Callable[[ProgramSpec], bool]) -> Task:
        """Draw a task of Code, and leave out sentences that are necessary to pass its tests."""
        while True:
            task = super()._drawn(rng, difficulty, accepts)
            keys = _keys(task.data["statement"])
            one = str(rng.integers(1, 1 + len(keys.keys() - {RESULT})))  # a result alone could be guessed
            missing = {key: keys[key] for key in keys if rng.integers(2) or key == one}
            if not _passes_without(task, missing):
                data: dict[str, object] = {**task.data, "missing": missing, "public": []}
                return dataclasses.replace(task, instruction=_with_gaps(task.data["statement"], missing), data=data)

    # The episode

    def begin(self, task: Task) -> str:
        super().begin(task)
        self.heard: tuple[str, ...] = ()
        """Sorted keys of the missing sentences that the colleague has revealed."""
        return (
            f"{task.instruction}\nYour colleague knows what belongs in place of each {GAP}: ask about one step by its "
            "number, or about the result. Try code with run, then submit all of it. You can submit only once; hidden tests "
            "decide whether it is correct."
        )

    def lend(self, work: Callable[[ExternalAccess], None]) -> None:
        raise BadConfig(f"{type(self).__name__} lends no sandbox: its colleague answers through the tool `ask` alone")

    @tool
    def ask(self, question: str) -> str | Outcome:
        """Ask your colleague about one step, by its number, or about the result. Returns the answer in words."""
        if not question.strip():
            return self.invalid("the question is empty. Name a step by its number, or the result: ask[What does step 2 do?]")
        question = cut(question, LONGEST_QUESTION)
        steps = _keys(self.task.data["statement"])
        key = _subject(question)
        if key is None:
            return "I can tell you about one step, if you name its number, or about the result."
        if key not in steps:
            return "There is no such step." if key != RESULT else "The result is defined by the steps alone."
        if key in self.task.data["missing"]:
            self.heard = tuple(sorted({*self.heard, key}))
        return f"Return {steps[key]}" if key == RESULT else f"{key}. {steps[key]}"

    def state(self) -> object:
        return super().state(), self.heard

    def measures(self) -> dict[str, float]:
        return {"passed": self.passed, "asked": len(self.heard) / len(self.task.data["missing"])}

    # Policies

    def expert(self) -> Iterator[str]:
        """Ask about every gap, fill in the answers, and submit the code of the complete statement."""
        missing = self.task.data["missing"]
        for key in missing:
            if key not in self.heard:
                yield spell("ask", "What is the result?" if key == RESULT else f"What does step {key} do?")
        plan = read(_filled(self.task.instruction, {key: missing[key] for key in self.heard}))
        assert plan is not None, "the answers complete the statement"
        yield spell("submit", plan.solution())

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        return {**super().shortcuts(), "without_asking": _without_asking}


def _keys(statement: str) -> dict[str, str]:
    """Return the sentences of a statement that may be left out: step number or `RESULT` -> sentence."""
    lines = statement.split("\n")
    found = {step[1]: step[2] for line in lines if (step := _STEP.fullmatch(line))}
    last = lines[-1]
    return found | ({RESULT: last.removeprefix("Return ")} if last.startswith("Return ") else {})


def _with_gaps(statement: str, missing: Mapping[str, str]) -> str:
    return _replaced(statement, dict.fromkeys(missing, GAP))


def _filled(statement: str, answers: Mapping[str, str]) -> str:
    return _replaced(statement, answers)


def _replaced(statement: str, sentences: Mapping[str, str]) -> str:
    """Return a statement with the sentences at some keys (see `_keys`) replaced."""
    lines = statement.split("\n")
    for place, line in enumerate(lines):
        step = _STEP.fullmatch(line)
        if step and step[1] in sentences:
            lines[place] = f"{step[1]}. {sentences[step[1]]}"
    if RESULT in sentences:
        lines[-1] = f"Return {sentences[RESULT]}"
    return "\n".join(lines)


def _subject(question: str) -> str | None:
    """Return the number of the first step that a question names, else `RESULT` if it names the result, else None."""
    number = _NUMBER.search(question)
    if number is not None:
        word = number[0].lower()
        return str(ORDINALS.index(word) + 1 if word in ORDINALS else int(word))
    return RESULT if _RESULT.search(question) else None


def _passes_without(task: Task, missing: Mapping[str, str]) -> bool:
    """Return True if the solution without the missing steps still passes every hidden test."""
    data = task.data
    plan = read(data["statement"])
    assert plan is not None, "the statement is generated"
    known = tuple(step for number, step in enumerate(plan.steps, 1) if str(number) not in missing)
    code = replace(plan, steps=known).solution()
    try:
        return passes(data["hidden"], code, data["entry"], data["kind"], data["tolerance"]) == len(data["hidden"])
    except Exception:  # a step that leans on a missing one may raise anything
        return False


def _without_asking(observations: list[str]) -> str:
    """Submit the code of the sentences that are not missing."""
    lines = observations[0].split("\n")
    end = next((n for n, line in enumerate(lines) if line.startswith("Your colleague")), len(lines))
    known = [line for line in lines[:end] if not line.endswith(GAP)]
    count, numbered = 0, list[str]()
    for line in known:
        step = _STEP.fullmatch(line)
        count += step is not None
        numbered.append(f"{count}. {step[2]}" if step else line)
    plan = read("\n".join(numbered))
    entry = re.search(r"`(\w+)\(", observations[0])
    return spell("submit", plan.solution() if plan else f"def {entry[1] if entry else 'solve'}(*values):\n    return None")
