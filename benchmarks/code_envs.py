"""`rlvr/Code-v0` without a sandbox for first_training.py and hints.py: functions on bits, interpreted in this process.

A sandbox takes 0.13 to 0.36 s for a submission, which is longer than its tokens take. Functions of the family `bits` need
few kinds of expressions; any other program fails. `python benchmarks/code_envs.py` compares the verdicts with those of
sandboxes.
"""

import ast
import operator
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import agentgym
from agentgym.core.actions import spell
from agentgym.core.env import Task, TextEnv
from agentgym.core.seeding import generator
from agentgym.envs.code.env import Code
from agentgym.envs.code.families import read
from agentgym.envs.code.families.bits import ENDS, RULES
from agentgym.envs.code.families.family import Rule, filled
from agentgym.envs.code.grading.compare import same
from agentgym.envs.code.grading.tests import CaseResult
from agentgym.envs.code.hints import steps
from agentgym.registry import register
from agentgym.rewards.programs.syntax import parse
from agentgym.rewards.programs.values import NotData, pack, unpack

STEPS, BITS, LENGTH, RANGE = 3000, 128, 200, 64
"""Most evaluated expressions of a call, bits of a number, characters or items of a value, and items of a range."""


HINTED, LEVELS = 0.9, (0.5, 0.95)
"""Share of the demonstrations of `ShownBits` with a hint, and the range of its level."""


def _format(number: int, text: str) -> str:
    if type(number) is not int or not re.fullmatch(r"0?\d{0,2}b", text):
        raise TypeError("format")
    return format(number, text)


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > RANGE:
        raise OverflowError("range")
    return numbers


def _plain(value: Any) -> int | str:
    if not isinstance(value, int | str):  # lists of lists could be small here and huge when written out
        raise TypeError("a number or text")
    return value


_BINARY: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_UNARY: dict[type, Callable[[int], int]] = {ast.Invert: operator.invert, ast.USub: operator.neg}
_CALLS: dict[str, Callable[..., Any]] = {
    "bin": bin, "int": int, "sum": sum, "max": max, "len": len, "reversed": reversed, "enumerate": enumerate,
    "format": _format, "range": _range,
}  # fmt: skip
_FAILURES = (
    LookupError, TypeError, ValueError, ArithmeticError, AttributeError, SyntaxError, RecursionError, MemoryError, NotData,
)  # fmt: skip


class _Call:
    """One call of a function on bits."""

    def __init__(self) -> None:
        self.left = STEPS

    def value(self, node: ast.AST | None, names: dict[str, Any]) -> Any:
        """Return the value of an expression; numbers and texts are bounded."""
        self.left -= 1
        value = self._value(node, names)
        long = isinstance(value, str | list) and len(value) > LENGTH
        if self.left < 0 or long or (isinstance(value, int) and value.bit_length() > BITS):
            raise OverflowError("too much")
        return value

    def _value(self, node: ast.AST | None, names: dict[str, Any]) -> Any:
        match node:
            case ast.Constant(value=int() | str() as constant):
                return constant
            case ast.Name(id=name):
                return names[name]
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self.value(left, names), self.value(right, names)
                if not isinstance(a, int) or not isinstance(b, int) or (isinstance(op, ast.LShift) and b > BITS):
                    raise TypeError("numbers")
                return _BINARY[type(op)](a, b)
            case ast.UnaryOp(op=op, operand=operand):
                return _UNARY[type(op)](self.value(operand, names))
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                return self.value(left, names) == self.value(right, names)
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.value(body if self.value(test, names) else other, names)
            case ast.ListComp():
                return self.items(node, names)
            case ast.Subscript(value=whole, slice=ast.Slice(lower=lower, upper=upper, step=step)):
                bounds = [None if bound is None else self.value(bound, names) for bound in (lower, upper, step)]
                return self.value(whole, names)[slice(*bounds)]
            case ast.JoinedStr(values=parts):
                return "".join(str(self.value(part, names)) for part in parts)
            case ast.FormattedValue(value=part, conversion=-1, format_spec=None):
                return _plain(self.value(part, names))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name not in names:
                return _CALLS[name](*self.arguments(args, names))
            case ast.Call(func=ast.Attribute(value=text, attr="split" | "count" as name), args=args, keywords=[]):
                return getattr(str, name)(self.value(text, names), *self.arguments(args, names))
            case _:
                raise TypeError(type(node).__name__)

    def arguments(self, args: list[ast.expr], names: dict[str, Any]) -> list[Any]:
        """Return the arguments of a call."""
        return [self.items(a, names) if isinstance(a, ast.GeneratorExp) else self.value(a, names) for a in args]

    def items(self, node: ast.ListComp | ast.GeneratorExp, names: dict[str, Any]) -> list[Any]:
        """Return the items of a comprehension with one loop."""
        (loop,), found = node.generators, list[Any]()
        if loop.is_async:
            raise TypeError("async")
        targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
        for item in self.value(loop.iter, names):
            items = item if isinstance(loop.target, ast.Tuple) else [item]
            inner = {**names, **{target.id: each for target, each in zip(targets, items, strict=True)}}  # pyright: ignore
            if all(self.value(test, inner) for test in loop.ifs):
                found.append(_plain(self.value(node.elt, inner)))
        return found


