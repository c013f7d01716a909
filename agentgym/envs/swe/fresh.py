"""Tests of the issue with fresh inputs that occur nowhere in the task.

Each test file is rewritten several times with other literals; each rewritten file is a variant. The assertions in a variant
only report the values that they compare (`remote_tests`). The values reported with the clean code (the repository without
the bug) are the expected values.
"""

import ast
import random
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeGuard

from agentgym.core.seeding import derive
from agentgym.envs.swe.grading.alterations import like, visible
from agentgym.envs.swe.grading.remote_tests import ERROR, SEES
from agentgym.envs.swe.grading.two_sandboxes import Clock, RunOutcome, run_in_two_sandboxes
from agentgym.envs.swe.tasks import Instance
from agentgym.envs.swe.tasks.suite import function_of, importable
from agentgym.rewards.programs.syntax import parse
from agentgym.sandbox.protocol import Sandbox

VARIANTS = 16
"""Number of variants per test file in a batch, in addition to variant 0, which keeps the original values."""
BATCHES = 4
"""Maximum number of batches of variants; drawing stops once they reveal the bug in every test function."""
WHOLE = 5
"""Variants with `number % VARIANTS` below this also change the test file's constants and helper functions."""
RUNS = 4
"""Maximum runs of a batch; if a variant kills the code under test, the others run again without it."""
REMEMBERED = 1024
SECONDS = 30.0
"""Time limit of the clean code for all variants, in seconds; the broken code's limit follows from the clean code's time."""

Function = tuple[str, ...]
Telling = dict[Function, dict[str, dict[int, str]]]
"""Test function -> test -> position among the values that the test observes -> hash of the clean code's value."""
_known: OrderedDict[str, Telling] = OrderedDict()


def telling(instance: Instance, pair: tuple[Sandbox, Sandbox]) -> Telling:
    """Return the clean code's values at every position where fresh inputs reveal the bug; computed once per task.

    Functions without such a position are left out, and so are positions where the clean code raises an exception: a
    correct repair may behave differently there. A value that also occurs with a test's original inputs is left out unless
    there is no other value. A test is left out if a second run of the clean code gives other values.
    """
    key = f"{instance.repository.digest} {instance.id} {instance.bug}"
    values = _known.pop(key, None)  # another thread may remove it meanwhile
    if values is None:
        values = _found(instance, pair)
    _known[key] = values
    while len(_known) > REMEMBERED:
        _known.popitem(last=False)
    return values


def agrees(clean: Telling, seen: Mapping[str, list[str]]) -> bool:
    """Return True if at least 3/4 of the tests of each function observe the clean code's values."""
    for tests in clean.values():
        right = sum(_matches(expected, seen.get(test, [])) for test, expected in tests.items())
        if 4 * right < 3 * len(tests):
            return False
    return True


def _found(instance: Instance, pair: tuple[Sandbox, Sandbox]) -> Telling:
    functions = {function_of(test) for test in instance.fail_to_pass}
    clean, mutated = instance.graded(instance.base()), instance.graded(instance.mutated())
    clock, places = Clock(SECONDS), _Places(poor=functions)
    for first in range(1, BATCHES * VARIANTS, VARIANTS):
        numbers = (0, *range(first, first + VARIANTS))
        spent = clock.spent
        right, deadly = _seen(instance, clean, lambda: clock, pair, numbers)
        seconds = 5 * (clock.spent - spent) + 1  # the broken code may not terminate
        alive = [number for number in numbers if number not in deadly]
        wrong, _ = _seen(instance, mutated, lambda seconds=seconds: Clock(seconds), pair, alive)
        right = {test: values for test, values in right.items() if _original(test)[0] not in deadly}
        places = _telling(right, wrong) | places
        if functions <= {*places.values, *(places.poor & set(places.inputs))}:
            break
    informative = places.any | places.inputs | places.values
    return _repeated(informative, again(instance, clean, informative, Clock(SECONDS), pair).seen)


def _seen(
    instance: Instance,
    tree: Mapping[str, bytes],
    clock: Callable[[], Clock],
    pair: tuple[Sandbox, Sandbox],
    numbers: Iterable[int],
) -> tuple[dict[str, list[str]], set[int]]:
    """Return hashes of the values that each test observes, and the numbers of variants that killed the code under test."""
    seen: dict[str, list[str]] = {}
    deadly: set[int] = set()
    for _ in range(RUNS):
        ended = run(instance, tree, clock(), pair, [number for number in numbers if number not in deadly])
        tests = list(ended.seen)
        known = tests[: tests.index(ended.last) + 1] if ended.last else tests
        seen |= {test: ended.seen[test] for test in known}
        if not ended.last:
            break
        deadly.add(_original(ended.last)[0])
    return seen, deadly


def _repeated(right: Telling, seen: Mapping[str, list[str]]) -> Telling:
    """Return the entries of `right` that a second run of the clean code reproduces; `seen` has that run's values."""
    return {
        function: same
        for function, tests in right.items()
        if (same := {test: expected for test, expected in tests.items() if _matches(expected, seen.get(test, []))})
    }


