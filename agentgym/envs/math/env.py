"""The environment: a problem, a Python interpreter, and one answer."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from agentgym.core.actions import spell, tool
from agentgym.core.attempts import Attempts
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task
from agentgym.core.hints import first_share, guidance, solution
from agentgym.envs.math import expert, hints, shortcuts
from agentgym.envs.math.families import FAMILIES, NUMBERS, draw
from agentgym.envs.math.files import load
from agentgym.errors import BadConfig, MissingExtra, UnknownName, how_to_install, no_such
from agentgym.rewards import expressions
from agentgym.rewards.numeric import read_number
from agentgym.sandbox.env import SandboxEnv
from agentgym.sandbox.protocol import MEGABYTE, NO_KERNEL, ExitReason, Limits
from agentgym.tasks.columns import choose
from agentgym.tasks.library import Library
from agentgym.tasks.reading import reading

LONGEST_CODE = 20_000  # characters
LONGEST_OUTPUT = 4000  # characters shown of a program's output
_FORMS = {
    "number": "Answer with one number and nothing else: an integer, a fraction a/b, or a decimal.",
    "expression": "Answer with one expression and nothing else, written plainly or in LaTeX.",
    "choice": "Answer with one of the choices and nothing else: {choices}.",
}


class Math(Attempts, SandboxEnv):
    """Solve a math problem, using a Python interpreter.

    By default, problems come from 19 generated families (`agentgym.envs.math.families`) and have exact answers. Difficulty
    adds steps, unknowns, terms, factors or size, without bound. `data` names problems in GSM8K's or MATH's format: a file, a
    folder of files, or a dataset (`agentgym.envs.math.files`).

    Reward: 1 for a right answer, else 0: numbers are compared exactly, decimals within a relative 1e-6, expressions by
    math-verify. An answer that is not a single value ("5 or 6") only costs a turn.

    Ceilings: the shortcut policy `most_frequent` recognizes the family by its words and gives the family's most frequent
    answer. It is right on less than 1 % of the problems at difficulty 0, and on fewer at higher difficulties.
    """

    horizon = 12
    hardest = 1000
    difficulty = 1
    task_settings: ClassVar[tuple[str, ...]] = ("families", "seconds", "strict", "ignore")
    caller_settings: ClassVar[tuple[str, ...]] = ("data", "packages")
    settings: ClassVar[tuple[str, ...]] = (*SandboxEnv.settings, *Attempts.settings, *caller_settings, *task_settings)
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"tiny": {"difficulty": 0}, "numbers": {"families": NUMBERS}}
    data: str | None = None
    """A file, a folder, or a dataset's name; None: generated problems."""
    families: Sequence[str] = ()
    """Generated families to draw from; empty: all. The preset `numbers` has the families that need no extra."""
    packages: tuple[str, ...] = ()
    """Libraries preloaded in the interpreter, for example `("sympy", "mpmath")`."""
    seconds: float = 5.0
    """Wall-clock limit per program, in seconds."""
    strict: bool = False
    """Refuse a file that has a bad row; by default bad rows are skipped, and a warning counts them."""
    ignore: Sequence[str] = ()
    """Columns to ignore; a file with text in any other unknown column is refused."""
    limits = Limits(timeout=5.0, memory=512 * MEGABYTE, processes=16, disk=16 * MEGABYTE)
    declared = Declarations(random_bound=0.01, expert_bound=0.99, answers=("answer",), ceilings={"most_frequent": 0.01})

    def check_options(self) -> None:
        self.families = (self.families,) if isinstance(self.families, str) else tuple(self.families)
        self.packages = (self.packages,) if isinstance(self.packages, str) else tuple(self.packages)
        for name in self.families:
            if name not in FAMILIES:
                raise UnknownName(no_such("family of Math", name, FAMILIES))
        if self.data is not None and self.families:
            raise BadConfig("data (a file) and families (generated) were both given; give one of them")
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float) or not 0 < self.seconds <= 600:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadConfig(f"seconds of Math is {self.seconds!r}; expected a number above 0, at most 600")
        self.collection: Library | None = None if self.data is None else load(self.data, reading(self.strict, self.ignore))
        if self.collection is not None:
            self.splits = self.collection.splits
        super().check_options()

    def setup(self) -> None:
        super().setup()
        if self.backend in NO_KERNEL:
            raise BadConfig(
                f"backend {self.backend!r} has no Python that keeps its variables, which this environment promises"
            )
        if not expressions.installed():
            self._refuse_expressions()

    def _refuse_expressions(self) -> None:
        """Refuse tasks with expressions as answers if expressions cannot be checked.

        Raises:
            MissingExtra: answers are expressions, and math-verify is not installed.
        """
        if self.collection is not None:
            wanting = sum(task.data["form"] == "expression" for task in self.collection.tasks)
            what = f"{wanting} of {len(self.collection.tasks)} answers in {self.data} are expressions" if wanting else ""
        else:
            names = [name for name in self.families or FAMILIES if FAMILIES[name].expression]
            what = f"answers of {' and '.join(names)} are expressions" if names else ""
        if what:
            raise MissingExtra(f"{what}: {how_to_install('math')}, or leave them out with preset='numbers'")

    # Tasks

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        """Draw a problem from one of the chosen families."""
        names = tuple(self.families) or tuple(FAMILIES)
        name = names[int(rng.integers(len(names)))]
        problem = draw(name, rng, difficulty)
        form = "expression" if FAMILIES[name].expression else "number"
        return Task(problem.text, {"problem": problem.text, "answer": problem.answer, "form": form, "family": name})

    def split_of(self, task: Task) -> str:
        """Return the split of a generated problem by its hash, or the split that the reader assigned to a file's problem."""
        return super().split_of(task) if self.collection is None else task.split

    def split_key(self, task: Task) -> object:
        """Return the problem's text."""
        return task.data["problem"]

    def content_key(self, task: Task) -> object:
        """Return the words of the problem's text in lower case, so that spacing and case make no difference."""
        return task.data["problem"].casefold().split()

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the task of a split with this number. Numbers beyond the end of a file wrap around.

        Raises:
            BadConfig: the number is negative.
        """
        if self.collection is None:
            return super().numbered(number, split, difficulty)
        if number < 0:
            raise BadConfig(f"task number {number} of Math: numbers start at 0")
        tasks = self.collection.of_split(split or self.split)
        return tasks[number % len(tasks)]

    def find(self, task_id: str) -> Task:
        """Return the task with this id."""
        return super().find(task_id) if self.collection is None else self.collection.find(task_id)

    def size(self, split: str | None = None) -> int | None:
        """Return the number of problems in a split of the file, by default in `self.split`; None for generated problems."""
        return None if self.collection is None else len(self.collection.of_split(split or self.split))

    # The episode

    def begin(self, task: Task) -> str:
        self._programs: tuple[str, ...] = ()
        self._last: tuple[str, str] | None = None
        rules = f"You may run Python; you see what it prints. {self._form()}"
        return f"{task.data['problem']}\n\n{rules}"

    def _form(self) -> str:
        return _FORMS[self.task.data["form"]].format(choices=", ".join(self.task.data.get("choices", ())))

    @tool
    def python(self, code: str) -> str | Outcome:
        """Run Python. Shows what it prints and the value of a final expression. Variables persist."""
        if not code.strip():
            return self.invalid("the code is empty. Write some, for example python[print(2**10)].")
        if len(code) > LONGEST_CODE:
            return self.invalid(
                f"the code has {len(code)} characters; at most {LONGEST_CODE} are run. Split it into smaller pieces."
            )
        result = self.compute(code, float(self.seconds))
        alive = self._kernel is not None and self._kernel.alive
        self._programs = (*self._programs, hashlib.blake2b(code.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest())
        text = _middle_cut(result.text.strip("\n"), LONGEST_OUTPUT)
        self._last = code, text
        if result.reason == ExitReason.EXIT:
            return text or "Nothing was printed. Print what you want to see."
        why = {
            "timeout": f"It was stopped after {self.seconds:g} seconds.",
            "memory": "It was stopped: it used too much memory.",
            "output": "It was stopped: it printed too much.",
        }.get(result.reason, "It ended Python.")
        return "\n".join(part for part in (text, why + ("" if alive else " Its variables are lost.")) if part)

    @tool
    def answer(self, text: str) -> Outcome:
        """Give the final answer: one value, with no words around it."""
        if not text.strip():
            return self.invalid("the answer is empty. Write one value, for example answer[a/b].")
        data = self.task.data
        choice = data["form"] == "choice"
        right = choose(text, data["choices"], data["answer"]) if choice else expressions.verify(text, data["answer"])
        if right is None:
            excerpt = text if len(text) <= 60 else f"{text[:57]}..."
            return self.invalid(f"{excerpt!r} cannot be read as one value. {self._form()}")
        return self.judged(text, right)

    def state(self) -> object:
        return self._programs, self.attempts_state()

    # Policies

    def oracle(self) -> Iterator[str]:
        """Yield the action that gives the answer."""
        yield spell("answer", self.task.data["answer"])

    def expert(self) -> Iterator[str]:
        """Yield actions that compute with the tool and answer with its output; only for generated problems."""
        if self.collection is not None:
            raise NotImplementedError("the expert reads generated problems only; for files use oracle()")
        program = expert.program(self.task.data["problem"])
        while True:
            known = self._last is not None and self._last[0] == program
            yield expert.answer(self._last[1]) if known and self._last else spell("python", program)

    def ballot(self, answer: str) -> str | None:
        """Return the key under which majority voting counts an answer: its exact number, else its words in lower case."""
        number = read_number(answer)
        return " ".join(answer.casefold().split()) if number is None else str(number.value)

    def hint(self, level: float) -> str:
        """Return the first share `level`, from 0 to 1, of a plan and the expert's program, or of a file's solution."""
        data = self.task.data
        return guidance(hints.steps(data), level, lambda: first_share(solution(self), 1), [data["answer"]])

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        return shortcuts.shortcuts()


def _middle_cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters are not shown …\n{text[-half:]}"