def result_of(code: str, entry: str, arguments: list[Any]) -> Any:
    """Return the packed result of a function of assignments and `return`.

    Raises:
        TypeError: the program is anything else; a program may also raise any other of `_FAILURES`.
    """
    match parse(code).body:
        case [ast.FunctionDef(name=name, args=parameters, body=body, decorator_list=[], returns=None)] if name == entry:
            names = dict(zip([each.arg for each in parameters.args], arguments, strict=True))
            if ast.unparse(parameters) != ", ".join(names):
                raise TypeError("arguments")
        case _:
            raise TypeError("one function")
    call = _Call()
    for line in body:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=node):
                names[name] = call.value(node, names)
            case ast.Return(value=node):
                return pack(call.value(node, names))
            case _:
                raise TypeError(type(line).__name__)
    return None


class Bits(Code):
    """Write a function on bits in one turn; it is interpreted in this process."""

    horizon = 1
    blocking = False
    families = ("bits",)

    def requires(self) -> None:
        """Require nothing: there is no sandbox."""
        TextEnv.requires(self)

    def _tried(self, task: Task, code: str, which: str) -> list[CaseResult]:
        """Return the results of the tests `which`."""
        results: list[CaseResult] = []
        for arguments, expected in task.data[which]:
            try:
                with warnings.catch_warnings(action="ignore"):
                    got = result_of(code, task.data["entry"], unpack(arguments))
                results.append(CaseResult(same(expected, got), str(got)))
            except _FAILURES as error:
                results.append(CaseResult(False, type(error).__name__))
        return results

    def mistake(self, rng: np.random.Generator) -> str:
        """Return the solution with another operation, drawn at random, in place of a step or of the result."""
        plan = read(self.task.data["statement"])
        assert plan is not None, "the statement is generated"
        place = 1 + int(rng.integers(len(plan.parts) - 1))
        rules: tuple[Rule, ...] = RULES if place <= len(plan.steps) else ENDS
        rule = rules[int(rng.integers(len(rules)))]
        values = {name: slot(rng, self.difficulty) for name, slot in rule.slots.items()}
        return spell("submit", plan.solution({place: filled(rule.code, values)}))


class ShownBits(Bits):
    """The same with a hint in most tasks, in the words that training shows: what the demonstrations are of.

    A demonstration with a hint makes no mistake that the hint rules out.
    """

    def hint_level(self, task: Task) -> float:
        """Return the level of the hint in a task; 0: none."""
        rng = generator("hints shown", task.id)
        return float(rng.uniform(*LEVELS)) if rng.random() < HINTED else 0.0

    def begin(self, task: Task) -> str:
        text, level = super().begin(task), self.hint_level(task)
        return f"{text}\n\nHint: {self.hint(level)}" if level else text

    def plan(self, code: str) -> str:
        """Return the first part of a hint, which describes the code of a solution."""
        return steps({**self.task.data, "reference": code})[0]

    def mistake(self, rng: np.random.Generator) -> str | None:
        """Return a solution with another operation; None if the hint rules it out."""
        wrong = super().mistake(rng)
        same_plan = self.plan(wrong.removeprefix("submit[").removesuffix("]")) == self.plan(self.task.data["reference"])
        return wrong if same_plan or not self.hint_level(self.task) else None


register("bits/ShownBits-v0", ShownBits, description="for benchmarks/hints.py")
register("bits/Bits-v0", Bits, description="for benchmarks/first_training.py and benchmarks/hints.py")


def agreement(submissions: list[tuple[str, str]]) -> dict[str, int]:
    """Return how many submissions, each with its task, succeed in a sandbox, and for how many the verdict here differs."""
    here = agentgym.make("bits/Bits-v0", difficulty=0).unwrapped
    there = agentgym.make("rlvr/Code-v0", difficulty=0, families=("bits",), horizon=1).unwrapped
    assert isinstance(here, Bits)
    passed = different = 0
    for task, action in submissions:
        verdicts: list[bool] = []
        for env in (here, there):
            env.reset(options={"task": here.find(task)})
            verdicts.append(env.step(action)[4]["success"] is True)
        passed += verdicts[1]
        different += verdicts[0] != verdicts[1]
    there.close()
    return {"submissions": len(submissions), "passed": passed, "different": different}


def main() -> None:
    """Compare the verdicts about reference solutions, the family's mistakes, and those of demonstrations."""
    env = agentgym.make("bits/Bits-v0", difficulty=0).unwrapped
    assert isinstance(env, Bits)
    kinds: dict[str, list[tuple[str, str]]] = {"reference": [], "family": [], "demonstration": []}
    for number in range(100):
        task, rng = env.numbered(number, "train"), generator("agreement", number)
        env.reset(options={"task": task})
        plan = read(task.data["statement"])
        assert plan is not None
        mistakes = plan.mistakes()
        kinds["reference"].append((task.id, spell("submit", task.data["reference"])))
        kinds["family"].append((task.id, spell("submit", mistakes[int(rng.integers(len(mistakes)))])))
        kinds["demonstration"].append((task.id, env.mistake(rng)))
    for kind, submissions in kinds.items():
        print(kind, agreement(submissions), flush=True)


if __name__ == "__main__":
    main()
