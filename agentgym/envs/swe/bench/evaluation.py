"""Whether a patch resolves an instance of SWE-bench: its image, its script, and what `swebench` says of the log."""

import importlib
import importlib.util
import tempfile
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from agentgym.envs.swe.bench.rows import Row
from agentgym.envs.swe.tasks.suite import CONFIGURATION
from agentgym.envs.swe.verdict import Verdict
from agentgym.errors import MissingExtra, how_to_install
from agentgym.sandbox.protocol import Sandbox, SandboxFault

WORK = "/testbed"
"""Where the images have the repository (`swebench.image_builder.constants.CONTAINER_WORKDIR`)."""
TIMEOUT = 1800.0
"""Seconds for the tests, swebench's default."""
APPLY = (
    "git apply --verbose",
    "git apply --verbose --3way",
    "git apply --verbose --reject",
    "patch --batch --forward --fuzz=5 -p1 -i",
)
"""Ways to apply a patch, tried in this order (`swebench.harness.run_evaluation.GIT_APPLY_CMDS`)."""
DECIDING = (CONFIGURATION - {"setup.py"}) | {"sitecustomize.py", "usercustomize.py"}
"""Files that decide how tests are run: an environment takes them as they were, unless the repair itself is in them."""


def evaluate(
    row: Row, patch: str, sandbox: Sandbox, *, restore: bool, timeout: float = TIMEOUT
) -> tuple[Verdict, dict[str, object]]:
    """Return the verdict on a patch and swebench's report, by its own steps in a fresh sandbox of the instance's image.

    `restore` puts back configuration that the patch changed, which swebench itself does not do.
    """
    if row.bug:
        apply(sandbox, row.bug)
    if not applied(sandbox, patch):
        return Verdict(False, 0.0, 0.0, "The patch does not apply."), {}
    if restore:
        _put_back(sandbox, row)
    sandbox.write("/tmp/eval.sh", _spec(row).eval_script.encode())
    result = sandbox.run("/bin/bash /tmp/eval.sh 2>&1", timeout=timeout)
    if result.reason != "exit":
        return Verdict(False, 0.0, 0.0, f"The tests were ended: {result.reason}."), {}
    report = report_of(row, patch, result.stdout.decode("utf-8", "replace"))
    return _verdict(report), report


def report_of(row: Row, patch: str, log: str) -> dict[str, object]:
    """Return what `swebench.harness.grading.get_eval_report` says about a log of an instance's script."""
    grading = swebench("harness.grading")
    prediction = {"instance_id": row.id, "model_name_or_path": "agentgym", "model_patch": patch}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test_output.txt"
        path.write_text(log, encoding="utf-8", newline="")
        report = grading.get_eval_report(_spec(row), prediction, str(path), include_tests_status=True)
    return report[row.id]


def check_installed() -> None:
    """Raise MissingExtra where the package is missing."""
    if importlib.util.find_spec("swebench") is None:
        raise MissingExtra(f"grading by SWE-bench's rules needs swebench: {how_to_install('swebench')}")


def swebench(name: str) -> ModuleType:
    """Return a module of the `swebench` package; MissingExtra where it is not installed."""
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
    said: list[str] = []
    shares: list[float] = []
    for column, what in (("FAIL_TO_PASS", "of the issue"), ("PASS_TO_PASS", "that passed before")):
        outcome = report["tests_status"][column]
        good, all_ = len(outcome["success"]), len(outcome["success"]) + len(outcome["failure"])
        shares.append(good / all_ if all_ else 1.0)
        said.append(f"{good} of {all_} tests {what} pass")
    return Verdict(bool(report["resolved"]), shares[0], shares[1], f"{'; '.join(said)}.")


def applied(sandbox: Sandbox, patch: str) -> bool:
    """Apply a patch as swebench does and return whether that went well."""
    sandbox.write("/tmp/patch.diff", patch.encode("utf-8", "surrogateescape"))
    for attempt, command in enumerate(APPLY):
        if attempt:
            sandbox.run("git checkout -- . ; git clean -fd")
        if sandbox.run(f"{command} /tmp/patch.diff").ok:
            return True
    return sandbox.run("git apply --check --reverse /tmp/patch.diff").ok


def apply(sandbox: Sandbox, patch: str) -> None:
    """Apply a patch of the instance's own; SandboxFault where it does not fit its image."""
    result = sandbox.run("git apply --binary --whitespace=nowarn -", stdin=patch.encode("utf-8", "surrogateescape"))
    if not result.ok:
        raise SandboxFault(f"the patch of the instance does not fit its image: {result.text[-500:]}")


def _put_back(sandbox: Sandbox, row: Row) -> None:
    """Put back configuration that a patch changed or added."""
    listed = sandbox.run("git diff --name-only -z HEAD; git ls-files -z --others --exclude-standard").stdout.decode(
        "utf-8", "replace"
    )
    for path in listed.split("\0"):
        if PurePosixPath(path).name in DECIDING and f"a/{path} " not in row.row["patch"]:
            sandbox.run(["/bin/sh", "-c", 'git checkout -q HEAD -- "$1" || rm -f -- "$1"', "sh", path])
