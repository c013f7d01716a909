"""Outcomes of a repository's tests, unaltered and altered, with the clean code (without the bug)."""

import random
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agentgym.envs.swe.grading.alterations import Exchanged, exchanged, other_literals, other_parameters
from agentgym.envs.swe.grading.canaries import Change
from agentgym.envs.swe.grading.two_sandboxes import Clock, RunOutcome, run_in_two_sandboxes
from agentgym.envs.swe.tasks import Instance
from agentgym.envs.swe.tasks.suite import function_of, importable
from agentgym.sandbox.protocol import Sandbox

Function = tuple[str, ...]
"""Path, classes and name of a test function."""
Pair = tuple[Sandbox, Sandbox]
"""Two sandboxes: for the tests and for the code under test."""
DRAWS = 2
"""Number of alterations tried per test function."""
REMEMBERED = 256
SECONDS = 60.0
"""Time limit of the clean code for all tests, in seconds."""


@dataclass(frozen=True)
class Alteration:
    """A changed value in a test function, and the outcomes of the function's tests with the clean code."""

    outcomes: Mapping[str, str]
    change: Change | None = None
    exchanged: Exchanged = field(default_factory=Exchanged)


@dataclass(frozen=True)
class Reference:
    """Outcomes of a repository's tests with the clean code."""

    tests: RunOutcome
    """Outcomes with the clean code in a separate process; tests that fail there must share a process with the code."""
    alterations: Mapping[Function, list[Alteration]]
    """Test function -> alterations that make at least one of its tests fail."""


_known: OrderedDict[str, Reference] = OrderedDict()


def reference(instance: Instance, pair: Pair) -> Reference:
    """Return the outcomes of a task's tests with the clean code; computed once per repository."""
    key = f"{instance.repository.digest} {' '.join(instance.repository.tests)}"
    known = _known.pop(key, None)  # another thread may remove it meanwhile
    if known is None:
        known = _found(instance, pair)
    _known[key] = known
    while len(_known) > REMEMBERED:
        _known.popitem(last=False)
    return known


def tests_by_function(instance: Instance) -> dict[Function, list[str]]:
    """Return a repository's test ids by test function."""
    by_function: dict[Function, list[str]] = {}
    for test in instance.repository.tests:
        by_function.setdefault(function_of(test), []).append(test)
    return by_function


def run(
    instance: Instance,
    tree: Mapping[str, bytes],
    alterations: Mapping[Function, Alteration],
    clock: Clock,
    pair: Pair,
) -> RunOutcome:
    """Run the tests with the given alterations and return the outcome; OSError if the files do not fit a sandbox."""
    changed = dict(tree)
    parameters: Exchanged = {}
    by_file: dict[str, list[Change]] = {}
    for function, alteration in alterations.items():
        parameters |= alteration.exchanged
        if alteration.change is not None:
            by_file.setdefault(function[0], []).append(alteration.change)
    for path, changes in by_file.items():
        changed[path] = exchanged(changed[path], changes)
    files = sorted({test.partition("::")[0] for test in instance.repository.tests})
    names, conftest = importable(instance.base()), instance.repository.conftest
    return run_in_two_sandboxes(*pair, changed, files, names, clock, conftest=conftest, exchanged=parameters)


def _found(instance: Instance, pair: Pair) -> Reference:
    clean = instance.graded(instance.base())
    clock = Clock(SECONDS)
    as_they_are = run(instance, clean, {}, clock, pair)
    seconds = 5 * (SECONDS - clock.left) + 1  # another value may make a test run forever
    functions = {
        function: tests
        for function, tests in tests_by_function(instance).items()
        if all(as_they_are.outcomes.get(test) == "passed" for test in tests)
    }
    effective: dict[Function, list[Alteration]] = {}
    rng = random.Random(secrets.randbits(64))
    for _ in range(DRAWS):
        drawn = _drawn(clean, functions, rng)
        ended = run(instance, clean, drawn, Clock(seconds), pair)
        for function, alteration in drawn.items():
            outcomes = {test: ended.outcomes.get(test, "missing") for test in functions[function]}
            if "failed" in outcomes.values() and "missing" not in outcomes.values():
                effective.setdefault(function, []).append(replace(alteration, outcomes=outcomes))
    return Reference(as_they_are, effective)


def _drawn(
    clean: Mapping[str, bytes], functions: Mapping[Function, list[str]], rng: random.Random
) -> dict[Function, Alteration]:
    alterations: dict[Function, Alteration] = {}
    by_file: dict[str, dict[str, Function]] = {}
    for function, tests in functions.items():
        parameters = other_parameters(tests, rng)
        if parameters and rng.random() < 0.7:
            alterations[function] = Alteration({}, exchanged=parameters)
        else:
            by_file.setdefault(function[0], {})[".".join(function[1:])] = function
    for path, names in by_file.items():
        for name, change in other_literals(clean[path], names, rng).items():
            alterations[names[name]] = Alteration({}, change=change)
    return alterations
