"""One instance of a published SWE data set, and the rules of a data set."""

import ast
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, cast

from agentgym.envs.swe.verdict import Verdict
from agentgym.sandbox.protocol import Result, Sandbox, SandboxFault
from agentgym.tasks.lines import decoded

T = TypeVar("T")
WORK = "/testbed"
"""The repository's path in the images of SWE-bench and similar data sets."""
HOURS = ("<15 min fix", "15 min - 1 hour", "1-4 hours", ">4 hours")
"""Annotated repair times of SWE-bench Verified, for difficulties 0 to 3."""
GIT_APPLY = (
    "git apply --verbose",
    "git apply --verbose --3way",
    "git apply --verbose --reject",
    "patch --batch --forward --fuzz=5 -p1 -i",
)
"""Commands that apply a patch, tried in this order (`swebench.harness.run_evaluation.GIT_APPLY_CMDS`)."""
_REPO = re.compile(r"[\w.-]+/[\w.-]+")


class FreshSandbox(Protocol):
    """Calls a function with a fresh sandbox of the row's image, and returns the result."""

    def __call__(self, work: Callable[[Sandbox], T], /) -> T: ...


@dataclass  # not frozen: that would cost a twentieth of the time of reading a file
class Row:
    """One instance; its columns have SWE-bench's names."""

    row: Mapping[str, Any]
    """Columns by name; always with `image`, `repo`, `problem_statement`, `patch`, `FAIL_TO_PASS` and `PASS_TO_PASS`."""
    rules: "RowFormat"
    bug: str = ""
    """Patch that adds the bug to the image's repository (SWE-smith); empty if the image already has the bug."""
    removed: tuple[str, ...] = ()
    """Test files removed for the agent and restored from the image for grading (SWE-smith)."""
    work: str = WORK
    """The repository's folder in the image."""
    test_files: tuple[str, ...] = ()
    """Files of the hidden tests; empty if the row does not list them."""
    checkout: Path | None = None
    """Clone of the data set's repository, which has its log parsers or scripts; None if not needed."""

    @property
    def id(self) -> str:
        """The `instance_id`."""
        return self.row["instance_id"]

    @property
    def repo(self) -> str:
        """The repository, `owner/name`."""
        return self.row["repo"]

    @property
    def issue(self) -> str:
        """The issue text for the agent."""
        return self.row["problem_statement"]

    @property
    def image(self) -> str:
        """Image with the repository and its dependencies."""
        return self.row["image"]

    @property
    def split(self) -> str:
        """The row's own split, else the default split of the data set."""
        return self.row.get("split") or self.rules.split

    @property
    def difficulty(self) -> int:
        """Difficulty from 0 to 3, by annotated repair time (`HOURS`); 0 without an annotation."""
        annotated = self.row.get("difficulty")
        return HOURS.index(annotated) if annotated in HOURS else 0

    def tests(self, column: str) -> list[str]:
        """Return the test names in `column`, `FAIL_TO_PASS` or `PASS_TO_PASS`."""
        return listed(self.row[column])


class RowFormat:
    """Rules of one data set: its columns and images, how hidden tests run, and when an instance is resolved.

    The agent and grading use separate containers. A subclass overrides the rules that differ from SWE-bench's.
    """

    name: ClassVar[str]
    known: ClassVar[frozenset[str]]
    """Columns that are read, or known not to belong to the issue."""
    stated: ClassVar[tuple[str, ...]] = ("requirements", "interface")
    """Columns whose text is appended to the issue."""
    split: ClassVar[str] = "test"
    """Split of rows that do not name a split."""
    apply: ClassVar[tuple[str, ...]] = GIT_APPLY
    """Commands that apply a submitted patch, tried in this order."""
    programs: ClassVar[str] = ""
    """Folder of the image that is first in the agent's PATH; empty: none is added."""
    untracked: ClassVar[tuple[str, ...]] = ()
    """Patterns (as in `.gitignore`) of files in the image that no patch includes."""

    def owns(self, columns: Collection[str]) -> bool:
        """Return True if a row with these columns belongs to this data set."""
        raise NotImplementedError

    def read(self, raw: Mapping[str, object], checkout: Path | None) -> Row:
        """Return a row; raise ValueError or TypeError if it cannot be a task."""
        raise NotImplementedError

    def requires(self) -> None:
        """Raise MissingExtra if grading needs a package that is not installed."""

    def hide(self, sandbox: Sandbox, row: Row) -> None:
        """Remove the image's hidden tests and solution from the agent's container."""

    def set_up(self, sandbox: Sandbox, row: Row) -> None:
        """Prepare the container for grading, before the patch is applied."""

    def cleaned(self, patch: str) -> str:
        """Return a patch without the parts that the data set's evaluation ignores."""
        return patch

    def run(self, sandbox: Sandbox, row: Row, timeout: float, untracked: Collection[str]) -> Result:
        """Add the hidden tests to the patched repository and run them; `untracked` lists the image's untracked files.

        Raises:
            SandboxFault: the row's test script cannot be created.
        """
        raise NotImplementedError

    def judge(
        self, row: Row, patch: str, result: Result, *, restore: bool, elsewhere: FreshSandbox
    ) -> tuple[Verdict, dict[str, object]]:
        """Return the verdict on the tests' output, and the data set's report; `evaluation.evaluate` describes `restore`."""
        raise NotImplementedError


