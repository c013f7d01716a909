"""Families of programming tasks: random combinations of sentences and the code they describe."""

import ast
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from string import Template
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from agentgym.errors import BadConfig
from agentgym.rewards.programs.values import NotData, pack, respond, sorted_through, unpack

T = TypeVar("T")
Rng = np.random.Generator
Slot = Callable[[Rng, int], object]
"""Function that draws the value of a slot, given a random generator and a difficulty."""
Draw = Callable[[Rng, int, "ProgramSpec"], list[object]]
"""Function that draws an input, given a random generator, a difficulty and the task's specification."""
PUBLIC, HIDDEN = 3, 16
"""Number of public and of hidden tests per task."""
TRIED = 12
"""Maximum number of wrong solutions tried per task."""
MOST_WRONG = 3
"""Maximum number of wrong solutions stored with a task: those that pass the most hidden tests."""
DRAWS = 1000
"""Maximum number of specifications drawn to find one that the caller of `ProgramFamily.draw` accepts."""
PATIENCE = 5
"""Number of failed specifications after which the number of steps drops by one; for the first drop, twice as many."""
LIVELY = 3
"""Minimum number of distinct results of the hidden tests; two suffice if all results are True or False."""


@dataclass(frozen=True)
class Rule:
    """A sentence and the code that it describes; both may contain slots such as `$n`."""

    says: str
    code: str
    slips: tuple[str, ...] = ()
    """Plausible but wrong versions of the code."""
    slots: Mapping[str, Slot] = field(default_factory=dict[str, Slot])
    takes: str = ""
    """Required type of the current value; empty in families with a single type."""
    gives: str | None = None
    """Type of the value after the code; None: unchanged."""
    once: bool = False
    key: str = ""
    """Rules with the same nonempty key exclude each other."""


@dataclass(frozen=True)
class Frame:
    """Description of a solution's input, and the solution's opening code."""

    says: str
    arguments: str
    draw: "Draw"
    """Function that draws an input: a list of arguments, or [constructor arguments, method calls] for a class."""
    opening: str = ""
    slips: tuple[str, ...] = ()
    slots: Mapping[str, Slot] = field(default_factory=dict[str, Slot])
    gives: str = ""
    indent: int = 0
    """Number of levels by which the rules' code is indented below the opening code."""
    asks: str = "Apply these steps in order:"
    kind: str = "function"

    @property
    def code(self) -> str:
        """The opening code of the solution."""
        return self.opening


@dataclass(frozen=True)
class Part:
    """A frame, a rule or an end with its slots filled."""

    of: "Rule | Frame"
    values: Mapping[str, Any]

    @property
    def says(self) -> str:
        """The sentence with its slots filled."""
        return filled(self.of.says, self.values)

    @property
    def code(self) -> str:
        """The code with its slots filled."""
        return filled(self.of.code, self.values)

    @property
    def slips(self) -> list[str]:
        """Wrong versions of the code, with their slots filled."""
        return [filled(slip, self.values) for slip in self.of.slips]


@dataclass(frozen=True)
class ProgramSpec:
    """Specification of a task: a frame, steps, and an end, each a sentence with its code."""

    entry: str
    frame: Part
    steps: tuple[Part, ...]
    end: Part | None

    @property
    def parts(self) -> tuple[Part, ...]:
        """Frame, steps and end, in order."""
        return (self.frame, *self.steps, *([self.end] if self.end else []))

    @property
    def start(self) -> Frame:
        """The frame with unfilled slots."""
        assert isinstance(self.frame.of, Frame)
        return self.frame.of

    def statement(self) -> str:
        """Return the task's text."""
        frame = self.start
        what = "class" if frame.kind == "class" else "function"
        lines = [f"Write a {what} `{self.entry}({frame.arguments})`. {self.frame.says}"]
        if self.steps:
            lines += [frame.asks, *(f"{number}. {step.says}" for number, step in enumerate(self.steps, 1))]
        return "\n".join([*lines, *([f"Return {self.end.says}"] if self.end else [])])

    def solution(self, instead: Mapping[int, str] = MappingProxyType({})) -> str:
        """Return the solution's code; `instead` maps indices of `parts` to replacement code."""
        frame = self.start
        head = f"class {self.entry}:" if frame.kind == "class" else f"def {self.entry}({frame.arguments}):"
        body: list[str] = []
        for number, part in enumerate(self.parts):
            code = instead.get(number, part.code)
            deeper = 0 < number <= len(self.steps)
            body.append(textwrap.indent(code, "    " * (1 + (frame.indent if deeper else 0))))
        return "\n".join([head, *(block for block in body if block.strip())]) + "\n"

    def mistakes(self) -> list[str]:
        """Return plausible but wrong solutions; some may happen to be equivalent to the correct one."""
        wrong = [self.solution({number: slip}) for number, part in enumerate(self.parts) for slip in part.slips]
        if self.start.kind == "function" and not self.start.indent:
            type_preserving = [isinstance(step.of, Rule) and step.of.gives is None for step in self.steps]
            for i in (i for i, same in enumerate(type_preserving) if same):
                wrong.append(replace(self, steps=self.steps[:i] + self.steps[i + 1 :]).solution())
            for i in (i for i, both in enumerate(pairwise(type_preserving)) if all(both)):
                this_step, next_step = self.steps[i : i + 2]
                wrong.append(replace(self, steps=(*self.steps[:i], next_step, this_step, *self.steps[i + 2 :])).solution())
        return list(dict.fromkeys(wrong))


