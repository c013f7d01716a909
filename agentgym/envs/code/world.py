"""The world: a programming task, a Python to try things in, tests to see, and tests that are hidden."""

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from agentgym.actions import spell, tool
from agentgym.core import Outcome, Task
from agentgym.envs.code import cheaters as shortcuts
from agentgym.errors import BadConfig, unknown
from agentgym.rewards.code_checks import Checks, run_checks
from agentgym.rewards.code_tests import CodeTests, Tried, run_tests
from agentgym.sandbox.protocol import MEGABYTE, Limits, Result
from agentgym.sandbox.world import JailedEnv
from agentgym.seeding import derive
from agentgym.tasks.code import FAMILIES, family, read
from agentgym.tasks.code.files import load, verify, whole
from agentgym.tasks.code.values import shown

LONGEST = 4000
"""Characters shown of what a run printed."""
LONGEST_VALUE = 300
EXAMPLES = 2
"""Public tests that a statement shows."""
FAILURES = 3
"""Failing tests that are shown."""


class Code(JailedEnv):
    """Write a program that passes hidden tests.

    Tasks are generated: `families` names those to draw from (`agentgym.tasks.code.FAMILIES`; all by default), and from
    difficulty d on a solution takes d + 1 or d + 2 steps over longer inputs; `split_key` is the statement without the
    name of the function.

    `run` keeps its variables. `test` and `submit` try code alone, in a fresh jail each, with inputs only: results come
    out as data and are compared with the expected ones outside. Reward: 1 for a submission that passes every hidden test,
    else 0; it ends the episode. Measures: `passed`, the share of hidden tests that it passed; `public`, the share of
    public tests at the last `test`.
    """

    horizon = 12
    settings: ClassVar[tuple[str, ...]] = (*JailedEnv.settings, "families", "data", "verify", "seconds", "packages")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"tiny": {"difficulty": 0}}
    families: tuple[str, ...] = ()
    """Families of generated tasks to draw from; empty: all."""
    data: str | None = None
    """A file of tasks instead: HumanEval, MBPP, LiveCodeBench, CodeContests or our own layout (`docs/code.md`)."""
    verify: bool = False
    """Whether all reference solutions of the file are tried first; BadData names the tasks of those that fail."""
    seconds: float = 2.0
    """For one test; a file's task may say its own."""
    limits = Limits(timeout=10.0, memory=512 * MEGABYTE, disk=16 * MEGABYTE, files=1000)
    random_bound = 0.0
    expert_bound = 0.95
    answers = ("reference",)

    def _check_options(self) -> None:
        if isinstance(self.families, str):
            self.families = (self.families,)
        for name in self.families:
            if name not in FAMILIES:
                raise unknown("family of Code", name, FAMILIES)
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float) or not 0 < self.seconds <= 60:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadConfig(f"seconds of Code is {self.seconds!r}; expected a number of seconds from above 0 to 60")
        if self.data is not None and self.families:
            raise BadConfig("data (a file of tasks) and families (of generated ones) were both given; give one of them")
        if self.verify and self.data is None:
            raise BadConfig("verify tries the reference solutions of a file, and data names none")
        self.library = None if self.data is None else load(self.data)
        if self.library is not None:
            self.splits = self.library.splits
        super()._check_options()

    def setup(self) -> None:
        super().setup()
        if self.verify and self.library is not None:
            verify(self.library, self._tried)

    # Tasks

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        """Draw a task of one of the families."""
        names = self.families or FAMILIES
        chosen = family(names[int(rng.integers(len(names)))])
        draft = chosen.draw(rng, difficulty)
        statement = draft.plan.statement()
        data = {
            "family": chosen.name,
            "statement": statement,
            "kind": draft.plan.start.kind,
            "entry": draft.plan.entry,
            "public": draft.public,
            "hidden": draft.hidden,
            "compare": "exact",
            "tolerance": chosen.tolerance,
            "reference": draft.plan.solution(),
            "wrong": draft.wrong,
        }
        return Task(instruction=statement, data=data, difficulty=difficulty)

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the task of that number: generated, or of the file (counted round and round)."""
        if self.library is None:
            return super().numbered(number, split, difficulty)
        if (split := split or self.split) not in self.splits:
            raise unknown("split of Code", split, self.splits)
        if number < 0:
            raise BadConfig(f"task number {number} of Code: numbers start at 0")
        tasks = self.library.of_split(split)
        return tasks[number % len(tasks)]

    def find(self, task_id: str) -> Task:
        """Return the task with that id."""
        if self.library is None:
            return super().find(task_id)
        if task_id not in self.library.by_id:
            raise unknown("task", task_id, self.library.by_id)
        return self.library.by_id[task_id]

    def size(self, split: str | None = None) -> int | None:
        """Return how many tasks of a file a split has."""
        return None if self.library is None else len(self.library.of_split(split or self.split))

    def split_of(self, task: Task) -> str:
        """Return the split of the statement; a file's task says its own."""
        return super().split_of(task) if self.library is None else task.split

    def split_key(self, task: Task) -> object:
        """Return the statement, whatever the function is called."""
        return task.data["statement"].replace(f"`{task.data['entry']}(", "`(", 1)

    # The episode

    def begin(self, task: Task) -> str:
        self.cells: tuple[str, ...] = ()
        """Code that was run and could change something."""
        self.candidate = ""
        """The last code run that defines what is asked for: `test` tries it."""
        self.passed = self.public = 0.0
        lines = [task.data["statement"]]
        examples = [_example(task.data, test) for test in task.data["public"][:EXAMPLES] if task.data["kind"] != "checks"]
        lines += ["Examples:", *examples] if examples else []
        return "\n".join([*lines, self._asks(task)])

    def _asks(self, task: Task) -> str:
        count = len(task.data["public"])
        return (
            f"Try things with run, test the code you ran last with test (public tests: {count}), "
            "then submit the whole code once: hidden tests decide."
        )

    @tool
    def run(self, code: str) -> str | Outcome:  # pyright: ignore[reportIncompatibleMethodOverride]  # no shell in this world
        """Run Python code; variables, functions and files stay for the next run. Returns what it prints or raises."""
        if not code.strip():
            return self.invalid("the code is empty. Write Python, for example run[print(1 + 1)].")
        tree = _parsed(code)
        if tree is not None:
            self.cells = (*self.cells, code)
            if self.task.data["kind"] == "program" or _names(tree, self.task.data["entry"]):
                self.candidate = code
        result = self.compute(code)
        return _told(result) or "(no output)"

    @tool
    def test(self) -> str | Outcome:
        """Try the public tests on the last code given to run that defines what is asked for, alone and in a new Python."""
        if not self.candidate:
            what = self.task.data["entry"]
            return self.invalid(f"no code to test yet: run code that defines {what}, all of it in one run, then test.")
        if not self.task.data["public"]:
            return self.invalid("this task shows no tests: try the code with run, then submit it.")
        tried = self._try(self.candidate, "public")
        self.public = sum(one.passed for one in tried) / len(tried)
        return self._report(tried)

    @tool
    def submit(self, code: str) -> Outcome:
        """Submit the whole code, all imports included; hidden tests decide, and the episode ends."""
        if not code.strip():
            return self.invalid("the code is empty. Submit the whole code of the solution.")
        problem = self._problem(code)
        if problem:
            return self.invalid(f"{problem} Nothing was submitted.")
        tried = self._try(code, "hidden")
        count = sum(one.passed for one in tried)
        self.passed = count / len(tried)
        if count == len(tried):
            return self.win(f"All {count} hidden tests pass.")
        return self.lose(f"{count} of {len(tried)} hidden tests pass.")

    def _problem(self, code: str) -> str:
        """Return what keeps code from being tried at all, for which an episode need not be lost."""
        try:
            tree = ast.parse(whole(self.task.data, code))
        except SyntaxError as error:
            return f"the code is no Python: {error.msg} (line {error.lineno})."
        except (ValueError, RecursionError, MemoryError) as error:
            return f"the code is no Python: {error}."
        entry = self.task.data["entry"]
        if self.task.data["kind"] != "program" and not _names(tree, entry):
            return f"the code defines no {entry}."
        return ""

    def _try(self, code: str, which: str) -> list[Tried]:
        return self._tried(self.task, code, which)

    def _tried(self, task: Task, code: str, which: str) -> list[Tried]:
        """Return what becomes of each `public` or `hidden` test of a task in a fresh jail."""
        data, seconds = task.data, task.data.get("seconds", self.seconds)
        code = whole(data, code)
        if data["kind"] == "checks":
            checks = Checks(data["names"], data[which], data["before"], data["setup"], seconds, derive(task.id))
            return self.elsewhere(lambda theirs: self.elsewhere(lambda ours: run_checks(theirs, ours, code, checks)))
        tests = CodeTests(data["kind"], data["entry"], data[which], data["compare"], data["tolerance"], seconds)
        return self.elsewhere(lambda jail: run_tests(jail, code, tests))

    def _report(self, tried: list[Tried]) -> str:
        failing = [number for number, one in enumerate(tried) if not one.passed]
        lines = [f"{len(tried) - len(failing)} of {len(tried)} public tests pass."]
        for number in failing[:FAILURES]:
            lines += [_expected(self.task.data, number), f"  got:      {_cut(tried[number].got, LONGEST_VALUE)}"]
        return "\n".join(lines)

    def state(self) -> Any:
        return self.cells, self.candidate, self.passed, self.public

    def measures(self) -> dict[str, float]:
        return {"passed": self.passed, "public": self.public}

    # Who plays

    def oracle(self) -> Iterator[str]:
        """Submit the reference solution; a file's task may have none."""
        if not self.task.data["reference"]:
            raise NotImplementedError(f"task {self.task.id} of the file has no reference solution")
        yield spell("submit", self.task.data["reference"])

    def expert(self) -> Iterator[str]:
        """Read the statement, run a solution on an example, test it, submit it; knows the sentences of the families."""
        plan = read(self.task.data["statement"])
        if plan is None:
            raise NotImplementedError("the expert reads statements of generated families only; for files use oracle()")
        solution = plan.solution()
        if self.candidate != (tried := f"{solution}\n{self._first_call()}"):
            yield spell("run", tried)
        if self.public < 1:
            yield spell("test")
        yield spell("submit", solution)

    def _first_call(self) -> str:
        """Return the call of the first example that is shown."""
        call = _call(self.task.data, self.task.data["public"][0][0])
        return call if "\n" in call else f"print({call})"

    def cheaters(self) -> Mapping[str, Callable[[list[str]], str]]:
        return shortcuts.cheaters()


