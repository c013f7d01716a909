"""A survey of a repository's tests before any change: which tests pass every time, and how long they take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentgym.envs.swe.tasks.pytest_run import PytestSandbox, Report, run_files
from agentgym.envs.swe.tasks.suite import is_test
from agentgym.errors import BadData

FLAKIEST = 0.2
"""Maximum share of tests that pass in only one of two runs; a repository with more is refused."""
LONGEST = 300.0
"""Maximum seconds that a repository's tests may take."""


@dataclass(frozen=True)
class Survey:
    """The result of a survey."""

    tests: tuple[str, ...]
    """Ids of the tests that passed in both runs, in run order."""
    flaky: tuple[str, ...]
    failing: int
    """Number of tests that passed in neither run."""
    seconds: float
    """Duration of the slower run, in seconds."""
    conftest: bool


def survey(
    name: str, tree: Mapping[str, bytes], sandboxes: tuple[PytestSandbox, PytestSandbox], say: Callable[[str], None]
) -> Survey:
    """Run the tests twice, in two sandboxes with different hash seeds, and return the result.

    If there is a `conftest.py`, an additional run decides if the tests need it. `say` receives progress messages.

    Raises:
        BadData: there are no tests, they cannot run, or they are too flaky.
    """
    files = test_files(tree)
    if not files:
        raise BadData(
            f"{name}: there are no tests in it (no file called test_*.py or *_test.py): many sdists leave them out; "
            "use a checkout of the repository, or an sdist that has them"
        )
    say(f"running {len(files)} test files of {name}")
    first = run_files(sandboxes[0], tree, files, timeout=LONGEST)
    conftest = any(path.rpartition("/")[2] == "conftest.py" for path in tree)
    if conftest:
        with_it = run_files(sandboxes[0], tree, files, timeout=LONGEST, conftest=True)
        conftest = _passed(with_it) > _passed(first)
        first = with_it if conftest else first
    second = run_files(sandboxes[1], tree, files, timeout=LONGEST, conftest=conftest)
    for report in (first, second):
        if not _passed(report):
            raise BadData(f"{name}: its tests cannot be run: {_reason(report)}")
    flaky = tuple(test for test in first.outcomes if _steady(first, test) != _steady(second, test))
    if len(flaky) > FLAKIEST * len(first.outcomes):
        raise BadData(
            f"{name}: {len(flaky)} of {len(first.outcomes)} tests end differently when they are run again, for example "
            f"{flaky[0]}: its tests are too flaky to make tasks from"
        )
    tests = tuple(test for test, outcome in first.outcomes.items() if outcome == "passed" and test not in flaky)
    failing = len(first.outcomes) - len(tests) - len(flaky)
    return Survey(tests, flaky, failing, max(first.seconds, second.seconds), conftest)


def test_files(tree: Mapping[str, bytes]) -> list[str]:
    """Return the files where pytest looks for tests."""
    names = {path: path.rpartition("/")[2] for path in sorted(tree) if is_test(path)}
    return [
        path
        for path, name in names.items()
        if name.endswith("_test.py") or (name.startswith("test_") and name.endswith(".py"))
    ]


def _passed(report: Report) -> int:
    return sum(outcome == "passed" for outcome in report.outcomes.values())


def _steady(report: Report, test: str) -> bool:
    return report.outcomes.get(test) == "passed"


def _reason(report: Report) -> str:
    if report.problem:
        return report.problem
    message = next(iter(report.messages.values()), "")
    example = f"; the first says: {message[-600:]}" if message else ""
    return (
        f"none of {len(report.outcomes)} tests passes in a sandbox without network and with the standard library "
        f"alone{example}"
    )
