"""Evaluation of a patch on a SWE-bench instance: its image, its script, and `swebench`'s report on the log."""

import importlib
import importlib.util
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from agentgym.envs.swe.bench.rows import Row
from agentgym.envs.swe.tasks.suite import runs_tests
from agentgym.envs.swe.verdict import Verdict
from agentgym.errors import MissingExtra, how_to_install
from agentgym.sandbox.protocol import ExitReason, Sandbox, SandboxFault

_HEADER = re.compile(r"^(?:\+\+\+|---|\*\*\*|Index:|diff --git|(?:rename|copy) (?:from|to))\s(.*)$", re.MULTILINE)
_IN_GIT = re.compile(r"(?:^|[\s/\"])\.git/", re.IGNORECASE)
_PATCHED = re.compile(r"^diff --git a/(.+) b/\1$", re.MULTILINE)
WORK = "/testbed"
"""The repository's path in the images (`swebench.image_builder.constants.CONTAINER_WORKDIR`)."""
TIMEOUT = 1800.0
"""Time limit of the tests in seconds, swebench's default."""
APPLY = (
    "git apply --verbose",
    "git apply --verbose --3way",
    "git apply --verbose --reject",
    "patch --batch --forward --fuzz=5 -p1 -i",
)
"""Commands that apply a patch, tried in this order (`swebench.harness.run_evaluation.GIT_APPLY_CMDS`)."""


def evaluate(
    row: Row, patch: str, sandbox: Sandbox, *, restore: bool, timeout: float = TIMEOUT
) -> tuple[Verdict, dict[str, object]]:
    """Return the verdict on a patch and swebench's report, by its own steps in a fresh sandbox of the instance's image.

    `restore` resets tests and configuration changed by the patch, and rejects a log in which the tests printed the script's
    own marks; swebench itself does neither. The tests removed from a SWE-smith row are restored in any case, as in its own
    evaluation.
    """
    break_(sandbox, row)
    before = _untracked(sandbox)
    if _reaches_beyond(patch, before) or not applied(sandbox, patch):
        return Verdict(False, 0.0, 0.0, "The patch does not apply."), {}
    if restore:
        _put_back(sandbox, row, before)
    if row.removed:
        _check_out(sandbox, row.removed)
    sandbox.write("/tmp/eval.sh", _spec(row).eval_script.encode())
    result = sandbox.run("/bin/bash /tmp/eval.sh 2>&1", timeout=timeout)
    if result.reason != ExitReason.EXIT:
        return Verdict(False, 0.0, 0.0, f"The tests were ended: {result.reason}."), {}
    log = result.stdout.decode("utf-8", "replace")
    if restore and _marked_by_others(log):
        return Verdict(False, 0.0, 0.0, "The tests printed marks of the script that runs them."), {}
    report = report_of(row, patch, log)
    return _verdict(report), report


def _marked_by_others(log: str) -> bool:
    """Return whether a log has more marks than the script writes: swebench looks between the first two, whoever wrote them.

    The script is traced (`set -x`), so its marks stand in commands, and the exit status a second time, as it is printed.
    """
    constants = swebench("harness.constants")
    traced = log.partition(constants.START_TEST_OUTPUT)[0].rpartition("\n")[2].startswith("+")
    most = {constants.START_TEST_OUTPUT: 1, constants.END_TEST_OUTPUT: 1, constants.TEST_EXIT_CODE: 2 if traced else 1}
    return any(log.count(mark) > number for mark, number in most.items())


def report_of(row: Row, patch: str, log: str) -> dict[str, object]:
    """Return the result of `swebench.harness.grading.get_eval_report` for a log of an instance's script."""
    grading = swebench("harness.grading")
    prediction = {"instance_id": row.id, "model_name_or_path": "agentgym", "model_patch": patch}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test_output.txt"
        path.write_text(log, encoding="utf-8", newline="")
        report = grading.get_eval_report(_spec(row), prediction, str(path), include_tests_status=True)
    return report[row.id]


def check_installed() -> None:
    """Check that swebench is installed.

    Raises:
        MissingExtra: swebench is not installed.
    """
    if importlib.util.find_spec("swebench") is None:
        raise MissingExtra(f"grading by SWE-bench's rules needs swebench: {how_to_install('swebench')}")


