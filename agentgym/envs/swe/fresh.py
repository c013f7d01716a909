"""Tests of the issue with values that nobody has quoted: what they see of the clean code is what is right.

A file of tests is written anew several times, each time with other values, and with its assertions replaced: what these
look at is told (`remote_tests`), and decides nothing. So a test needs no expected value but what the clean code gives.
"""

import ast
import random
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from agentgym.envs.swe.alterations import like, visible
from agentgym.envs.swe.apart import Clock, Ended, run_apart
from agentgym.envs.swe.remote_tests import SEES
from agentgym.sandbox.protocol import Sandbox
from agentgym.seeding import derive
from agentgym.syntax import parse
from agentgym.tasks.swe import Instance
from agentgym.tasks.swe.suite import function_of, importable

VARIANTS = 10
"""Of each file of tests."""
WHOLE = 4
"""Of these, how many have other values in constants and helpers as well: the last ones."""
REMEMBERED = 1024
SECONDS = 30.0
"""That the clean and the broken code may take for all variants."""

Function = tuple[str, ...]
_known: OrderedDict[str, dict[Function, dict[str, str]]] = OrderedDict()


def telling(instance: Instance, pair: tuple[Sandbox, Sandbox]) -> dict[Function, dict[str, str]]:
    """Return for each test function of the issue the tests with other values that the bug shows in.

    With what they see of the clean code, which must bring them to their end: what it refuses, a repair may do something
    else with. Functions without any are not in it. Found out once for each task.
    """
    key = f"{instance.repository.digest} {instance.id} {instance.bug}"
    found = _known.pop(key, None)  # other threads may forget it meanwhile
    if found is None:
        found = _found(instance, pair)
    _known[key] = found
    while len(_known) > REMEMBERED:
        _known.popitem(last=False)
    return found


def _found(instance: Instance, pair: tuple[Sandbox, Sandbox]) -> dict[Function, dict[str, str]]:
    clock = Clock(SECONDS)
    clean = run(instance, instance.graded(instance.base()), clock, pair)
    broken = run(instance, instance.graded(instance.mutated()), Clock(5 * clock.spent + 1), pair)  # it may be endless
    found: dict[Function, dict[str, str]] = {}
    for test, seen in clean.seen.items():
        if clean.outcomes.get(test) == "passed" and seen != broken.seen.get(test):
            found.setdefault(_original(test), {})[test] = seen
    return found


def run(instance: Instance, tree: Mapping[str, bytes], clock: Clock, pair: tuple[Sandbox, Sandbox]) -> Ended:
    """Return what the tests of an issue see when they have other values."""
    made = variants(instance)
    names, conftest = importable(instance.base()), instance.repository.conftest
    return run_apart(*pair, {**tree, **made}, sorted(made), names, clock, conftest=conftest)


def _original(test: str) -> Function:
    path, *names = function_of(test)
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.partition('_with_')[2].partition('_')[2]}", *names


def variants(instance: Instance) -> dict[str, bytes]:
    """Return files of tests with other values: path -> content."""
    wanted: dict[str, set[Function]] = {}
    for test in instance.fail_to_pass:
        path, *names = function_of(test)
        wanted.setdefault(path, set()).add(tuple(names))
    clean = instance.base()
    found: dict[str, bytes] = {}
    for path, names in wanted.items():
        folder, slash, name = path.rpartition("/")
        for number in range(VARIANTS):
            rng = random.Random(derive(instance.repository.digest, path, number))
            tree = parse(clean[path])
            _alter(tree, names, rng, whole=number >= VARIANTS - WHOLE)
            text = ast.unparse(ast.fix_missing_locations(_Seeing().visit(tree)))
            found[f"{folder}{slash}test_with_{number}_{name}"] = text.encode()
    return found


def _alter(tree: ast.Module, wanted: set[Function], rng: random.Random, *, whole: bool) -> None:
    alike: dict[type, list[Any]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            alike.setdefault(type(node.value), []).append(node.value)
    _keep(tree, (), wanted)
    for part in ast.walk(tree):
        if isinstance(part, ast.FunctionDef) and part.name.startswith("test"):
            for nodes in _of_test(part, rng):
                _exchange(nodes, alike, rng)
    for part in tree.body if whole else ():
        if isinstance(part, ast.FunctionDef) and not part.name.startswith("test"):
            _exchange([*visible(part.body)], alike, rng)
        elif isinstance(part, ast.Assign):
            _exchange([*visible([part.value])], alike, rng)


def _exchange(nodes: list[ast.Constant], alike: Mapping[type, list[Any]], rng: random.Random) -> None:
    if nodes:
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


def _of_test(test: ast.FunctionDef, rng: random.Random) -> Iterator[list[ast.Constant]]:
    """Yield literals of a test of which one each is to be another: in each set of parameters, or else in its body."""
    marks = [
        one for one in test.decorator_list if isinstance(one, ast.Call) and ast.unparse(one.func).endswith("parametrize")
    ]
    for mark in marks:
        mark.keywords = [one for one in mark.keywords if one.arg != "ids"]
    cases = [
        case
        for mark in marks
        for given in mark.args[1:2]
        for case in (given.elts if isinstance(given, ast.List | ast.Tuple) else [given])
    ]
    for case in cases:
        yield [*visible([case])]
    if not cases or rng.random() < 0.3:
        yield [*visible(test.body)]


class _Seeing(ast.NodeTransformer):
    """Has assertions tell what they look at."""

    def visit_Assert(self, node: ast.Assert) -> Any:
        looked = (
            [node.test.left, *node.test.comparators]
            if isinstance(node.test, ast.Compare) and all(isinstance(one, ast.Eq) for one in node.test.ops)
            else [node.test]
        )
        return [ast.Expr(ast.Call(ast.Name(SEES, ast.Load()), [one], [])) for one in looked]
