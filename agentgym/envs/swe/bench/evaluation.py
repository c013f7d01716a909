"""Evaluate a patch on a row: run the hidden tests in a fresh container, and apply the rule of the row's data set."""

import re
from collections.abc import Iterable

from agentgym.envs.swe.bench.row import FreshSandbox, Row
from agentgym.envs.swe.tasks.suite import runs_tests
from agentgym.envs.swe.verdict import Verdict
from agentgym.sandbox.protocol import ExitReason, Result, Sandbox, SandboxFault

_HEADER = re.compile(r"^(?:\+\+\+|---|\*\*\*|Index:|diff --git|(?:rename|copy) (?:from|to))\s(.*)$", re.MULTILINE)
_IN_GIT = re.compile(r"(?:^|[\s/\"])\.git/", re.IGNORECASE)
_PATCHED = re.compile(r"^diff --git a/(.+) b/\1$", re.MULTILINE)
TIMEOUT = 1800.0
"""Time limit of the tests in seconds, swebench's default."""


def evaluate(
    row: Row, patch: str, elsewhere: FreshSandbox, *, restore: bool, timeout: float = TIMEOUT
) -> tuple[Verdict, dict[str, object]]:
    """Evaluate a patch as the row's data set does; return the verdict and the data set's report (empty without results).

    `restore` resets tests and configuration that the patch changed, and rejects a log with more markers of the test script
    than the script prints; the data sets' own evaluations do neither. The tests that were removed from a SWE-smith row are
    always restored, as in SWE-smith's own evaluation.
    """
    ran = elsewhere(lambda sandbox: _run(row, patch, sandbox, restore, timeout))
    if isinstance(ran, Verdict):
        return ran, {}
    if ran.reason != ExitReason.EXIT:
        return Verdict(False, 0.0, 0.0, f"The tests were ended: {ran.reason}."), {}
    return row.rules.judge(row, patch, ran, restore=restore, elsewhere=elsewhere)


def _run(row: Row, patch: str, sandbox: Sandbox, restore: bool, timeout: float) -> Result | Verdict:
    rules = row.rules
    rules.set_up(sandbox, row)
    break_(sandbox, row)
    before = _untracked(sandbox)
    patch = rules.cleaned(patch)
    if _reaches_beyond(patch, before) or not applied(sandbox, patch, rules.apply):
        return Verdict(False, 0.0, 0.0, "The patch does not apply.")
    if restore:
        _put_back(sandbox, row, before)
    if row.removed:
        _check_out(sandbox, row.removed)
    return rules.run(sandbox, row, timeout, before)


def applied(sandbox: Sandbox, patch: str, commands: Iterable[str]) -> bool:
    """Apply a patch with the first command that succeeds; return False if all fail and it is not applied already."""
    sandbox.write("/tmp/patch.diff", patch.encode("utf-8", "surrogateescape"))
    for attempt, command in enumerate(commands):
        if attempt:
            sandbox.run("git checkout -- . ; git clean -fd")
        if sandbox.run(f"{command} /tmp/patch.diff").ok:
            return True
    return sandbox.run("git apply --check --reverse /tmp/patch.diff").ok


def apply(sandbox: Sandbox, patch: str) -> None:
    """Apply a patch that belongs to the instance, such as its bug.

    Raises:
        SandboxFault: the patch does not fit the image.
    """
    result = sandbox.run("git apply --binary --whitespace=nowarn -", stdin=patch.encode("utf-8", "surrogateescape"))
    if not result.ok:
        raise SandboxFault(f"the patch of the instance does not fit its image: {result.text[-500:]}")


def break_(sandbox: Sandbox, row: Row) -> None:
    """Create the agent's initial state: for SWE-smith, apply the bug and remove the tests that reveal it."""
    if row.bug:
        apply(sandbox, row.bug)
    for path in row.removed:
        sandbox.run(["/bin/rm", "-f", "--", path])


def _put_back(sandbox: Sandbox, row: Row, before: set[str]) -> None:
    """Restore tests and test configuration that the patch changed or added, except those that the gold patch changes.

    `before` lists the files that were untracked before the patch.
    """
    changed = _paths(sandbox, "git diff --name-only --no-renames -z HEAD") | _untracked(sandbox) - before
    repaired = set(_PATCHED.findall(row.row["patch"]))
    tests = {test.partition("::")[0] for column in ("FAIL_TO_PASS", "PASS_TO_PASS") for test in row.tests(column)}
    tests |= {*row.test_files, *_PATCHED.findall(row.row.get("test_patch") or "")}
    _check_out(
        sandbox, sorted(path for path in changed if path not in repaired and (path in tests or runs_tests(path, repaired)))
    )


def _reaches_beyond(patch: str, untracked: set[str]) -> bool:
    """Return True if a patch touches `.git`, or untracked test configuration, which git could not restore.

    The program `patch`, unlike `git apply`, can write to `.git`: a hook written there would run during grading.
    """
    for header in _HEADER.findall(patch):
        named = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), header)
        path = named.partition("\t")[0].strip().strip('"').partition("/")[2]
        if _IN_GIT.search(named) or (path in untracked and runs_tests(path)):
            return True
    return False


def _untracked(sandbox: Sandbox) -> set[str]:
    """Return the untracked files, including ignored ones, since a patch may change `.gitignore`."""
    return _paths(sandbox, "git ls-files -z --others")


def _paths(sandbox: Sandbox, command: str) -> set[str]:
    listed = sandbox.run(command).stdout.decode("utf-8", "surrogateescape")
    return set(listed.split("\0")) - {""}


def _check_out(sandbox: Sandbox, paths: Iterable[str]) -> None:
    """Restore files to the image's versions, and remove files that the image does not have.

    Raises:
        SandboxFault: a file cannot be restored.
    """
    for path in paths:
        script = 'rm -rf -- "$1"; git -c core.hooksPath=/dev/null checkout -q HEAD -- "$1" || ! git cat-file -e "HEAD:$1"'
        result = sandbox.run(["/bin/sh", "-c", script, "sh", path])
        if not result.ok:
            raise SandboxFault(f"{path} cannot be put back: {result.text[-300:]}")
