"""Grading of a repaired repository by tests that run in another sandbox than its code.

The clean code is the repository without the bug.
"""

import math
import random
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agentgym.envs.swe import fresh
from agentgym.envs.swe.grading import shared_process
from agentgym.envs.swe.grading.reference import Alteration, Function, Pair, Reference, reference, run, tests_by_function
from agentgym.envs.swe.grading.two_sandboxes import Clock, RunOutcome
from agentgym.envs.swe.tasks import Instance
from agentgym.envs.swe.tasks.source import digest
from agentgym.envs.swe.verdict import Verdict
from agentgym.sandbox.protocol import Sandbox, SandboxFault

T = TypeVar("T")
Tree = dict[str, bytes]
Outcomes = Mapping[str, str]


class FreshSandbox(Protocol):
    """Runs a callable in a fresh sandbox and returns its result (`SandboxEnv.elsewhere`)."""

    def __call__(self, work: Callable[[Sandbox], T]) -> T: ...


ROUNDS = 3
PATTERNS = ((0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0))
"""Possible patterns of rounds: a test is altered (1) in at least one round and unaltered (0) in at least one."""
SECONDS = 30.0
"""Time limit of the code under test over all runs, in seconds; `PATIENCE` times the clean code's time if that is longer."""
MORE = 4
"""Factor on the time limit when grading is repeated because the machine was too busy."""
PATIENCE = 10
SLOW = 3
"""A repair is to blame if it takes at least this many times as long as the clean code takes now; else the machine is."""
REMEMBERED = 4096
DO_NOT_FIT = "The tests cannot be run: the files do not fit the sandbox."
BROKE = "The tests came to no end: the code under test broke the sandbox."
LATE = "The tests came to no end in time."
FORGED = "Tests with other values do not end as they must: the code answers what it is not asked."

_known: OrderedDict[tuple[str, str], Verdict] = OrderedDict()
"""Cached verdicts by task and by graded files, since rollouts of a task often end with the same repair."""


def grade(instance: Instance, tree: Mapping[str, bytes], elsewhere: FreshSandbox, *, one_process: bool = False) -> Verdict:
    """Return the verdict on an agent's files; tests and configuration come from the clean repository.

    With `one_process`, tests share a process with the code under test (`shared_process`), and fresh values are not tested.

    Raises:
        SandboxFault: the clean repository cannot run either, so the agent's code is not to blame.
    """
    graded = instance.graded(tree)
    key = (f"{instance.repository.digest} {instance.id}", f"{digest(graded)} {one_process}")
    verdict = _known.pop(key, None)  # another thread may remove it meanwhile
    if verdict is None:
        try:
            first = _Grading(instance, graded, elsewhere, SECONDS, one_process)
            verdict = first.verdict()
            if first.clock.left <= 0 and first.clock.worked < SECONDS / 2:  # it was waiting rather than working
                verdict = _Grading(instance, graded, elsewhere, MORE * SECONDS, one_process).verdict()
        except SandboxFault:
            verdict = _Grading(instance, graded, elsewhere, MORE * SECONDS, one_process).verdict()
    _known[key] = verdict
    while len(_known) > REMEMBERED:
        _known.popitem(last=False)
    return verdict


