"""The environment: a programming task, a Python interpreter, public tests, and hidden tests."""

import dataclasses
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from agentgym.core.actions import spell, tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task
from agentgym.core.hints import guidance
from agentgym.core.seeding import derive, generator
from agentgym.envs.code import hints, shortcuts
from agentgym.envs.code.families import FAMILIES, ProgramSpec, family, read
from agentgym.envs.code.fields import top_names
from agentgym.envs.code.files import load, verify, whole
from agentgym.envs.code.grading.checks import Checks, run_checks
from agentgym.envs.code.grading.tests import CaseResult, CodeTests, run_tests
from agentgym.envs.code.text import LONGEST_VALUE, call, cut, defines, example, expected, run_text, syntax_error
from agentgym.envs.code.variants import variants
from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.sandbox.env import ExternalAccess, SandboxEnv
from agentgym.sandbox.protocol import MEGABYTE, NO_KERNEL, SAME, Limits, Result
from agentgym.tasks.reading import reading

SAME_PYTHON = ("bubblewrap", "process")
"""Sandbox backends that run the Python of this process, so that syntax errors can be found without the sandbox."""
FRESH = "Run Python code in a new process; files persist between runs, variables do not. Returns the output or the error."
BESIDE_TESTS = 30.0
"""Extra seconds for `submit` if a file's tasks have a time limit for all tests together."""
LEFT = "solution.py"
"""Path in the sandbox where an external agent leaves its code."""
HOME = "/home/agent"
EXAMPLES = 2
"""Number of public tests shown in a statement."""
FAILURES = 3
"""Maximum number of failing tests shown."""


