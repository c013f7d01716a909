"""Tests of the issue with values that nobody has quoted: what they see of the clean code is what is right.

A file of tests is written anew several times, each time with other values, and with its assertions replaced: what these
look at is told (`remote_tests`), and decides nothing. So a test needs no expected value but what the clean code gives.
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
from agentgym.envs.swe.grading.apart import Clock, Ended, run_apart
from agentgym.envs.swe.grading.remote_tests import ERROR, SEES
from agentgym.envs.swe.tasks import Instance
from agentgym.envs.swe.tasks.suite import function_of, importable
from agentgym.rewards.programs.syntax import parse
from agentgym.sandbox.protocol import Sandbox

VARIANTS = 16
"""Of each file of tests, beside one with its own values."""
BATCHES = 4
"""How often as many more are drawn, where the bug shows in none of a function that the original does not show."""
WHOLE = 5
"""Of these, how many have other values in constants and helpers as well: the first ones."""
RUNS = 4
"""Of a batch: where one of its variants ends the code under test, the others run again without it."""
REMEMBERED = 1024
SECONDS = 30.0
"""That the clean and the broken code may take for all variants."""

Function = tuple[str, ...]
Telling = dict[Function, dict[str, dict[int, str]]]
"""By test function and test: what the clean code shows it, by the place among all that it looks at."""
_known: OrderedDict[str, Telling] = OrderedDict()


def telling(instance: Instance, pair: tuple[Sandbox, Sandbox]) -> Telling:
    """Return what tests of the issue see with other values, where the broken code shows them something else.

    Functions without such a place are not in it. Where the clean code refuses a value, a repair may do something else. What
    it shows a test with its own values as well is left out, unless there is nothing else. Found out once for each task.
    """
    key = f"{instance.repository.digest} {instance.id} {instance.bug}"
    values = _known.pop(key, None)  # other threads may forget it meanwhile
    if values is None:
        values = _found(instance, pair)
    _known[key] = values
    while len(_known) > REMEMBERED:
        _known.popitem(last=False)
    return values


def agrees(wanted: Telling, seen: Mapping[str, list[str]]) -> bool:
    """Return whether three of four tests of each function, at least, see what the clean code shows them."""
    for tests in wanted.values():
        right = sum(_shown(expected, seen.get(test, [])) for test, expected in tests.items())
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
        seconds = 5 * (clock.spent - spent) + 1  # the broken code may be endless
        alive = [number for number in numbers if number not in deadly]
        wrong, _ = _seen(instance, mutated, lambda seconds=seconds: Clock(seconds), pair, alive)
        right = {test: shown for test, shown in right.items() if _original(test)[0] not in deadly}
        places = _telling(right, wrong) | places
        if functions <= {*places.values, *(places.poor & set(places.given))}:
            break
    wanted = places.any | places.given | places.values
    return _repeated(wanted, again(instance, clean, wanted, Clock(SECONDS), pair).seen)


def _seen(
    instance: Instance,
    tree: Mapping[str, bytes],
    clock: Callable[[], Clock],
    pair: tuple[Sandbox, Sandbox],
    numbers: Iterable[int],
) -> tuple[dict[str, list[str]], set[int]]:
    """Return what variants of the tests see, as far as it is known, and which of them ended the code under test."""
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


def _repeated(wanted: Telling, seen: Mapping[str, list[str]]) -> Telling:
    """Return what the clean code shows a second time, among other tests than the first time."""
    return {
        function: same
        for function, tests in wanted.items()
        if (same := {test: expected for test, expected in tests.items() if _shown(expected, seen.get(test, []))})
    }


def _shown(expected: Mapping[int, str], seen: list[str]) -> bool:
    return all(seen[at : at + 1] == [value] for at, value in expected.items())


@dataclass
class _Places:
    """Where the broken code shows something else, from what says least to what says most."""

    any: Telling = field(default_factory=Telling)
    given: Telling = field(default_factory=Telling)
    """With other parameters, or at a place where the original sees something else."""
    values: Telling = field(default_factory=Telling)
    """What no original sees where the bug shows: nobody has quoted it."""
    poor: set[Function] = field(default_factory=set[Function])
    """Functions that see two values at most, whatever they are given: true and false, or that something was raised."""

    def __or__(self, more: "_Places") -> "_Places":
        return _Places(self.any | more.any, self.given | more.given, self.values | more.values, self.poor & more.poor)


def _telling(clean: Mapping[str, list[str]], broken: Mapping[str, list[str]]) -> _Places:
    """Return where the broken code shows something else; of tests that are not among its own nothing is known.

    Unless it runs none at all.
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
                same = test.partition("[")[2] == original.partition("[")[2]  # parameters, as far as names tell
                before, everywhere = clean[original], differing[test]
                given = {at: value for at, value in everywhere.items() if not same or before[at : at + 1] != [value]}
                unquoted = {at: value for at, value in given.items() if value not in quoted}
                for telling, shown in ((places.any, everywhere), (places.given, given), (places.values, unquoted)):
                    if shown:
                        telling.setdefault(function, {})[test] = shown
        if len({value for tests in variants.values() for test in tests for value in clean[test]} - {ERROR}) < 3:
            places.poor.add(function)
    return places