def _matches(expected: Mapping[int, str], seen: list[str]) -> bool:
    return all(seen[at : at + 1] == [value] for at, value in expected.items())


@dataclass
class _Places:
    """Positions where the broken code differs from the clean code, from the least to the most conclusive."""

    any: Telling = field(default_factory=Telling)
    inputs: Telling = field(default_factory=Telling)
    """Differences with other parameters, or at a position where the original test observes another value."""
    values: Telling = field(default_factory=Telling)
    """Differences in a value that the original tests do not reveal, so a repair cannot have hard-coded it."""
    poor: set[Function] = field(default_factory=set[Function])
    """Functions that observe at most two distinct values over all inputs, such as True and False."""

    def __or__(self, more: "_Places") -> "_Places":
        return _Places(self.any | more.any, self.inputs | more.inputs, self.values | more.values, self.poor & more.poor)


def _telling(clean: Mapping[str, list[str]], broken: Mapping[str, list[str]]) -> _Places:
    """Return the positions where the broken code differs from the clean code.

    Tests that the broken code did not run are ignored, unless it ran no test at all.
    """
    by_function: dict[Function, dict[int, list[str]]] = {}
    for test in clean:
        if not broken or test in broken:
            number, function = _original(test)
            by_function.setdefault(function, {}).setdefault(number, []).append(test)
    places = _Places()
    for function, variants in by_function.items():
        differing = {test: _differing(clean[test], broken.get(test, [])) for tests in variants.values() for test in tests}
        quoted = {value for test in variants.get(0, []) for value in differing[test].values()}
        for number in sorted(set(variants) - {0}):
            for test, original in zip(variants[number], variants.get(0, []), strict=False):
                same = test.partition("[")[2] == original.partition("[")[2]  # the same parameters, judging by names
                before, everywhere = clean[original], differing[test]
                own_places = {at: value for at, value in everywhere.items() if not same or before[at : at + 1] != [value]}
                unquoted = {at: value for at, value in own_places.items() if value not in quoted}
                for telling, values in ((places.any, everywhere), (places.inputs, own_places), (places.values, unquoted)):
                    if values:
                        telling.setdefault(function, {})[test] = values
        if len({value for tests in variants.values() for test in tests for value in clean[test]} - {ERROR}) < 3:
            places.poor.add(function)
    return places


def _differing(right: list[str], wrong: list[str]) -> dict[int, str]:
    ended = len(wrong) - (ERROR in wrong)  # nothing is known of later values
    return {at: value for at, value in enumerate(right[: ended + 1]) if value not in (ERROR, *wrong[at : at + 1])}


def again(
    instance: Instance, tree: Mapping[str, bytes], expected: Telling, clock: Clock, pair: tuple[Sandbox, Sandbox]
) -> RunOutcome:
    """Run the variants in `expected` on a repaired repository and return the outcome."""
    return run(instance, tree, clock, pair, {_original(test)[0] for tests in expected.values() for test in tests})


def run(
    instance: Instance, tree: Mapping[str, bytes], clock: Clock, pair: tuple[Sandbox, Sandbox], numbers: Iterable[int]
) -> RunOutcome:
    """Run the given variants of the issue's tests on `tree` and return the outcome."""
    files = variants(instance, numbers)
    names, conftest = importable(instance.base()), instance.repository.conftest
    return run_in_two_sandboxes(*pair, {**tree, **files}, sorted(files), names, clock, conftest=conftest)


def _original(test: str) -> tuple[int, Function]:
    """Return a test's variant number and its original function."""
    path, *names = function_of(test)
    folder, slash, name = path.rpartition("/")
    number, _, name = name.removeprefix("test_with_").partition("_")
    return int(number), (f"{folder}{slash}{name}", *names)


def variants(instance: Instance, numbers: Iterable[int]) -> dict[str, bytes]:
    """Return the rewritten test files of each variant, path -> content; variant 0 keeps the original values."""
    functions: dict[str, set[Function]] = {}
    for test in instance.fail_to_pass:
        path, *names = function_of(test)
        functions.setdefault(path, set()).add(tuple(names))
    clean = instance.base()
    files: dict[str, bytes] = {}
    for path, names in functions.items():
        folder, slash, name = path.rpartition("/")
        for number in numbers:
            rng = random.Random(derive(instance.repository.digest, path, number))
            tree = parse(clean[path])
            _keep(tree, (), names)
            if number:
                _alter(tree, rng, bodies=number % 2 == 0, whole=number % VARIANTS < WHOLE)
            text = ast.unparse(ast.fix_missing_locations(_ObservationRecorder().visit(tree)))
            files[f"{folder}{slash}test_with_{number}_{name}"] = text.encode()
    return files