class Code(SandboxEnv):
    """Write a program that passes hidden tests.

    Tasks are generated from `families` (default: all of `agentgym.envs.code.families.FAMILIES`). At difficulty d, a
    solution usually takes d + 1 or d + 2 steps (d + 2 or d + 3 methods in the family `classes`), and inputs grow with d.
    `split_key` is the statement without the function's name.

    Variables persist between calls of `run`, except on backends without a persistent interpreter (`NO_KERNEL`). `test` and
    `submit` run the code in a fresh sandbox that contains only the inputs of tests; results are compared with the expected
    results outside the sandbox, and tests that are assertions run in a second sandbox. Reward: 1 for a submission that
    passes every hidden test, else 0; a submission ends the episode. Metrics: `passed`, the share of hidden tests that pass;
    `public`, the share of public tests that passed in the last `test`.
    """

    horizon = 12
    hardest = 100
    task_settings: ClassVar[tuple[str, ...]] = ("families", "seconds", "strict", "ignore")
    caller_settings: ClassVar[tuple[str, ...]] = ("data", "verify", "packages")
    settings: ClassVar[tuple[str, ...]] = (*SandboxEnv.settings, *caller_settings, *task_settings)
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"tiny": {"difficulty": 0}}
    families: tuple[str, ...] = ()
    """Families of generated tasks; empty: all."""
    data: str | None = None
    """File of tasks: HumanEval, MBPP, LiveCodeBench, CodeContests or our layout (`docs/environments/code.md`).

    None: generated tasks.
    """
    verify: bool = False
    """Run all reference solutions of the file first; BadData lists the tasks with a failing reference."""
    strict: bool = False
    """Refuse a file with a bad row; by default bad rows are skipped, and a warning counts them."""
    ignore: Sequence[str] = ()
    """Columns to ignore; a file with text in any other unknown column is refused."""
    seconds: float = 2.0
    """Time limit per test, in seconds, unless a task of the file sets its own limit."""
    limits = Limits(timeout=10.0, memory=512 * MEGABYTE, disk=16 * MEGABYTE, files=1000)
    declared = Declarations(random_bound=0.0, expert_bound=0.95, answers=("reference",))

    def check_options(self) -> None:
        if isinstance(self.families, str):
            self.families = (self.families,)
        if isinstance(self.packages, str):
            self.packages = (self.packages,)
        for name in self.families:
            if name not in FAMILIES:
                raise UnknownName(no_such("family of Code", name, FAMILIES))
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float) or not 0 < self.seconds <= 60:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadConfig(f"seconds of Code is {self.seconds!r}; expected a number of seconds from above 0 to 60")
        if self.data is not None and self.families:
            raise BadConfig("data (a file of tasks) and families (of generated ones) were both given; give one of them")
        if self.verify and self.data is None:
            raise BadConfig("verify tries the reference solutions of a file, and data names none")
        self.library = None if self.data is None else load(self.data, reading(self.strict, self.ignore))
        if self.library is not None:
            self.splits = self.library.splits
        super().check_options()

    def setup(self) -> None:
        super().setup()
        if self.backend in NO_KERNEL:
            self.tools["run"] = dataclasses.replace(self.tools["run"], description=FRESH)
            if self.library is not None and any(task.data["kind"] == "checks" for task in self.library.tasks):
                raise BadConfig(
                    f"backend {self.backend!r} has no Python that keeps its variables, which checks of a file need"
                )
        totals = [task.data["total"] for task in self.library.tasks if "total" in task.data] if self.library else []
        self.step_seconds = max(self.step_seconds, max(totals, default=0.0) + BESIDE_TESTS * bool(totals))
        if self.verify and self.library is not None:
            verify(self.library, self._tried)

    # Tasks

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        """Draw a task of one of the families, of any split."""
        return self._drawn(rng, difficulty, lambda _: True)

    def _drawn(self, rng: np.random.Generator, difficulty: int, accepts: Callable[[ProgramSpec], bool]) -> Task:
        names = self.families or FAMILIES
        kind_of_task = family(names[int(rng.integers(len(names)))])
        draft = kind_of_task.draw(rng, difficulty, accepts)
        statement = draft.plan.statement()
        data = {
            "family": kind_of_task.name,
            "statement": statement,
            "kind": draft.plan.start.kind,
            "entry": draft.plan.entry,
            "public": draft.public,
            "hidden": draft.hidden,
            "compare": "exact",
            "tolerance": kind_of_task.tolerance,
            "reference": draft.plan.solution(),
            "wrong": draft.wrong,
        }
        return Task(instruction=statement, data=data, difficulty=difficulty)

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the task with this number: generated, or from the file, where numbers wrap around at the end."""
        split = self._split_for(number, split)
        if self.library is not None:
            tasks = self.library.of_split(split)
            return tasks[number % len(tasks)]
        difficulty = self.difficulty if difficulty is None else difficulty
        rng = generator("Code", split, difficulty, number)
        task = self._drawn(rng, difficulty, lambda plan: self._split_of(plan.statement(), plan.entry) == split)
        return dataclasses.replace(task, id=f"{split}/{difficulty}/{number}", split=split, difficulty=difficulty)

    def _split_of(self, statement: str, entry: str) -> str:
        return super().split_of(Task(data={"statement": statement, "entry": entry}))

    def find(self, task_id: str) -> Task:
        """Return the task with this id."""
        return super().find(task_id) if self.library is None else self.library.find(task_id)

    def size(self, split: str | None = None) -> int | None:
        """Return the number of the file's tasks in a split; None for generated tasks."""
        return None if self.library is None else len(self.library.of_split(split or self.split))

    def split_of(self, task: Task) -> str:
        """Return the split: for a generated task by the hash of `split_key`, for a task of a file as in the file."""
        return super().split_of(task) if self.library is None else task.split

    def split_key(self, task: Task) -> object:
        """Return the statement without the function's name."""
        return task.data["statement"].replace(f"`{task.data['entry']}(", "`(", 1)

    # The episode

    def begin(self, task: Task) -> str:
        if task.data.get("setup"):
            top_names(task.data["setup"], "the code of its tests", f"task {task.id}")
        self.cells: tuple[str, ...] = ()
        """Executed pieces of code, which may have changed the interpreter's state."""
        self.candidate = ""
        """Last executed code that defines the solution; `test` runs it."""
        self.passed = self.public = 0.0
        self.prepared = False
        """True if the interpreter already ran the task's opening code (`before`)."""
        lines = [task.data["statement"]]
        examples = [example(task.data, test) for test in task.data["public"][:EXAMPLES] if task.data["kind"] != "checks"]
        lines += ["Examples:", *examples] if examples else []
        return "\n".join([*lines, self._asks(task)])

    def _asks(self, task: Task) -> str:
        count = len(task.data["public"])
        return (
            f"Try code with run, check your last version with test (public tests: {count}), then submit the complete code. "
            "You can submit only once; hidden tests decide whether it is correct."
        )

    def briefing(self) -> str:
        task = self.task.data
        examples = [example(task, test) for test in task["public"][:EXAMPLES] if task["kind"] != "checks"]
        asks = f"Write the complete code, including imports, to the file {LEFT} in the current folder. Hidden tests decide."
        return "\n".join([task["statement"], *(["Examples:", *examples] if examples else []), asks])

    def lend(self, work: Callable[[ExternalAccess], None]) -> None:
        work(ExternalAccess(self.sandbox, SAME, HOME))
        self._keep()

    def solution_commands(self) -> Sequence[str]:
        if not self.task.data["reference"]:
            raise NotImplementedError(f"task {self.task.id} of the file has no reference solution")
        return [f"printf %s {shlex.quote(self.task.data['reference'])} > {LEFT}"]

    def handing_in(self) -> str:
        """Return the action that submits an external agent's file `LEFT`, or empty code if the file is unreadable."""
        try:
            return spell("submit", self.read(LEFT).decode())
        except (OSError, UnicodeDecodeError):
            return spell("submit", "")

    @tool
    def run(self, code: str) -> str | Outcome:  # pyright: ignore[reportIncompatibleMethodOverride]  # no shell in this environment
        """Run Python code; variables, functions and files persist between runs. Returns the output or the error."""
        if not code.strip():
            return self.invalid("the code is empty. Write Python, for example run[print(1 + 1)].")
        error = syntax_error(code)
        if error and self.backend in SAME_PYTHON:
            return error  # nothing was run
        self.cells = (*self.cells, code)
        if self.task.data["kind"] == "program" or defines(code, self.task.data["entry"]):
            self.candidate = code
        return run_text(self._computed(code), self.limits.timeout) or "(no output)"

    def _computed(self, code: str) -> Result:
        """Run code in the interpreter, after the task's opening code (`before`)."""
        data = self.task.data
        before = "" if data["kind"] == "checks" else data.get("before", "")
        if before and self.backend in NO_KERNEL:
            return self.compute(whole(data, code))
        if before and not self.prepared:  # only once, or it would overwrite the agent's names
            self.compute(before)
        result = self.compute(code)
        self.prepared = result.reason in ("exit", "timeout")
        return result

    @tool
    def test(self) -> str | Outcome:
        """Run the public tests in a fresh Python process, on the code you last ran that defines the solution."""
        if not self.candidate:
            what = self.task.data["entry"]
            return self.invalid(
                f"there is no code to test yet: run the complete code that defines {what} in one call, then call test."
            )
        if not self.task.data["public"]:
            return self.invalid("this task has no public tests: try the code with run, then submit it.")
        tried = self._try(self.candidate, "public")
        self.public = sum(result.passed for result in tried) / len(tried)
        return self._report(tried)

    @tool
    def submit(self, code: str) -> Outcome:
        """Submit the complete code, including imports. Hidden tests decide the result, and the episode ends."""
        if not code.strip():
            return self.invalid("the code is empty. Submit the complete code of the solution.")
        problem = self._problem(code)
        if problem:
            return self.invalid(f"{problem}Nothing was submitted.")
        tried = self._try(code, "hidden")
        count = sum(result.passed for result in tried)
        self.passed = count / len(tried)
        if count == len(tried):
            return self.win(f"All {count} hidden tests pass.")
        return self.lose(f"{count} of {len(tried)} hidden tests pass.")

    def _problem(self, code: str) -> str:
        """Return the reason to refuse a submission, a syntax error or a missing definition; empty if there is none."""
        code = whole(self.task.data, code)
        error = syntax_error(code) if self.backend in SAME_PYTHON else ""
        if error:
            return f"the code is not valid Python:\n{error}\n"
        entry = self.task.data["entry"]
        return "" if self.task.data["kind"] == "program" or defines(code, entry) else f"the code does not define {entry}. "

    def _try(self, code: str, which: str) -> list[CaseResult]:
        return self._tried(self.task, code, which)

    def _tried(self, task: Task, code: str, which: str) -> list[CaseResult]:
        """Run the tests `which` (`public` or `hidden`) of a task in a fresh sandbox and return their results."""
        data, seconds = task.data, task.data.get("seconds", self.seconds)
        code = whole(data, code)
        if data["kind"] == "checks":
            checks = Checks(data["names"], data[which], data["before"], data["setup"], seconds, derive(task.id))
            return self.elsewhere(lambda theirs: self.elsewhere(lambda ours: run_checks(theirs, ours, code, checks)))
        tests = CodeTests(
            data["kind"], data["entry"], data[which], data["compare"], data["tolerance"], seconds, data.get("total")
        )
        return self.elsewhere(lambda sandbox: run_tests(sandbox, code, tests))

    def _report(self, tried: list[CaseResult]) -> str:
        failing = [number for number, result in enumerate(tried) if not result.passed]
        lines = [f"{len(tried) - len(failing)} of {len(tried)} public tests pass."]
        for number in failing[:FAILURES]:
            lines += [expected(self.task.data, number), f"  got:      {cut(tried[number].got, LONGEST_VALUE)}"]
        return "\n".join(lines)

    def state(self) -> object:
        return self.cells, self.candidate, self.passed, self.public

    def measures(self) -> dict[str, float]:
        return {"passed": self.passed, "public": self.public}

    # Policies

    def oracle(self) -> Iterator[str]:
        """Submit the reference solution, if the task has one."""
        if not self.task.data["reference"]:
            raise NotImplementedError(f"task {self.task.id} of the file has no reference solution")
        yield spell("submit", self.task.data["reference"])

    def expert(self) -> Iterator[str]:
        """Parse the statement with the families' sentences; run its solution on an example, test it, and submit it.

        In the last turn, submit at once.
        """
        plan = read(self.task.data["statement"])
        if plan is None:
            raise NotImplementedError("the expert reads statements of generated families only; for files use oracle()")
        solution = plan.solution()
        example_call = call(self.task.data, self.task.data["public"][0][0])  # the first example in the statement
        if self.limit - self.turn > 1 and self.candidate != (tried := f"{solution}\n{example_call}"):
            yield spell("run", tried)
        if self.limit - self.turn > 1 and self.public < 1:
            yield spell("test")
        yield spell("submit", solution)

    ballot_tool = "submit"

    def ballot(self, code: str) -> str | None:
        """Return the code's results on variants of the public inputs, so that equivalent solutions give equal ballots.

        For a class, the public inputs themselves are used. None if the code is invalid or fails a public test, or if the
        task has no public tests or is graded by checks.
        """
        data = self.task.data
        if data["kind"] == "checks" or not data["public"] or self._problem(code):
            return None
        if not all(result.passed for result in self._try(code, "public")):
            return None
        inputs = [pair[0] for pair in data["public"]]
        if data["kind"] != "class":
            inputs = variants(inputs, data["kind"], generator("variants", self.task.id))
        seconds = data.get("seconds", self.seconds)
        tests = CodeTests(data["kind"], data["entry"], [[each, None] for each in inputs], seconds=seconds)
        return "\n".join(result.got for result in self.elsewhere(lambda own: run_tests(own, whole(data, code), tests)))

    def hint(self, level: float) -> str:
        """Return hints that grow with `level` (0 to 1): a plan, a signature, a test case; at 1, the reference solution."""
        reference = self.task.data["reference"]
        return guidance(
            hints.steps(self.task.data), level, lambda: f"A solution:\n{reference}" if reference else "", [reference]
        )

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        return shortcuts.shortcuts()