def _differing(shown: list[str], wrong: list[str]) -> dict[int, str]:
    ended = len(wrong) - (ERROR in wrong)  # of what comes after that nothing is known
    return {at: value for at, value in enumerate(shown[: ended + 1]) if value not in (ERROR, *wrong[at : at + 1])}


def again(
    instance: Instance, tree: Mapping[str, bytes], wanted: Telling, clock: Clock, pair: tuple[Sandbox, Sandbox]
) -> Ended:
    """Return what the tests see of a repaired repository where the bug has shown."""
    return run(instance, tree, clock, pair, {_original(test)[0] for tests in wanted.values() for test in tests})


def run(
    instance: Instance, tree: Mapping[str, bytes], clock: Clock, pair: tuple[Sandbox, Sandbox], numbers: Iterable[int]
) -> Ended:
    """Return what some variants of the tests of an issue see."""
    files = variants(instance, numbers)
    names, conftest = importable(instance.base()), instance.repository.conftest
    return run_apart(*pair, {**tree, **files}, sorted(files), names, clock, conftest=conftest)


def _original(test: str) -> tuple[int, Function]:
    """Return which variant a test is of, and the function it comes from."""
    path, *names = function_of(test)
    folder, slash, name = path.rpartition("/")
    number, _, name = name.removeprefix("test_with_").partition("_")
    return int(number), (f"{folder}{slash}{name}", *names)


def variants(instance: Instance, numbers: Iterable[int]) -> dict[str, bytes]:
    """Return files of tests with other values, number 0 with its own: path -> content."""
    wanted: dict[str, set[Function]] = {}
    for test in instance.fail_to_pass:
        path, *names = function_of(test)
        wanted.setdefault(path, set()).add(tuple(names))
    clean = instance.base()
    files: dict[str, bytes] = {}
    for path, names in wanted.items():
        folder, slash, name = path.rpartition("/")
        for number in numbers:
            rng = random.Random(derive(instance.repository.digest, path, number))
            tree = parse(clean[path])
            _keep(tree, (), names)
            if number:
                _alter(tree, rng, bodies=number % 2 == 0, whole=number % VARIANTS < WHOLE)
            text = ast.unparse(ast.fix_missing_locations(_Seeing().visit(tree)))
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


def _keep(parent: Any, names: Function, wanted: set[Function]) -> None:
    """Take out the test functions that are not wanted."""
    kept: list[ast.stmt] = []
    for node in parent.body:
        if isinstance(node, ast.ClassDef):
            _keep(node, (*names, node.name), wanted)
        if not (isinstance(node, ast.FunctionDef) and node.name.startswith("test") and (*names, node.name) not in wanted):
            kept.append(node)
    parent.body = kept or [ast.Pass()]