@dataclass
class _Grading:
    """The grading of one repair."""

    instance: Instance
    tree: Tree
    elsewhere: FreshSandbox
    seconds: float
    one_process: bool = False

    def __post_init__(self) -> None:
        self.clock = Clock(max(self.seconds, PATIENCE * self.instance.seconds))

    def verdict(self) -> Verdict:
        instance = self.instance
        if self.tree == instance.graded(instance.broken()):
            return Verdict(False, 0.0, 1.0, "Nothing was changed in the code.")
        self.counted = {*instance.fail_to_pass, *instance.pass_to_pass}
        if self.one_process:
            return self._in_one_process()
        self.known = self._with_two(lambda pair: reference(instance, pair))
        separate = {test for test in self.counted if self.known.tests.outcomes.get(test) == "passed"}
        try:
            return self._with_two(lambda pair: self._judged(pair, separate))
        except OSError:  # too many files, or too large ones
            return Verdict(False, 0.0, 0.0, DO_NOT_FIT)
        except SandboxFault:
            self.clock.spent = math.inf  # says nothing about this machine's speed
            self._with_two(self._refuse_slow_machines)
            return Verdict(False, 0.0, 0.0, BROKE)

    def _in_one_process(self) -> Verdict:
        """Grade with the tests in the same process as the code under test."""
        try:
            outcomes = self._shared(self.tree, self.clock)
        except OSError:
            return Verdict(False, 0.0, 0.0, DO_NOT_FIT)
        except SandboxFault:
            self.clock.longest = math.inf
            self._refuse_slow_machines_alone()
            return Verdict(False, 0.0, 0.0, BROKE)
        if self.clock.left <= 0:
            self._refuse_slow_machines_alone()
            return Verdict(False, 0.0, 0.0, LATE)
        return self._counted(outcomes)

    def _shared(self, tree: Tree, clock: Clock) -> Outcomes:
        return shared_process.outcomes(self.instance, tree, sorted(self.counted), clock, self.elsewhere)

    def _refuse_slow_machines_alone(self) -> None:
        """Check that the clean code passes in time when it shares a process with the tests.

        Raises:
            SandboxFault: the clean code fails or is too slow, so the machine is to blame.
        """
        clock = Clock(self.seconds)
        outcomes = self._shared(self.instance.graded(self.instance.base()), clock)
        passed = clock.left > 0 and all(outcome == "passed" for outcome in outcomes.values())
        if not passed or self.clock.longest < SLOW * clock.longest:
            raise SandboxFault(f"the tests of {self.instance.package} do not run with its clean code, or too slowly")

    def _with_two(self, work: Callable[[Pair], T]) -> T:
        return self.elsewhere(lambda ours: self.elsewhere(lambda theirs: work((ours, theirs))))

    def _judged(self, pair: Pair, separate: set[str]) -> Verdict:
        rng = random.Random(secrets.randbits(64))
        functions = {function for function, tests in tests_by_function(self.instance).items() if set(tests) & separate}
        patterns = {function: rng.choice(PATTERNS) for function in sorted(functions & set(self.known.alterations))}
        for number in range(ROUNDS if separate else 0):
            altered = [function for function, pattern in patterns.items() if pattern[number]]
            alterations = {function: rng.choice(self.known.alterations[function]) for function in altered}
            ended = run(self.instance, self.tree, alterations, self.clock, pair)
            if not self._as_expected(ended, alterations, separate):
                verdict = self._as_they_are(pair, separate)
                if not verdict.resolved or not self._as_clean(pair, ended, alterations, separate):
                    return Verdict(False, 0.0, 0.0, FORGED) if verdict.resolved else verdict
        if self._still_broken(pair):
            return Verdict(False, 0.0, 0.0, "With other values than those of the issue the bug is still there.")
        return self._as_they_are(pair, separate, passed=True)

    def _still_broken(self, pair: Pair) -> bool:
        """Return True if the repair disagrees with the clean code where fresh inputs reveal the bug (`fresh.agrees`)."""
        expected = fresh.telling(self.instance, pair)
        if not expected:
            return False
        ended = fresh.again(self.instance, self.tree, expected, self.clock, pair)
        if self.clock.left <= 0:
            self._refuse_slow_machines(pair)
        return not fresh.agrees(expected, ended.seen)

    def _as_expected(self, ended: RunOutcome, alterations: Mapping[Function, Alteration], separate: set[str]) -> bool:
        expected = dict.fromkeys(separate, "passed")
        for alteration in alterations.values():
            expected |= {test: outcome for test, outcome in alteration.outcomes.items() if test in separate}
        altered = {test for alteration in alterations.values() for test in alteration.outcomes}
        return all(ended.outcomes.get(test) == outcome for test, outcome in expected.items()) and all(
            _decides_no_more(self.known, ended, test) for test in separate - altered
        )

    def _as_clean(
        self, pair: Pair, ended: RunOutcome, alterations: Mapping[Function, Alteration], separate: set[str]
    ) -> bool:
        """Return True if the clean code has the same outcomes on the altered tests, which may depend on each other."""
        clean = run(self.instance, self.instance.graded(self.instance.base()), alterations, Clock(self.seconds), pair)
        return all(ended.outcomes.get(test) == clean.outcomes.get(test) for test in separate)

    def _as_they_are(self, pair: Pair, separate: set[str], *, passed: bool = False) -> Verdict:
        """Grade with unaltered tests; `passed` says that the tests in `separate` are known to pass."""
        if passed:
            outcomes = dict.fromkeys(separate, "passed")
        else:
            ended = run(self.instance, self.tree, {}, self.clock, pair)
            if self.clock.left <= 0:
                self._refuse_slow_machines(pair)
                return Verdict(False, 0.0, 0.0, LATE)
            outcomes = {test: ended.outcomes.get(test, "") for test in separate if _decides_no_more(self.known, ended, test)}
        others = sorted(self.counted - separate)
        if others:
            outcomes |= shared_process.outcomes(self.instance, self.tree, others, self.clock, self.elsewhere)
            if self.clock.left <= 0:
                self._refuse_slow_machines(pair)
                return Verdict(False, 0.0, 0.0, LATE)
        return self._counted(outcomes)

    def _refuse_slow_machines(self, pair: Pair) -> None:
        """Check that the clean code passes and is fast enough.

        Raises:
            SandboxFault: the clean code fails or is too slow, so the machine is to blame.
        """
        clean, clock = self.instance.graded(self.instance.base()), Clock(self.seconds)
        ended = run(self.instance, clean, {}, clock, pair)
        slow = self.clock.spent < SLOW * self.clock.runs * clock.spent  # relative to the clean code's current time
        if (
            clock.left <= 0
            or slow
            or any(ended.outcomes.get(test) != end for test, end in self.known.tests.outcomes.items())
        ):
            raise SandboxFault(
                f"the tests of {self.instance.package} do not run with its clean code: {ended.problem or 'too slow'}"
            )

    def _counted(self, outcomes: Outcomes) -> Verdict:
        instance = self.instance
        parts = ((instance.fail_to_pass, "of the issue"), (instance.pass_to_pass, "that passed before"))
        passed = [[test for test in tests if outcomes.get(test) == "passed"] for tests, _ in parts]
        summary = "; ".join(
            f"{len(good)} of {len(tests)} tests {what} pass" for good, (tests, what) in zip(passed, parts, strict=True)
        )
        first, second = (len(good) / len(tests) if tests else 1.0 for good, (tests, _) in zip(passed, parts, strict=True))
        return Verdict(first == second == 1, first, second, f"{summary}.")


def _decides_no_more(known: Reference, ended: RunOutcome, test: str) -> bool:
    """Return True if a test called no comparisons of the code under test beyond those of the clean code.

    An object that equals everything, returned in place of a number, has such a comparison: its `__eq__`.
    """
    return ended.judged.get(test, frozenset()) <= known.tests.judged.get(test, frozenset())
