"""Alter the inputs of tests: a correct repair has a known outcome, and cheating code cannot recognize altered tests.

A literal passed to the code under test is replaced by a similar one, or a test gets a parameter of another test.
"""

import ast
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentgym.envs.swe.grading.canaries import Change, line_starts, span, test_functions
from agentgym.rewards.programs.syntax import parse

Exchanged = dict[str, list[object]]
"""Test id -> [id of the test whose parameter it gets, index of the parameter]."""


def other_parameters(ids: Iterable[str], rng: random.Random) -> Exchanged:
    """Return an exchange of one parameter among the tests of a function; empty with fewer than two parametrized tests."""
    parametrized = sorted(test for test in ids if test.endswith("]"))
    if len(parametrized) < 2:
        return {}
    step, which = rng.randrange(1, len(parametrized)), rng.randrange(1000)
    return {test: [parametrized[(place + step) % len(parametrized)], which] for place, test in enumerate(parametrized)}


def other_literals(source: bytes, names: Iterable[str], rng: random.Random) -> dict[str, Change]:
    """Return a change of one literal for each named test (`test_x`, `TestY.test_x`) that has literals."""
    starts, tests = line_starts(source), test_functions(parse(source))
    literals = {name: list(visible(tests[name].body)) for name in sorted(set(names) & set(tests))}
    alike: dict[type, list[object]] = {}
    for nodes in literals.values():
        for node in nodes:
            alike.setdefault(type(node.value), []).append(node.value)
    changes: dict[str, Change] = {}
    for name, nodes in literals.items():
        if nodes:
            node = rng.choice(nodes)
            changes[name] = Change(*span(node, starts), repr(like(node.value, alike, rng)).encode())
    return changes


def exchanged(source: bytes, changes: Iterable[Change]) -> bytes:
    """Return the source with all changes applied."""
    for change in sorted(changes, key=lambda change: change.start, reverse=True):
        source = source[: change.start] + change.text + source[change.end :]
    return source


def visible(body: Sequence[ast.AST]) -> Iterator[ast.Constant]:
    """Yield the literals of a test that may reach the code under test, without the expected values of comparisons."""
    left = list(body)
    if isinstance(left[0], ast.Expr) and isinstance(left[0].value, ast.Constant):
        left = left[1:]
    while left:
        node = left.pop()
        if isinstance(node, ast.Compare):
            left += [
                side
                for side in (node.left, *node.comparators)
                if any(isinstance(inner_node, ast.Call) for inner_node in ast.walk(side))
            ]
        elif (
            isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("raises", "warns", "approx")
        ) or isinstance(node, ast.JoinedStr):
            continue
        elif isinstance(node, ast.Constant):
            if type(node.value) in (int, float, str, bool):
                yield node
        else:
            left += ast.iter_child_nodes(node)


def like(value: Any, alike: Mapping[type, list[object]], rng: random.Random) -> Any:
    """Return a similar value: slightly changed, or another value of its type from `alike`."""
    if isinstance(value, bool):
        return not value
    others = [value_like for value_like in alike[type(value)] if value_like != value]
    if others and rng.random() < 0.4:
        return rng.choice(others)
    if isinstance(value, int | float):
        return value + rng.choice((1, -1, 2, 10) if value > 0 else (1, 2, 3))
    return _like_text(value, rng)


def _like_text(text: str, rng: random.Random) -> str:
    digits = [match.start() for match in re.finditer(r"[0-9]", text)]
    letters = [match.start() for match in re.finditer(r"[a-z]", text)]
    if not digits and not letters:
        return text * 2 or " "
    places, signs = rng.choice([pair for pair in ((digits, "123456789"), (letters, "abcdest")) if pair[0]])
    place = rng.choice(places)
    return text[:place] + rng.choice([sign for sign in signs if sign != text[place]]) + text[place + 1 :]
