"""Running a repository's tests in a sandbox and parsing their outcomes."""

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from xml.etree import ElementTree

from agentgym.envs.swe.tasks.source import pack
from agentgym.envs.swe.tasks.suite import roots
from agentgym.sandbox.protocol import ExitReason

PACKAGES = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
"""Packages that the sandbox must preload: `take(packages=PACKAGES)`."""
FOLDER = "repository"
"""The repository's path in the sandbox's working folder."""
LONGEST = 8 << 20  # bytes of the report; parsing hostile XML may take 50 times as much


class ProgramResult(Protocol):
    """Result of a program in a sandbox (`agentgym.sandbox.Result`)."""

    @property
    def exit_code(self) -> int: ...
    @property
    def reason(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def text(self) -> str: ...


class PytestSandbox(Protocol):
    """Methods of a sandbox that test runs need (`agentgym.sandbox.Sandbox`)."""

    def python(self, code: str, *, stdin: bytes = b"", timeout: float | None = None) -> ProgramResult: ...
    def restore(self, state: bytes) -> None: ...
    def read(self, path: str) -> bytes: ...


@dataclass(frozen=True)
class Report:
    """The outcomes of a repository's tests."""

    outcomes: Mapping[str, str] = field(default_factory=dict[str, str])
    """`passed`, `failed` or `skipped`, by test id."""
    messages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Failure messages by test id."""
    seconds: float = 0.0
    problem: str = ""
    """Reason for missing outcomes: a time-out, a crash, or a report that disagrees with pytest's exit code; else empty."""


def run_tests(
    sandbox: PytestSandbox, tree: Mapping[str, bytes], ids: Iterable[str], timeout: float | None = None
) -> dict[str, str]:
    """Return `passed`, `failed`, `skipped` or `missing` for each test id; all `missing` if the run is not trustworthy.

    The sandbox should be fresh: the tree replaces everything in its working folder.
    """
    wanted_ids = list(ids)
    report = run_files(sandbox, tree, sorted({test.partition("::")[0] for test in wanted_ids}), timeout=timeout)
    return {test: report.outcomes.get(test, "missing") for test in wanted_ids}


def run_files(
    sandbox: PytestSandbox,
    tree: Mapping[str, bytes],
    files: Iterable[str],
    *,
    timeout: float | None = None,
    conftest: bool = False,
) -> Report:
    """Run all tests in some files and return their outcomes; nothing runs if none of the files is in the tree.

    `conftest` loads the repository's `conftest.py` files, and `timeout` is in seconds (None: the sandbox's own).
    """
    paths = [f"./{path}" for path in files if path in tree]
    if not paths:  # without paths, pytest would run the whole repository
        return Report(problem="none of the test files is in the repository")
    name = f"{secrets.token_hex(16)}.xml"  # unpredictable for the code under test
    sandbox.restore(pack({f"{FOLDER}/{path}": content for path, content in tree.items()}))
    ended = sandbox.python(_program(tree, paths, name, conftest), timeout=timeout)
    if ended.reason != ExitReason.EXIT:
        return Report(seconds=ended.seconds, problem=f"the tests were ended: {ended.reason}")
    try:
        document = sandbox.read(name)
    except OSError:
        return Report(seconds=ended.seconds, problem=f"no report (status {ended.exit_code}): {ended.text[-2000:].strip()}")
    return _read(document, ended)


_PROGRAM = """
import os, sys
here = os.getcwd()
sys.path[:] = [path for path in sys.path if path not in ('', here)]  # as python -P: nothing is imported from where we are
sys.dont_write_bytecode = True
os.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'
root = os.path.join(here, {folder!r})
os.chdir(root)
import pytest
words = ['-c', os.devnull, '--rootdir', root, '--junitxml', os.path.join(here, {name!r})]
words += ['-o', 'pythonpath=' + ' '.join("'" + os.path.join(root, part) + "'" for part in {roots!r})]
sys.exit(pytest.main(words + {options!r} + {paths!r}))
"""
_OPTIONS = [
    *("-q", "--no-header", "--tb=short", "--show-capture=no", "-p", "no:cacheprovider", "--import-mode=importlib"),
    "--continue-on-collection-errors",
    *("-o", "verbosity_assertions=2", "-o", "junit_family=xunit1", "-o", "python_files=test_*.py *_test.py"),
]


def _program(tree: Mapping[str, bytes], paths: list[str], name: str, conftest: bool) -> str:
    options = [*_OPTIONS, *([] if conftest else ["--noconftest"])]
    return _PROGRAM.format(folder=FOLDER, name=name, roots=roots(tree), options=options, paths=paths)


def _read(document: bytes, ended: ProgramResult) -> Report:
    if len(document) > LONGEST or b"<!DOCTYPE" in document or b"<!ENTITY" in document:
        return Report(seconds=ended.seconds, problem="the report is not one that pytest writes")
    try:
        root = ElementTree.fromstring(document.decode("utf-8"))  # as text, so that the document cannot choose an encoding
    except (ElementTree.ParseError, UnicodeDecodeError) as error:
        return Report(seconds=ended.seconds, problem=f"the report cannot be read: {error}")
    outcomes: dict[str, str] = {}
    messages: dict[str, str] = {}
    broken = False
    for case in root.iter("testcase"):
        test, outcome, message = _case(case)
        broken |= outcome == "failed"
        if test and outcomes.get(test) != "failed":
            outcomes[test] = outcome
        if message:
            messages.setdefault(test, message)
    if ended.exit_code not in (0, 1, 2) or (ended.exit_code == 0) == broken:
        problem = f"pytest ended with {ended.exit_code} and its report {'names' if broken else 'names no'} failures"
        return Report(seconds=ended.seconds, problem=f"{problem}: {ended.text[-2000:].strip()}")
    return Report(outcomes, messages, ended.seconds)


def _case(case: ElementTree.Element) -> tuple[str, str, str]:
    """Return a test's id, outcome and message; the id is empty for entries without a file, such as failed imports."""
    file, place, name = case.get("file", ""), case.get("classname", ""), case.get("name", "")
    dotted = re.sub(r"\.py$", "", file).replace("/", ".")
    classes = place.removeprefix(dotted).removeprefix(".").split(".") if place.startswith(dotted) else []
    test = "::".join([file, *(part for part in classes if part), name]) if file else ""
    for kind, outcome in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        problem = case.find(kind)
        if problem is not None:
            return test, outcome, f"{problem.get('message', '')}\n{problem.text or ''}".strip()
    return test, "passed", ""
