"""Proposing puzzles about a function: the proposer of Absolute Zero.

The environment's id is `agentgym.envs.code.proposer:rlvr/CodeProposer-v0`; proposals are tasks of `rlvr/CodePuzzle-v0`.
"""

import ast
import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import ClassVar

from agentgym.core.actions import spell, tool
from agentgym.core.env import Outcome, Task
from agentgym.core.tasks import Data
from agentgym.envs.code.puzzles import Puzzles, call_of, literals, puzzle, results
from agentgym.registry import register
from agentgym.rewards.programs.values import as_source

LONGEST, CALLS, LONGEST_RESULT = 2000, 8, 300
"""Maximum characters of a proposal, number of calls in it, and characters of a result."""
MODULES = frozenset(("collections", "functools", "itertools", "math", "re", "string"))
FORBIDDEN = frozenset(
    (
        "breakpoint",
        "compile",
        "delattr",
        "dir",
        "eval",
        "exec",
        "exit",
        "getattr",
        "globals",
        "hash",
        "help",
        "id",
        "input",
        "locals",
        "memoryview",
        "object",
        "open",
        "print",
        "quit",
        "setattr",
        "super",
        "type",
        "vars",
    )
)
"""Names whose results vary between runs or that no puzzle needs. Not a security measure: the sandbox contains the code."""


class Proposer(Puzzles):
    """Propose a puzzle: a program that defines f, then calls of f with literals, one per line.

    `propose` runs the program twice, each time in a fresh sandbox. The puzzle is accepted if every call returns the same
    plain data of moderate size both times, within the time limit. A deduction or abduction has one call; an induction has
    4 to 8 calls with at least two different results. A copy of an example is refused. The reward is 1 for every accepted
    puzzle; a task sampler may replace it by a reward for how often the puzzle is solved.
    """

    offered: ClassVar[tuple[str, ...]] = ("propose",)
    settings: ClassVar[tuple[str, ...]] = Puzzles.settings

    def begin(self, task: Task) -> str:
        self.proposal = None
        self.accepted = False
        kind = task.data["type"]
        asks = {
            "deduction": "Another programmer is given the program and the call and has to say what it returns.",
            "abduction": "Another programmer is given the program and what the call returns and has to find its arguments.",
            "induction": "Another programmer is given some of the calls with their results and has to write the function.",
        }
        count = "from 4 to 8 calls" if kind == "induction" else "one call"
        examples = "\n".join(f"```python\n{text}\n```" for text in task.data["examples"])
        return (
            f"Propose a puzzle in Python. {asks[kind]} It should be neither trivial nor impossible.\n"
            f"Reply with propose: a program that defines the function f, then {count} of f with literal arguments, one a "
            f"line. It must give the same results every time. Allowed modules: {', '.join(sorted(MODULES))}.\n"
            f"Do not repeat an example:\n{examples}"
        )

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the proposal task with this number: a type of puzzle, with a generated puzzle as an example."""
        task = super().numbered(number, split, difficulty)
        data = task.data
        example = {"program": _renamed(data["program"], data["entry"]), "entry": "f", "inputs": data["inputs"]}
        return dataclasses.replace(task, data={"type": data["type"], "examples": [_written(example)]})

    def split_key(self, task: Task) -> object:
        """Return the type of puzzle and the examples, or Code's key for a generated task."""
        return super().split_key(task) if "statement" in task.data else (task.data["type"], tuple(task.data["examples"]))

    @staticmethod
    def conditioned(task: Task, past: Sequence[Data]) -> Task:
        """Return the task with earlier proposals of the same type as examples; unchanged if there are none."""
        alike = [_written(data) for data in past if data["type"] == task.data["type"]]
        return dataclasses.replace(task, data={**task.data, "examples": alike or task.data["examples"]})

    @staticmethod
    def proposed(final_observation: str) -> Data | None:
        """Return the puzzle in the final observation of an accepted proposal; None if no proposal was accepted."""
        head, _, rest = final_observation.partition("\n")
        return json.loads(rest) if head == ACCEPTED else None

    @tool
    def propose(self, code: str) -> Outcome:
        """Propose a puzzle: the program, then the calls, one a line. This ends the episode.

        Raises:
            ValueError: the proposal is invalid; caught here and returned as the refusal.
        """
        self.proposal = code[:LONGEST]
        kind = self.task.data["type"]
        try:
            if code.strip() in self.task.data["examples"]:
                raise ValueError("it repeats an example")
            body, inputs = _parts(code, kind)
            outputs = self._results(body, inputs)
            if kind == "induction" and len({as_source(value) for value in outputs}) < 2:
                raise ValueError("all calls return the same")
        except ValueError as error:
            return self.lose(f"The proposal is not valid: {error}.")
        self.accepted = True
        return self.win(f"{ACCEPTED}\n{json.dumps(puzzle(kind, body, 'f', inputs, outputs))}")

    def _results(self, body: str, inputs: Sequence[object]) -> list[object]:
        """Run the calls in two fresh sandboxes and return their packed results.

        Raises:
            ValueError: a call fails, a result is too long, or the two runs differ.
        """
        first, second = (self.elsewhere(lambda sandbox: results(sandbox, body, "f", inputs, self.seconds)) for _ in range(2))
        if isinstance(first, str) or len(first) < len(inputs) or any(error is not None for _, error in first):
            raise ValueError("the program or a call of it fails, takes too long or returns no plain data")
        if first != second:
            raise ValueError("it does not give the same results every time")
        values = [value for value, _ in first]
        if any(len(as_source(value)) > LONGEST_RESULT for value in values):
            raise ValueError(f"a result has more than {LONGEST_RESULT} characters")
        return values

    def state(self) -> object:
        return self.proposal, self.accepted

    def oracle(self) -> Iterator[str]:
        """Propose a small function that depends on the examples."""
        yield spell("propose", own(self.task.data["type"], repr(self.task.data["examples"])))

    expert = oracle


