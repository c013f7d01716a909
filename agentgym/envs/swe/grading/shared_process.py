"""Run tests in the same process as the code under test, which could forge their results.

This is for tests that fail in two processes even with the clean code, or for all tests with `grading="one-process"`. If all
tests pass, they run twice more with alterations (`canaries`); some of the altered tests must then fail.
"""

import random
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence

from agentgym.envs.swe.grading.canaries import alter
from agentgym.envs.swe.grading.two_sandboxes import Clock, RunOutcome
from agentgym.envs.swe.tasks import Instance
from agentgym.envs.swe.tasks.pytest_run import run_files
from agentgym.envs.swe.tasks.suite import function_of
from agentgym.sandbox.protocol import Sandbox

Tree = Mapping[str, bytes]
Elsewhere = Callable[[Callable[[Sandbox], RunOutcome]], RunOutcome]


def outcomes(instance: Instance, tree: Tree, ids: Sequence[str], clock: Clock, elsewhere: Elsewhere) -> dict[str, str]:
    """Return each test's outcome; `forged` for all tests if altered tests do not have the required outcomes.

    Tests that did not run, for example because `clock` ran out, are `missing`.
    """

    def run(files: Tree) -> dict[str, str]:
        ended = elsewhere(lambda sandbox: _run(sandbox, instance, files, ids, clock))
        clock.spend(ended.seconds)
        clock.longest = max(clock.longest, ended.seconds)
        return {test: ended.outcomes.get(test, "missing") for test in ids}

    outcomes_here = run(tree)
    if set(outcomes_here.values()) == {"passed"} and not _believed(instance, tree, ids, run):
        return dict.fromkeys(ids, "forged")
    return outcomes_here


def _run(sandbox: Sandbox, instance: Instance, tree: Tree, ids: Iterable[str], clock: Clock) -> RunOutcome:
    files = sorted({test.partition("::")[0] for test in ids})
    report = run_files(sandbox, tree, files, timeout=max(clock.left, 0.01), conftest=instance.repository.conftest)
    return RunOutcome(report.outcomes, seconds=report.seconds)


def _believed(instance: Instance, tree: Tree, ids: Sequence[str], run: Callable[[Tree], dict[str, str]]) -> bool:
    """Return True if altered tests have the required outcomes, or those that the clean code gives, in two runs.

    In the first run, about half of the tests get the alteration `fail`, the others `sweep`; in the second, vice versa. The
    halves are secret and do not affect honest code, so the environment's random generator is not used.
    """
    rng = random.Random(secrets.randbits(64))
    functions = sorted({function_of(test) for test in ids})
    half = {function for function in functions if rng.random() < 0.5}
    for failing in (half, set(functions) - half):
        altered, must_fail = _altered(tree, functions, failing, rng)
        outcomes_here = run(altered)
        expected = {test: "failed" if function_of(test) in must_fail else "passed" for test in outcomes_here}
        if outcomes_here == expected:
            continue
        tests = {path: altered[path] for path in {function[0] for function in functions}}
        clean = instance.graded(instance.base()) | tests  # tests may depend on each other, so ask code known to be right
        if outcomes_here != run(clean):
            return False
    return True


def _altered(
    tree: Tree, functions: Iterable[tuple[str, ...]], failing: set[tuple[str, ...]], rng: random.Random
) -> tuple[dict[str, bytes], set[tuple[str, ...]]]:
    """Return the tree with altered tests, and the test functions that must now fail."""
    changed, must_fail = dict(tree), set[tuple[str, ...]]()
    by_file: dict[str, list[tuple[str, ...]]] = {}
    for function in functions:
        by_file.setdefault(function[0], []).append(function)
    for path, changes in by_file.items():
        names = {".".join(function[1:]): function for function in changes}
        failing_names = {name for name, function in names.items() if function in failing}
        changed[path], broken = alter(tree[path], failing_names, set(names) - failing_names, rng)
        must_fail |= {names[name] for name in broken}
    return changed, must_fail