def _expected(data: Mapping[str, Any], number: int) -> str:
    """Return a public test and what it expects, to be shown."""
    test = data["public"][number]
    if data["kind"] == "checks":
        return _cut(test[0], LONGEST_VALUE) + (f"\n  expected: {_cut(test[1], LONGEST_VALUE)}" if len(test) > 1 else "")
    wanted = test[1] if data["kind"] == "program" else shown(test[1])
    return f"{_cut(_call(data, test[0]), LONGEST_VALUE)}\n  expected: {_cut(wanted, LONGEST_VALUE)}"


def _call(data: Mapping[str, Any], given: Any) -> str:
    """Return how a test calls a solution, as one writes it in Python; the input of a program."""
    entry = data["entry"]
    if data["kind"] == "program":
        return f"input:    {given}"
    if data["kind"] == "function":
        return f"{entry}({_arguments(given)})"
    start, calls = given
    return "; ".join([f"it = {entry}({_arguments(start)})", *(f"it.{name}({_arguments(values)})" for name, values in calls)])


def _arguments(packed: list[Any]) -> str:
    return ", ".join(shown(one) for one in packed)


def _example(data: Mapping[str, Any], test: list[Any]) -> str:
    given, expected = test
    if data["kind"] == "program":
        return f"input:\n{_cut(given, LONGEST_VALUE)}\noutput:\n{_cut(expected, LONGEST_VALUE)}"
    arrow = "gives in turn" if data["kind"] == "class" else "gives"
    return f"{_cut(_call(data, given), 2 * LONGEST_VALUE)}  # {arrow} {_cut(shown(expected), LONGEST_VALUE)}"


def _parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _names(tree: ast.Module, entry: str) -> bool:
    """Return whether code seems to define a name, by whatever statement."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and node.name == entry:
            return True
        if isinstance(node, ast.Name) and node.id == entry and isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.alias) and (node.asname or node.name) == entry:
            return True
    return False


def _told(result: Result) -> str:
    """Return what a run printed and how it ended, if not by itself."""
    text = _cut(result.text.rstrip("\n"), LONGEST)
    ends = {
        "timeout": f"(stopped: no end within {result.seconds:.0f} s)",
        "memory": "(ended: it took more memory than it may; variables are lost)",
        "output": "(ended: it printed more than it may; variables are lost)",
        "killed": "(Python ended; variables are lost)",
    }
    return "\n".join(part for part in (text, ends.get(result.reason, "")) if part)


def _cut(text: str, most: int) -> str:
    """Return a text, without its middle where it is too long."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … {len(text) - most} characters … {text[-(most - most // 2) :]}"