def swebench(name: str) -> ModuleType:
    """Return a module of the `swebench` package.

    Raises:
        MissingExtra: the package is not installed.
        ModuleNotFoundError: a dependency of the module is missing.
    """
    try:
        return importlib.import_module(f"swebench.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "swebench":
            raise
        raise MissingExtra(f"grading by SWE-bench's rules needs swebench: {how_to_install('swebench')}") from error


def _spec(row: Row) -> Any:
    return swebench("harness.utils").make_test_spec(dict(row.row))


def _verdict(report: dict[str, Any]) -> Verdict:
    if "tests_status" not in report:
        reason = report.get("infra_failure_reason")
        return Verdict(False, 0.0, 0.0, "The tests did not run" + (f" ({reason})." if reason else "."))
    summary: list[str] = []
    shares: list[float] = []
    for column, what in (("FAIL_TO_PASS", "of the issue"), ("PASS_TO_PASS", "that passed before")):
        outcome = report["tests_status"][column]
        good, all_ = len(outcome["success"]), len(outcome["success"]) + len(outcome["failure"])
        shares.append(good / all_ if all_ else 1.0)
        summary.append(f"{good} of {all_} tests {what} pass")
    return Verdict(bool(report["resolved"]), shares[0], shares[1], f"{'; '.join(summary)}.")


def applied(sandbox: Sandbox, patch: str) -> bool:
    """Apply a patch as swebench does and return whether it succeeded."""
    sandbox.write("/tmp/patch.diff", patch.encode("utf-8", "surrogateescape"))
    for attempt, command in enumerate(APPLY):
        if attempt:
            sandbox.run("git checkout -- . ; git clean -fd")
        if sandbox.run(f"{command} /tmp/patch.diff").ok:
            return True
    return sandbox.run("git apply --check --reverse /tmp/patch.diff").ok


def apply(sandbox: Sandbox, patch: str) -> None:
    """Apply a patch of the instance itself.

    Raises:
        SandboxFault: the patch does not fit the image.
    """
    result = sandbox.run("git apply --binary --whitespace=nowarn -", stdin=patch.encode("utf-8", "surrogateescape"))
    if not result.ok:
        raise SandboxFault(f"the patch of the instance does not fit its image: {result.text[-500:]}")


def break_(sandbox: Sandbox, row: Row) -> None:
    """Create the state a SWE-smith row's agent gets: with the bug, without the tests that notice it."""
    if row.bug:
        apply(sandbox, row.bug)
    for path in row.removed:
        sandbox.run(["/bin/rm", "-f", "--", path])


def _put_back(sandbox: Sandbox, row: Row, before: set[str]) -> None:
    """Restore tests and test configuration that a patch changed or added and the known repair did not.

    `before` are the image's files outside git.
    """
    changed = _paths(sandbox, "git diff --name-only --no-renames -z HEAD") | _untracked(sandbox) - before
    repaired = set(_PATCHED.findall(row.row["patch"]))
    tests = {test.partition("::")[0] for column in ("FAIL_TO_PASS", "PASS_TO_PASS") for test in row.tests(column)}
    _check_out(
        sandbox, sorted(path for path in changed if path not in repaired and (path in tests or runs_tests(path, repaired)))
    )


def _reaches_beyond(patch: str, untracked: set[str]) -> bool:
    """Return whether a patch touches git's own folder, or untracked test configuration that git could not restore.

    `git apply` refuses the former and `patch` does not: a hook would run during grading.
    """
    for header in _HEADER.findall(patch):
        named = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), header)
        path = named.partition("\t")[0].strip().strip('"').partition("/")[2]
        if _IN_GIT.search(named) or (path in untracked and runs_tests(path)):
            return True
    return False


def _untracked(sandbox: Sandbox) -> set[str]:
    """Return the untracked files, including ignored ones, since a patch may bring its own `.gitignore`."""
    return _paths(sandbox, "git ls-files -z --others")


def _paths(sandbox: Sandbox, command: str) -> set[str]:
    listed = sandbox.run(command).stdout.decode("utf-8", "surrogateescape")
    return set(listed.split("\0")) - {""}


def _check_out(sandbox: Sandbox, paths: Iterable[str]) -> None:
    """Restore files to the image's versions; files it does not have are removed.

    Raises:
        SandboxFault: a file cannot be restored.
    """
    for path in paths:
        script = 'rm -rf -- "$1"; git -c core.hooksPath=/dev/null checkout -q HEAD -- "$1" || ! git cat-file -e "HEAD:$1"'
        result = sandbox.run(["/bin/sh", "-c", script, "sh", path])
        if not result.ok:
            raise SandboxFault(f"{path} cannot be put back: {result.text[-300:]}")