def verdict_of(row: Row, passed: Collection[str], resolved: bool | None = None) -> Verdict:
    """Return the verdict, given the names of the passed tests.

    If `resolved` is None, the issue counts as resolved if all of the row's tests pass.
    """
    summary: list[str] = []
    shares: list[float] = []
    for column, which in (("FAIL_TO_PASS", "of the issue"), ("PASS_TO_PASS", "that passed before")):
        tests = row.tests(column)
        good = sum(test in passed for test in tests)
        shares.append(good / len(tests) if tests else 1.0)
        summary.append(f"{good} of {len(tests)} tests {which} pass")
    all_pass = shares == [1.0, 1.0] and bool(passed)
    return Verdict(all_pass if resolved is None else resolved, shares[0], shares[1], f"{'; '.join(summary)}.")


def must(sandbox: Sandbox, command: str | list[str], purpose: str) -> Result:
    """Run a command that should always succeed, since it does not depend on the agent's files.

    Raises:
        SandboxFault: the command fails; the message begins with `purpose`.
    """
    result = sandbox.run(command, timeout=300.0)
    if not result.ok:
        raise SandboxFault(f"{purpose}: {result.text[-500:]}")
    return result


def listed(value: object) -> list[str]:
    """Return the list in a column; the column may be text with JSON or a Python literal.

    Raises:
        TypeError: the value is not a list.
        ValueError: the text is neither JSON nor a Python literal.
    """
    parsed = value
    if isinstance(value, str):
        try:
            parsed = decoded(value)
        except ValueError:
            parsed = _literal(value)
    if not isinstance(parsed, list):
        raise TypeError(f"FAIL_TO_PASS or PASS_TO_PASS is {value!r:.80}; expected a list of tests")
    return [str(item) for item in cast("list[object]", parsed)]


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(f"a column is {text!r:.80}; expected a list as JSON or as a Python literal") from None


def text_of(raw: Mapping[str, object], name: str) -> str:
    """Return the text of column `name`.

    Raises:
        ValueError: the column is missing, empty or not text.
    """
    value = raw.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"column {name!r} is {value!r:.80}; expected text")
    return value


def repository_of(raw: Mapping[str, object]) -> str:
    """Return the column `repo`, checked because it becomes part of paths.

    Raises:
        ValueError: the column does not have the form `owner/name`.
    """
    repo = text_of(raw, "repo")
    if not _REPO.fullmatch(repo) or repo.endswith(("/.", "/..")):
        raise ValueError(f"repo is {repo!r:.80}; expected owner/name")
    return repo


def checkout_of(checkout: Path | None, file: str, repository: str) -> Path:
    """Check that `checkout` is a clone of `repository`, and return it.

    Raises:
        ValueError: `checkout` is None or does not contain `file`.
    """
    if checkout is None:
        raise ValueError(f"its tests are read by code of {repository}: clone it, and name the folder with checkout=FOLDER")
    if not (checkout / file).exists():
        raise ValueError(f"checkout is {str(checkout)!r}, which has no {file}; expected a clone of {repository}")
    return checkout
