"""Trial of a bug as a task: some tests, but not all, must fail with the bug, and all must pass after its repair."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agentgym.envs.swe.maker.survey import Survey, test_files
from agentgym.envs.swe.tasks.instance import Instance, edited
from agentgym.envs.swe.tasks.pytest_run import PytestSandbox, Report, run_files
from agentgym.errors import Fault

MOST = 20
"""Maximum number of tests that fail with a bug; a bug with more is too easy to find."""
CRASHES = ("AttributeError", "NameError", "UnboundLocalError", "TypeError")
"""Exceptions that reveal the bug's line in their traceback; in a task, some test must fail in another way."""

REVERSALS = ("reverted file", "reverted version")
"""Kinds of bugs that may show only as `CRASHES`, since they may remove a feature that the older version lacked.

The operator `other error` is exempt, too.
"""


@dataclass(frozen=True)
class Trial:
    """The result of a trial."""

    rejected: str = ""
    """Reason for rejecting the bug; empty if it is accepted."""
    fail_to_pass: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    messages: Mapping[str, str] = field(default_factory=dict[str, str])


class Workbench:
    """Two sandboxes for trials, opened on demand; a run whose sandbox breaks is repeated once in a new sandbox."""

    def __init__(self, open_sandbox: Callable[[], PytestSandbox], close_sandbox: Callable[[PytestSandbox], None]) -> None:
        self._open, self._close = open_sandbox, close_sandbox
        self._sandboxes: list[PytestSandbox | None] = [None, None]

    def sandbox(self, number: int) -> PytestSandbox:
        """Return sandbox 0 or 1."""
        sandbox = self._sandboxes[number]
        if sandbox is None:
            sandbox = self._sandboxes[number] = self._open()
        return sandbox

    def run(self, number: int, tree: Mapping[str, bytes], survey: Survey) -> Report:
        """Run a repository's tests in sandbox `number`, 0 or 1."""
        limit = max(5.0, 5 * survey.seconds)
        try:
            return run_files(self.sandbox(number), tree, test_files(tree), timeout=limit, conftest=survey.conftest)
        except Fault:
            self.close(number)
            return run_files(self.sandbox(number), tree, test_files(tree), timeout=limit, conftest=survey.conftest)

    def close(self, *numbers: int) -> None:
        """Close the sandboxes with these numbers; both if there are no numbers."""
        for number in numbers or (0, 1):
            sandbox, self._sandboxes[number] = self._sandboxes[number], None
            if sandbox is not None:
                self._close(sandbox)


def try_bug(bench: Workbench, tree: Mapping[str, bytes], survey: Survey, kind: str) -> Trial:
    """Run the tests twice on `tree`, a repository with a bug, and accept or reject the bug."""
    first = bench.run(0, tree, survey)
    rejected = _judged(first, survey, kind)
    if rejected:
        return Trial(rejected)
    second = bench.run(1, tree, survey)
    if second.problem or _failing(first, survey) != _failing(second, survey):
        return Trial("its tests end differently when they are run again")
    return Trial("", tuple(_failing(first, survey)), messages=first.messages)


def repaired(bench: Workbench, instance: Instance, survey: Survey) -> str:
    """Apply a task's repair as an agent would and run the tests; return an error message, empty if the task's tests pass."""
    broken = instance.broken()
    try:
        for path in test_files(broken):
            compile(broken[path], path, "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"its tests cannot be taken out: {error}"
    tree = edited(broken, instance.gold)
    report = bench.run(1, instance.graded(tree), survey)
    missing = [test for test in (*instance.fail_to_pass, *instance.pass_to_pass) if report.outcomes.get(test) != "passed"]
    return f"its repair does not restore {missing[0]}" if missing else ""


def _failing(report: Report, survey: Survey) -> list[str]:
    return [test for test in survey.tests if report.outcomes.get(test) != "passed"]


def _judged(report: Report, survey: Survey, kind: str) -> str:
    failing = _failing(report, survey)
    if report.problem:
        return "the tests do not come to an end with it"
    if any(test not in report.outcomes for test in failing):
        return "the tests cannot be imported with it"
    if not failing:
        return "no test notices it"
    if len(failing) > MOST:
        return f"more than {MOST} tests notice it"
    if len(failing) == len(survey.tests):
        return "no test passes with it"
    if kind not in ("other error", *REVERSALS) and all(
        report.messages.get(test, "").startswith(CRASHES) for test in failing
    ):
        return "it only shows as a crash"
    return ""