@dataclass(frozen=True)
class Draft:
    """A generated task; tests are [packed input, packed result] pairs (see `agentgym.rewards.programs.values`)."""

    plan: ProgramSpec
    public: list[Any]
    hidden: list[Any]
    wrong: list[str]


@dataclass(frozen=True)
class ProgramFamily:
    """Generator of tasks of one kind: a frame, some rules, and an end that says what to return."""

    name: str
    frames: Sequence[Frame]
    rules: Sequence[Rule]
    ends: Sequence[Rule] = ()
    tolerance: float = 0.0
    names: Sequence[str] = ("solve", "compute", "process", "handle")
    fewest: int = 1
    _patterns: dict[str, re.Pattern[str]] = field(default_factory=dict[str, "re.Pattern[str]"], repr=False)

    def draw(self, rng: Rng, difficulty: int, accepts: Callable[[ProgramSpec], bool] = lambda _: True) -> Draft:
        """Draw a task that `accepts` allows (default: any) and whose hidden tests reject at least two wrong solutions.

        Raises:
            BadConfig: no such task was found.
        """
        for attempt in range(PATIENCE * (difficulty + 40)):
            fewer = max(0, attempt // PATIENCE - 1)  # with too many steps, no task may pass
            plans = (self._plan(rng, difficulty, max(0, difficulty - fewer)) for _ in range(DRAWS))
            plan = next((plan for plan in plans if accepts(plan)), None)
            draft = plan and self._tested(plan, rng, difficulty)
            if draft:
                return draft
        raise BadConfig(f"family {self.name} has no such task at difficulty {difficulty}: raise it, or take more families")

    def _plan(self, rng: Rng, difficulty: int, more: int) -> ProgramSpec:
        """Return a random specification with `fewest` + `more` steps or one step more; fewer if no rule fits."""
        while True:
            frame = _pick(self.frames, rng)
            kind, steps = frame.gives, list[Part]()
            count = self.fewest + more + int(rng.integers(2))
            for _ in range(count):
                used = {
                    rule.key or rule.says for step in steps if isinstance(rule := step.of, Rule) and (rule.once or rule.key)
                }
                fit = [rule for rule in self.rules if rule.takes == kind and (rule.key or rule.says) not in used]
                if not fit:
                    break
                rule = _pick(fit, rng)
                steps.append(_part(rule, rng, difficulty))
                kind = kind if rule.gives is None else rule.gives
            ends = [rule for rule in self.ends if rule.takes == kind]
            if not ends and self.ends:
                continue
            end = _part(_pick(ends, rng), rng, difficulty) if ends else None
            entry = _pick(self.names, rng)
            return ProgramSpec(entry, _part(frame, rng, difficulty), tuple(steps), end)

    def _tested(self, plan: ProgramSpec, rng: Rng, difficulty: int) -> Draft | None:
        """Return a task with tests for a specification; None if the tests cannot distinguish right from wrong solutions."""
        kind, solution = plan.start.kind, plan.solution()
        cases: dict[str, list[Any]] = {}
        for _ in range(3 * (PUBLIC + HIDDEN)):
            arguments = pack(plan.start.draw(rng, difficulty, plan))
            result = outcome(solution, plan.entry, kind, arguments)
            if result is not None and len(repr(arguments)) + len(repr(result[0])) < 4000:
                cases.setdefault(repr(arguments), [arguments, result[0]])
            if len(cases) == PUBLIC + HIDDEN:
                break
        public, hidden = list(cases.values())[:PUBLIC], list(cases.values())[PUBLIC:]
        results = {repr(result) for _, result in hidden}
        if len(hidden) < HIDDEN or len(results) < (2 if results <= {"True", "False"} else LIVELY):
            return None
        if all(
            arguments and repr(result) == repr(arguments[0]) for arguments, result in hidden
        ):  # returning the argument would pass
            return None
        mistakes = plan.mistakes()
        sampled = [mistakes[int(i)] for i in rng.permutation(len(mistakes))[:TRIED]]
        passed = {code: passes(hidden, code, plan.entry, kind, self.tolerance) for code in sampled}
        wrong = sorted((code for code in passed if passed[code] < HIDDEN), key=lambda code: -passed[code])
        return Draft(plan, public, hidden, wrong[:MOST_WRONG]) if len(wrong) >= 2 else None

    def read(self, statement: str) -> ProgramSpec | None:
        """Return the specification of a statement, parsed by the family's sentences; None for any other text."""
        lines = statement.split("\n")
        head = re.fullmatch(r"Write a (?:function|class) `(\w+)\((.*?)\)`\. (.*)", lines[0])
        if head is None:
            return None
        for frame in self.frames:
            first = self._match([frame], head[3]) if frame.arguments == head[2] else None
            if first is None:
                continue
            steps = [self._match(self.rules, line.partition(". ")[2]) for line in lines if re.match(r"\d+\. ", line)]
            last = lines[-1].removeprefix("Return ") if lines[-1].startswith("Return ") else None
            end = self._match(self.ends, last) if last is not None else None
            plan = ProgramSpec(head[1], first, tuple(step for step in steps if step), end)
            if plan.statement() == statement:
                return plan
        return None

    def _match(self, rules: Sequence[Rule] | Sequence[Frame], sentence: str) -> Part | None:
        for rule in rules:
            if rule.says not in self._patterns:
                self._patterns[rule.says] = _pattern(rule.says)
            match = self._patterns[rule.says].fullmatch(sentence)
            if match:
                try:
                    part = Part(rule, {name: ast.literal_eval(text) for name, text in match.groupdict().items()})
                except (ValueError, SyntaxError):
                    continue
                if part.says == sentence:
                    return part
        return None


def typed(kind: str, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return copies of rules that require the type `kind` (`Rule.takes`)."""
    return tuple(replace(rule, takes=kind) for rule in rules)


def filled(text: str, values: Mapping[str, object]) -> str:
    """Return a template with each slot, such as `$n`, replaced by the `repr` of its value."""
    return Template(text).substitute({name: repr(value) for name, value in values.items()}) if "$" in text else text


def _pattern(says: str) -> re.Pattern[str]:
    pieces = re.split(r"\$\{?(\w+)\}?", says)
    seen: set[str] = set()
    text = ""
    for number, piece in enumerate(pieces):
        if number % 2 == 0:
            text += re.escape(piece)
        else:
            text += f"(?P={piece})" if piece in seen else f"(?P<{piece}>.+?)"
            seen.add(piece)
    return re.compile(text)


def outcome(code: str, entry: str, kind: str, arguments: object) -> list[object] | None:
    """Run trusted code on an input and return [packed result]; None if the code fails or the result is not plain data."""
    try:
        return [sorted_through(pack(respond(kind, made(code, entry), unpack(arguments))))]
    except (ArithmeticError, LookupError, ValueError, TypeError, AttributeError, RecursionError, NotData):
        return None


_made: dict[tuple[str, str], object] = {}


def made(code: str, entry: str) -> Any:
    """Execute trusted code and return the function or class `entry` that it defines; cached."""
    if (code, entry) not in _made:
        if len(_made) > 64:
            _made.clear()
        space: dict[str, object] = {}
        exec(compile(code, f"<{entry}>", "exec", dont_inherit=True), space)
        _made[code, entry] = space[entry]
    return _made[code, entry]


def passes(cases: list[Any], code: str, entry: str, kind: str, tolerance: float) -> int:
    """Return the number of cases that trusted code passes, with ten times the tolerance for floats."""
    results = [(expected, outcome(code, entry, kind, arguments)) for arguments, expected in cases]
    return sum(result is not None and _alike(expected, result[0], 10 * tolerance) for expected, result in results)


def _alike(left: Any, right: object, tolerance: float) -> bool:
    from agentgym.envs.code.grading.compare import same

    return same(left, right, tolerance)


def _part(rule: Rule | Frame, rng: Rng, difficulty: int) -> Part:
    return Part(rule, {name: slot(rng, difficulty) for name, slot in rule.slots.items()})


def _pick(items: Sequence[T], rng: Rng) -> T:
    return items[int(rng.integers(len(items)))]