def _alter(tree: ast.Module, rng: random.Random, *, bodies: bool, whole: bool) -> None:
    choices: list[list[ast.Constant]] = []
    for part in ast.walk(tree):
        if isinstance(part, ast.FunctionDef) and part.name.startswith("test"):
            choices += _of_test(part, rng, bodies=bodies)
    for part in tree.body if whole else ():
        if isinstance(part, ast.FunctionDef) and not part.name.startswith("test"):
            choices.append([*visible(part.body)])
        elif isinstance(part, ast.Assign):
            choices.append([*visible([part.value])])
    alike: dict[type, list[Any]] = {}
    for node in chain(*choices):
        alike.setdefault(type(node.value), []).append(node.value)
    for nodes in filter(None, choices):
        node = rng.choice(nodes)
        node.value = like(node.value, alike, rng)


def _keep(parent: Any, names: Function, functions: set[Function]) -> None:
    """Remove the test functions that are not in `functions`; `names` are the enclosing classes."""
    statements: list[ast.stmt] = []
    for node in parent.body:
        if isinstance(node, ast.ClassDef):
            _keep(node, (*names, node.name), functions)
        if not (isinstance(node, ast.FunctionDef) and node.name.startswith("test") and (*names, node.name) not in functions):
            statements.append(node)
    parent.body = statements or [ast.Pass()]


def _of_test(test: ast.FunctionDef, rng: random.Random, *, bodies: bool) -> Iterator[list[ast.Constant]]:
    """Yield groups of a test's literals; the caller changes one literal per group.

    The groups come from at least half of the parameters of each case and, with `bodies` or without cases, from some
    statements.
    """
    marks = [item for item in test.decorator_list if _is_call_of(item, "parametrize") and len(item.args) > 1]
    for mark in marks:
        mark.keywords = [item for item in mark.keywords if item.arg != "ids"]
    cases = [(mark.args[0], case) for mark in marks for case in getattr(mark.args[1], "elts", ())]
    expecting = _expected_parameters(test)
    for names, case in cases:
        words = re.findall(r"\w+", ast.unparse(names))
        parts = case.elts if len(words) > 1 and isinstance(case, ast.Tuple | ast.List) else [case]
        parts = [part for word, part in zip(words, parts, strict=False) if word not in expecting]
        groups = [literals for part in parts if (literals := [*visible([part])])]
        yield from rng.sample(groups, rng.randint((len(groups) + 1) // 2, len(groups))) if groups else ()
    if bodies or not cases:
        groups = [literals for statement in test.body if (literals := [*visible([statement])])]
        yield from rng.sample(groups, rng.randint(1, len(groups))) if groups else ()


def _expected_parameters(test: ast.FunctionDef) -> set[str]:
    """Return the parameters that a test uses only as expected values."""
    parameters, used, expecting = {item.arg for item in test.args.args}, Counter[str](), Counter[str]()
    for node in ast.walk(ast.Module(test.body, [])):
        used.update(item.id for item in [node] if isinstance(item, ast.Name))
        sides = [item.value for item in node.keywords if item.arg == "match"] if _is_call_of(node, "raises") else []
        if isinstance(node, ast.Compare):
            looked = _observed(node, parameters)
            sides = [item for item in (node.left, *node.comparators) if item not in looked and node not in looked]
        expecting.update(item.id for side in sides for item in ast.walk(side) if isinstance(item, ast.Name))
    return {name for name in parameters if 0 < used[name] == expecting[name]}


def _observed(test: ast.expr, parameters: set[str]) -> list[ast.expr]:
    """Return the expressions in an assertion whose values are reported.

    For `a == b`, these are the sides with a name other than a parameter (or both sides); otherwise, the whole expression.
    """
    if not isinstance(test, ast.Compare) or not all(isinstance(item, ast.Eq) for item in test.ops):
        return [test]
    sides = [test.left, *test.comparators]
    return [
        side for side in sides if {item.id for item in ast.walk(side) if isinstance(item, ast.Name)} - parameters
    ] or sides


def _is_call_of(node: ast.AST, name: str) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name


class _ObservationRecorder(ast.NodeTransformer):
    """Replaces assertions by reports of the values that they compare, without the expected values."""

    def __init__(self) -> None:
        self.inputs: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> object:
        self.inputs = {argument.arg for argument in node.args.args}
        return self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> object:
        return [_sees(side) for side in _observed(node.test, self.inputs)]

    def visit_With(self, node: ast.With) -> object:
        item = node.items[0]
        if not _is_call_of(item.context_expr, "raises"):
            return self.generic_visit(node)
        patterns = [pattern.value for pattern in item.context_expr.keywords if pattern.arg == "match"]
        item.context_expr.keywords = []  # an error message may contain the values
        item.optional_vars = item.optional_vars or ast.Name("_raised", ast.Store())
        error = f"str({ast.unparse(item.optional_vars)}.value)"
        searches = [f"__import__('re').search({ast.unparse(pattern)}, {error}) is not None" for pattern in patterns]
        return [node, *(_sees(ast.parse(pattern, mode="eval").body) for pattern in searches or ["'raised'"])]


def _sees(value: ast.expr) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Name(SEES, ast.Load()), [value], []))