def _of_test(test: ast.FunctionDef, rng: random.Random, *, bodies: bool) -> Iterator[list[ast.Constant]]:
    """Yield literals of a test of which one each is to be another: in most parameters, and in some statements."""
    marks = [item for item in test.decorator_list if _is_call_of(item, "parametrize") and len(item.args) > 1]
    for mark in marks:
        mark.keywords = [item for item in mark.keywords if item.arg != "ids"]
    cases = [(mark.args[0], case) for mark in marks for case in getattr(mark.args[1], "elts", ())]
    expecting = _told(test)
    for names, case in cases:
        words = re.findall(r"\w+", ast.unparse(names))
        parts = case.elts if len(words) > 1 and isinstance(case, ast.Tuple | ast.List) else [case]
        parts = [part for word, part in zip(words, parts, strict=False) if word not in expecting]
        groups = [literals for part in parts if (literals := [*visible([part])])]
        yield from rng.sample(groups, rng.randint((len(groups) + 1) // 2, len(groups))) if groups else ()
    if bodies or not cases:
        groups = [literals for statement in test.body if (literals := [*visible([statement])])]
        yield from rng.sample(groups, rng.randint(1, len(groups))) if groups else ()


def _told(test: ast.FunctionDef) -> set[str]:
    """Return the parameters of a test that say what it expects, and nothing else."""
    given, used, expecting = {item.arg for item in test.args.args}, Counter[str](), Counter[str]()
    for node in ast.walk(ast.Module(test.body, [])):
        used.update(item.id for item in [node] if isinstance(item, ast.Name))
        sides = [item.value for item in node.keywords if item.arg == "match"] if _is_call_of(node, "raises") else []
        if isinstance(node, ast.Compare):
            looked = _looked_at(node, given)
            sides = [item for item in (node.left, *node.comparators) if item not in looked and node not in looked]
        expecting.update(item.id for side in sides for item in ast.walk(side) if isinstance(item, ast.Name))
    return {name for name in given if 0 < used[name] == expecting[name]}


def _looked_at(test: ast.expr, given: set[str]) -> list[ast.expr]:
    """Return what an assertion looks at: of an equation the sides that name more than the test was given."""
    if not isinstance(test, ast.Compare) or not all(isinstance(item, ast.Eq) for item in test.ops):
        return [test]
    sides = [test.left, *test.comparators]
    return [side for side in sides if {item.id for item in ast.walk(side) if isinstance(item, ast.Name)} - given] or sides


def _is_call_of(node: ast.AST, name: str) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name


class _Seeing(ast.NodeTransformer):
    """Has assertions tell what they look at; what they expect of it is not looked at."""

    def __init__(self) -> None:
        self.given: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> object:
        self.given = {argument.arg for argument in node.args.args}
        return self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> object:
        return [_sees(side) for side in _looked_at(node.test, self.given)]

    def visit_With(self, node: ast.With) -> object:
        item = node.items[0]
        if not _is_call_of(item.context_expr, "raises"):
            return self.generic_visit(node)
        wanted = [pattern.value for pattern in item.context_expr.keywords if pattern.arg == "match"]
        item.context_expr.keywords = []  # the words of an error may have the values in them
        item.optional_vars = item.optional_vars or ast.Name("_raised", ast.Store())
        error = f"str({ast.unparse(item.optional_vars)}.value)"
        searches = [f"__import__('re').search({ast.unparse(pattern)}, {error}) is not None" for pattern in wanted]
        return [node, *(_sees(ast.parse(pattern, mode="eval").body) for pattern in searches or ["'raised'"])]


def _sees(value: ast.expr) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Name(SEES, ast.Load()), [value], []))
