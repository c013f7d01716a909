"""Puzzles about one function, as in Absolute Zero: find its result, its arguments, or the function itself.

The environment's id is `agentgym.envs.code.puzzles:rlvr/CodePuzzle-v0`; `agentgym.envs.code.proposer` proposes puzzles.
"""

import ast
import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, cast

import agentgym.rewards.programs.values as packed_values
from agentgym.core.actions import spell, tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task
from agentgym.core.seeding import generator
from agentgym.core.tasks import Data
from agentgym.envs.code.env import Code
from agentgym.envs.code.grading.compare import COMPARISONS
from agentgym.envs.code.grading.tests import PATIENCE, START, CodeTests, read_answers, run_tests
from agentgym.envs.code.text import defines, syntax_error
from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.registry import register
from agentgym.rewards.programs.program import program
from agentgym.rewards.programs.values import as_source, pack
from agentgym.sandbox.protocol import Sandbox

TYPES = ("deduction", "abduction", "induction")
LONGEST_ANSWER = 4000


class Puzzles(Code):
    """Predict a function's result, find arguments for a result, or write the function from examples.

    Puzzles are made from solutions of the generated families of `rlvr/Code-v0`; a task sampler may add puzzles that a
    policy proposed. A result is compared as data. Arguments are literals that must make the function return the result. A
    function must return the right results for all inputs, including hidden ones. Code runs in the sandbox.
    """

    horizon = 4
    task_settings: ClassVar[tuple[str, ...]] = ("types",)
    settings: ClassVar[tuple[str, ...]] = (*Code.settings, *task_settings)
    types: tuple[str, ...] = TYPES
    """Types of puzzles: `deduction`, `abduction`, `induction`."""
    declared = Declarations(random_bound=0.0, expert_bound=0.0)

    def check_options(self) -> None:
        if isinstance(self.types, str):
            self.types = tuple(self.types.split(","))
        for name in self.types:
            if name not in TYPES:
                raise UnknownName(no_such("type of puzzle", name, TYPES))
        if self.data is not None:
            raise BadConfig(f"data is {self.data!r}; puzzles are made of generated tasks alone: leave it out")
        super().check_options()

    def setup(self) -> None:
        super().setup()
        self.tools = {name: value for name, value in self.tools.items() if name in self.offered}

    offered: ClassVar[tuple[str, ...]] = ("answer",)

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the puzzle with this number, made from a task whose solution is a function.

        Raises:
            BadConfig: no family has functions.
        """
        for attempt in range(50):
            task = super().numbered(number * 50 + attempt, split, difficulty)
            if task.data["kind"] == "function":
                kind = self.types[int(generator("puzzle", number, task.split).integers(len(self.types)))]
                cases = [*task.data["public"], *task.data["hidden"]][:6]
                data = puzzle(kind, task.data["reference"], task.data["entry"], *map(list, zip(*cases, strict=True)))
                id = f"{task.split}/{task.difficulty}/{number}"
                return dataclasses.replace(task, id=id, instruction="Solve the puzzle.", data=data)
        raise BadConfig(f"families {', '.join(self.families)} have no functions to make puzzles of; name others")

    def split_key(self, task: Task) -> object:
        """Return the program and the type of puzzle, or Code's key for a generated task."""
        return super().split_key(task) if "statement" in task.data else (task.data["program"], task.data["type"])

    def begin(self, task: Task) -> str:
        self.answered: str | None = None
        return f"{self.question(task.data)}\nYou can answer only once."

    @staticmethod
    def question(data: Data) -> str:
        """Return the question about a puzzle; the program is in a code block, since a policy may have written it."""
        calls = [call_of(data, arguments) for arguments in data["inputs"]]
        code = f"```python\n{data['program']}\n```"
        if data["type"] == "deduction":
            return f"What does {calls[0]} return?\n{code}\nReply with answer and the value as a Python literal."
        if data["type"] == "abduction":
            result = as_source(data["outputs"][0])
            return (
                f"Find arguments with which {data['entry']} returns {result}.\n{code}\n"
                "Reply with answer and the arguments as Python literals, separated by commas."
            )
        half = range(max(1, len(calls) // 2))
        examples = "\n".join(f"{calls[place]} returns {as_source(data['outputs'][place])}" for place in half)
        return (
            f"Write a Python function {data['entry']} that does this:\n{examples}\n"
            "Reply with answer and the code. Other calls decide whether it is correct."
        )

    @tool
    def answer(self, text: str) -> Outcome:
        """Give the answer. This ends the episode."""
        if not text.strip() or len(text) > LONGEST_ANSWER:
            return self.invalid(f"the answer has {len(text)} characters; expected from 1 to {LONGEST_ANSWER}.")
        data = self.task.data
        if data["type"] == "induction":
            problem = syntax_error(text) or ("" if defines(text, data["entry"]) else f"it does not define {data['entry']}")
            if problem:
                return self.invalid(f"the answer is no function {data['entry']}: {problem}.")
            right = self._gives(text, data["inputs"], data["outputs"])
        else:
            try:
                literal = literals(text)
            except ValueError as error:
                return self.invalid(f"the answer is not made of Python literals: {error}")
            if data["type"] == "deduction":
                right = len(literal) == 1 and COMPARISONS["exact"](data["outputs"][0], literal[0], 1e-9)
                right = right or COMPARISONS["exact"](
                    data["outputs"][0], pack(tuple(map(packed_values.unpack, literal))), 1e-9
                )
            else:
                right = self._gives(data["program"], [literal], data["outputs"][:1])
        self.answered = text
        return self.win("The answer is right.") if right else self.lose("The answer is wrong.")

    def _gives(self, code: str, inputs: Sequence[object], outputs: Sequence[object]) -> bool:
        cases = [list(pair) for pair in zip(inputs, outputs, strict=True)]
        tests = CodeTests("function", self.task.data["entry"], cases, "exact", 1e-9, self.seconds)
        return all(tried.passed for tried in self.elsewhere(lambda sandbox: run_tests(sandbox, code, tests)))

    def state(self) -> object:
        return self.answered

    def measures(self) -> dict[str, float]:
        return {}

    def oracle(self) -> Iterator[str]:
        data = self.task.data
        if data["type"] == "induction":
            yield spell("answer", data["program"])
        values = data["outputs"][:1] if data["type"] == "deduction" else data["inputs"][0]
        yield spell("answer", ", ".join(map(as_source, values)))

    def expert(self) -> Iterator[str]:
        """Run the function and answer with its result; only for deduction."""
        data = self.task.data
        if data["type"] != "deduction":
            raise NotImplementedError("the expert runs functions; give types=('deduction',)")
        returned = self.elsewhere(
            lambda sandbox: results(sandbox, data["program"], data["entry"], data["inputs"][:1], self.seconds)
        )
        yield spell("answer", as_source(cast("list[list[object]]", returned)[0][0]))

    def shortcuts(self) -> dict[str, Callable[[list[str]], str]]:
        return {}


def puzzle(kind: str, code: str, entry: str, inputs: Sequence[object], outputs: Sequence[object]) -> Data:
    """Return a puzzle: `type`, `program`, `entry`, `inputs` and `outputs` (all for induction, else only the first)."""
    count = len(inputs) if kind == "induction" else 1
    return {
        "type": kind, "program": code.strip(), "entry": entry, "inputs": list(inputs)[:count],
        "outputs": list(outputs)[:count],
    }  # fmt: skip


def call_of(data: Data, arguments: Sequence[object]) -> str:
    """Return the call of a puzzle's function with packed arguments, as Python source."""
    return f"{data['entry']}({', '.join(map(as_source, arguments))})"


def literals(text: str) -> list[object]:
    """Return the packed values of Python literals separated by commas.

    Raises:
        ValueError: the text is not a list of literals.
    """
    try:
        values = ast.literal_eval(f"({text.strip()}\n,)")
        return [pack(value) for value in values]
    except (SyntaxError, TypeError, RecursionError, MemoryError, OverflowError, packed_values.NotData) as error:
        raise ValueError(f"{type(error).__name__}") from None


def results(sandbox: Sandbox, code: str, entry: str, inputs: Sequence[object], seconds: float) -> list[list[object]] | str:
    """Call a function in `sandbox`; return [packed value, error or None] of each input, or the error if the code failed."""
    request = {
        "code": code, "entry": entry, "kind": "function", "inputs": list(inputs), "seconds": seconds,
        "room": sandbox.limits.output // 2, "patience": PATIENCE,
    }  # fmt: skip
    limit = START + seconds * (1 + min(len(inputs), PATIENCE))
    result = sandbox.python(program("main()"), stdin=json.dumps(request).encode(), timeout=limit)
    return read_answers(result.stdout, len(inputs))


register("rlvr/CodePuzzle-v0", Puzzles, description="what a function returns, its arguments, or the function itself")