ACCEPTED = "The proposal is valid."


def own(kind: str, salt: str) -> str:
    """Return a valid proposal of this type of puzzle; `salt` selects one of 63 functions."""
    number = int(hashlib.sha256(salt.encode()).hexdigest()[:6], 16)
    factor, term = 2 + number % 7, number // 7 % 9
    calls = [f"f({value})" for value in range(term + 1, term + (5 if kind == "induction" else 2))]
    return "\n".join([f"def f(x):\n    return x * {factor} + {term}", *calls])


def _written(data: Data) -> str:
    """Return a puzzle in the form of a proposal."""
    return "\n".join([data["program"].strip(), *(call_of(dict(data), arguments) for arguments in data["inputs"])])


def _renamed(code: str, entry: str) -> str:
    """Return a generated program that also defines its function as `f`."""
    return "\n".join([code.strip(), f"f = {entry}"])


def _parts(code: str, kind: str) -> tuple[str, list[object]]:
    """Return a proposal's program and the packed arguments of its calls.

    Raises:
        ValueError: the proposal is malformed; the message says why.
    """
    if len(code) > LONGEST:
        raise ValueError(f"it has {len(code)} characters; at most {LONGEST} are allowed")
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"it is not Python ({type(error).__name__})") from None
    calls: list[ast.Call] = []
    while tree.body and isinstance(last := tree.body[-1], ast.Expr) and isinstance(last.value, ast.Call):
        if not (isinstance(last.value.func, ast.Name) and last.value.func.id == "f") or last.value.keywords:
            raise ValueError("the last lines are not calls of f with literals")
        calls.insert(0, last.value)
        tree.body.pop()
    least, most = (4, CALLS) if kind == "induction" else (1, 1)
    if not least <= len(calls) <= most:
        raise ValueError(f"it has {len(calls)} calls of f at its end; expected {least} to {most}")
    _check_names(tree)
    try:
        inputs: list[object] = [literals(", ".join(map(ast.unparse, call.args))) if call.args else [] for call in calls]
        body = ast.unparse(tree)
    except (ValueError, RecursionError, MemoryError):
        raise ValueError("the arguments of f are not literals") from None
    if kind == "induction" and len({repr(arguments) for arguments in inputs}) < len(inputs):
        raise ValueError("two calls are the same")
    return body, inputs


def _check_names(tree: ast.AST) -> None:
    """Check that a program defines `f`, imports only `MODULES` and uses no forbidden names.

    Raises:
        ValueError: a name or module is forbidden, or `f` is not defined.
    """
    defined = False
    for node in ast.walk(tree):
        names = [node.id] if isinstance(node, ast.Name) else [node.attr] if isinstance(node, ast.Attribute) else []
        if isinstance(node, ast.Import):
            names += [f"module {name.name}" for name in node.names if name.name not in MODULES]
        if isinstance(node, ast.ImportFrom) and node.module not in MODULES:
            names.append(f"module {node.module}")
        for name in names:
            if name in FORBIDDEN or name.startswith(("__", "module ")):
                raise ValueError(f"it uses {name[:40]}, which is not allowed")
        defined |= isinstance(node, ast.FunctionDef) and node.name == "f"
        defined |= isinstance(node, ast.Name) and node.id == "f" and isinstance(node.ctx, ast.Store)
    if not defined:
        raise ValueError("it does not define f")


register("rlvr/CodeProposer-v0", Proposer, description="propose a puzzle about a function, for another to solve")
