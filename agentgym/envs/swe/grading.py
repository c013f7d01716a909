"""Whether a repaired repository passes its tests: in fresh jails, and not because something in it said so."""

import random
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from agentgym.envs.swe.canaries import alter
from agentgym.envs.swe.verdict import Verdict
from agentgym.sandbox.protocol import Sandbox
from agentgym.tasks.swe import Instance
from agentgym.tasks.swe.pytest_run import run_files
from agentgym.tasks.swe.source import digest
from agentgym.tasks.swe.suite import function_of

Tree = dict[str, bytes]
Elsewhere = Callable[[Callable[[Sandbox], dict[str, str]]], dict[str, str]]
"""Runs something in a jail that nobody has used and returns what it returns (`JailedEnv.elsewhere`)."""
PATIENCE = 10
"""How many times longer than in the clean repository the tests may take."""
REMEMBERED = 4096


_known: OrderedDict[tuple[str, str], Verdict] = OrderedDict()
"""Verdicts by task and graded files: rollouts of one task often end with the same repair."""


def grade(instance: Instance, tree: Mapping[str, bytes], elsewhere: Elsewhere) -> Verdict:
    """Return the verdict on the files an agent left; tests and configuration are the clean repository's."""
    graded = instance.graded(tree)
    key = (f"{instance.repository.digest} {instance.id}", digest(graded))
    verdict = _known.pop(key, None)  # other threads may forget it meanwhile
    if verdict is None:
        verdict = _judge(instance, graded, elsewhere)
    _known[key] = verdict
    while len(_known) > REMEMBERED:
        _known.popitem(last=False)
    return verdict


def _judge(instance: Instance, tree: Tree, elsewhere: Elsewhere) -> Verdict:
    if tree == instance.graded(instance.broken()):
        return Verdict(False, 0.0, 1.0, "Nothing was changed in the code.")
    outcomes = elsewhere(lambda jail: _run(jail, instance, tree))
    first, second = (_share(outcomes, tests) for tests in (instance.fail_to_pass, instance.pass_to_pass))
    if first < 1 or second < 1:
        return Verdict(False, first, second, _counted(instance, outcomes))
    if not _believed(instance, tree, elsewhere):
        return Verdict(False, 0.0, 0.0, "Tests that have to fail passed, or the other way round: the result was forged.")
    return Verdict(True, 1.0, 1.0, _counted(instance, outcomes))


def _run(jail: Sandbox, instance: Instance, tree: Tree) -> dict[str, str]:
    """Return how each test ended; `missing` where the report does not say."""
    asked = [*instance.fail_to_pass, *instance.pass_to_pass]
    files = sorted({test.partition("::")[0] for test in asked})
    limit = max(jail.limits.timeout, PATIENCE * instance.seconds)
    try:
        report = run_files(jail, tree, files, timeout=limit, conftest=instance.repository.conftest)
    except OSError:  # too many files, or too large, for the jail
        return dict.fromkeys(asked, "missing")
    return {test: report.outcomes.get(test, "missing") for test in asked}


def _believed(instance: Instance, tree: Tree, elsewhere: Elsewhere) -> bool:
    """Return whether altered tests end as they must.

    Twice, each time with about half of the tests made to fail and the others swept; the second time the other way
    round, so that every test has been both. Which half is nobody's to know, and decides nothing about honest code: the
    chance is not the world's.
    """
    rng = random.Random(secrets.randbits(64))
    functions = sorted({function_of(test) for test in (*instance.fail_to_pass, *instance.pass_to_pass)})
    half = {function for function in functions if rng.random() < 0.5}
    for failing in (half, set(functions) - half):
        altered, must_fail = _altered(tree, functions, failing, rng)
        outcomes = elsewhere(lambda jail, altered=altered: _run(jail, instance, altered))
        expected = {test: "failed" if function_of(test) in must_fail else "passed" for test in outcomes}
        if outcomes == expected:
            continue
        tests = {path: altered[path] for path in {function[0] for function in functions}}
        clean = instance.graded(instance.base()) | tests  # tests may lean on each other: ask code that is known to be right
        if outcomes != elsewhere(lambda jail, clean=clean: _run(jail, instance, clean)):
            return False
    return True


def _altered(
    tree: Tree, functions: Iterable[tuple[str, ...]], failing: set[tuple[str, ...]], rng: random.Random
) -> tuple[Tree, set[tuple[str, ...]]]:
    """Return the tree with altered tests, and which of these now must fail."""
    changed, must_fail = dict(tree), set[tuple[str, ...]]()
    by_file: dict[str, list[tuple[str, ...]]] = {}
    for function in functions:
        by_file.setdefault(function[0], []).append(function)
    for path, found in by_file.items():
        names = {".".join(function[1:]): function for function in found}
        wanted = {name for name, function in names.items() if function in failing}
        changed[path], broken = alter(tree[path], wanted, set(names) - wanted, rng)
        must_fail |= {names[name] for name in broken}
    return changed, must_fail


def _share(outcomes: Mapping[str, str], tests: Iterable[str]) -> float:
    asked = list(tests)
    return sum(outcomes[test] == "passed" for test in asked) / len(asked) if asked else 1.0


def _counted(instance: Instance, outcomes: Mapping[str, str]) -> str:
    parts = [
        f"{sum(outcomes[test] == 'passed' for test in tests)} of {len(tests)} tests {what} pass"
        for tests, what in ((instance.fail_to_pass, "of the issue"), (instance.pass_to_pass, "that passed before"))
    ]
    return f"{'; '.join(parts)}."
