"""Rows of SWE-bench and SWE-smith, which the `swebench` package grades."""

import importlib
import importlib.util
import shlex
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from agentgym.envs.swe.bench.row import FreshSandbox, Row, RowFormat, listed
from agentgym.envs.swe.verdict import Verdict
from agentgym.errors import MissingExtra, how_to_install
from agentgym.sandbox.protocol import Result, Sandbox

COLUMNS = ("instance_id", "repo", "base_commit", "problem_statement", "patch", "FAIL_TO_PASS", "PASS_TO_PASS")
_COLUMNS = frozenset(COLUMNS)
OF_5 = ("image", "eval_script", "log_parser", "eval_type")
"""Columns that swebench 5 added, so that grading needs no table of repositories."""
_FURTHER = (
    "version test_patch hints_text created_at environment_setup_commit image_name docker_image test_cmd difficulty meta "
    "install_config environment license_name fail_to_fail pass_to_fail pr_description language "
    "repo_language image_assets prompt strategy"
)
KNOWN = frozenset((*(name.lower() for name in COLUMNS), *OF_5, *_FURTHER.split()))
"""Known columns of SWE-bench, SWE-smith and SWE-rebench. Hints are not shown, as in these data sets' own prompts."""
SMITH_EVAL = """#!/bin/bash
set -uxo pipefail
{activate}cd /testbed
: '>>>>> Start Test Output'
{command}
: '>>>>> End Test Output'
"""
"""Template of the script that runs a SWE-smith instance's tests; it prints the same markers as SWE-bench's scripts."""
ACTIVATE = "source /opt/miniconda3/bin/activate\nconda activate testbed\n"
PYTEST = "pytest --disable-warnings --color=no --tb=no -rA"
SCRIPT = "/tmp/eval.sh"


class OtherLanguage(ValueError):
    """Raised for a row with tests in a language other than Python, but without a test command or a log parser."""


class SWEBenchFormat(RowFormat):
    """SWE-bench, Lite and Verified in the form of swebench 5: the row's own script, and swebench's report on its log."""

    name = "SWE-bench"
    known = KNOWN

    def owns(self, columns: Collection[str]) -> bool:
        return "instance_id" in columns

    def read(self, raw: Mapping[str, object], checkout: Path | None) -> Row:
        _complete(raw, COLUMNS)
        if not all(map(raw.get, OF_5)):
            missing = [name for name in OF_5 if not raw.get(name)]
            raise ValueError(
                f"instance {raw['instance_id']!r} has no {missing[0]!r}: it is of the time before swebench 5, which put "
                f"{', '.join(OF_5)} into the data: take the present revision of the data set (rows of SWE-Gym need "
                "checkout=FOLDER, a clone of github.com/SWE-Gym/SWE-Bench-Fork)"
            )
        return Row(raw, self)

    def requires(self) -> None:
        check_installed()

    def run(self, sandbox: Sandbox, row: Row, timeout: float, untracked: Collection[str]) -> Result:
        sandbox.write(SCRIPT, spec(row).eval_script.encode())
        return sandbox.run(f"/bin/bash {SCRIPT} 2>&1", timeout=timeout)

    def judge(
        self, row: Row, patch: str, result: Result, *, restore: bool, elsewhere: FreshSandbox
    ) -> tuple[Verdict, dict[str, object]]:
        log = result.stdout.decode("utf-8", "replace")
        if restore and _marked_by_others(log):
            return Verdict(False, 0.0, 0.0, "The tests printed marks of the script that runs them."), {}
        report = report_of(row, patch, log)
        return _verdict(report), report


class SWESmithFormat(SWEBenchFormat):
    """SWE-smith: the row's patch adds the bug, and the tests that reveal it are removed for the agent."""

    name = "SWE-smith"

    def owns(self, columns: Collection[str]) -> bool:
        return (
            "instance_id" in columns
            and "image_name" in columns
            and "eval_script" not in columns
            and "test_patch" not in columns
        )

    def read(self, raw: Mapping[str, object], checkout: Path | None) -> Row:
        _complete(raw, tuple(name for name in COLUMNS if name != "base_commit"))
        return Row(_smith(raw), self, bug=str(raw["patch"]), removed=_files(listed(raw["FAIL_TO_PASS"])))


def _complete(row: Mapping[str, object], columns: tuple[str, ...]) -> None:
    if not row.keys() >= _COLUMNS:
        missing = [name for name in columns if name not in row]
        if missing:
            raise ValueError(f"no column {missing[0]!r}; expected {', '.join(COLUMNS)}")
    if not listed(row["FAIL_TO_PASS"]):
        raise ValueError(f"instance {row['instance_id']!r} has no test in FAIL_TO_PASS")


def _smith(row: Mapping[str, object]) -> dict[str, object]:
    tests = [*listed(row["FAIL_TO_PASS"]), *listed(row["PASS_TO_PASS"])]
    others = [test for test in tests if not test.partition("::")[0].endswith(".py")]
    command, parser = row.get("test_cmd"), row.get("log_parser")
    if others and not (isinstance(command, str) and isinstance(parser, str)):
        raise OtherLanguage(
            f"instance {row['instance_id']!r} has the test {others[0][:80]!r}, which is none of pytest's: rows of other "
            "languages need their own test_cmd and log_parser (a parser of swebench, such as parse_log_gotest)"
        )
    files = " ".join(map(shlex.quote, _files(tests)))
    script = SMITH_EVAL.format(activate="" if others else ACTIVATE, command=command if others else f"{PYTEST} {files}")
    return {
        "base_commit": "HEAD",
        "version": "",
        **row,
        "image": row["image_name"],
        "eval_script": script,
        "log_parser": parser if others else "parse_log_pytest",
        "eval_type": "pass_and_fail",
    }


def _files(tests: list[str]) -> tuple[str, ...]:
    """Return the Python files named in test ids; empty for other languages, whose test names have no file."""
    return tuple(sorted({file for file in (test.partition("::")[0] for test in tests) if file.endswith(".py")}))


# swebench


def report_of(row: Row, patch: str, log: str) -> dict[str, object]:
    """Return the report of `swebench.harness.grading.get_eval_report` on the log of an instance's test script."""
    grading = swebench("harness.grading")
    prediction = {"instance_id": row.id, "model_name_or_path": "agentgym", "model_patch": patch}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test_output.txt"
        path.write_text(log, encoding="utf-8", newline="")
        report = grading.get_eval_report(spec(row), prediction, str(path), include_tests_status=True)
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


def spec(row: Row) -> Any:
    """Return swebench's `TestSpec` of a row."""
    return swebench("harness.utils").make_test_spec(dict(row.row))


def _marked_by_others(log: str) -> bool:
    """Return True if a log has more markers than the test script prints.

    Swebench reads the text between the first two markers, so a test could forge its result by printing them. Tracing
    (`set -x`) shows each marker in its command; the marker of the exit status then appears again when it is printed.
    """
    constants = swebench("harness.constants")
    traced = log.partition(constants.START_TEST_OUTPUT)[0].rpartition("\n")[2].startswith("+")
    most = {constants.START_TEST_OUTPUT: 1, constants.END_TEST_OUTPUT: 1, constants.TEST_EXIT_CODE: 2 if traced else 1}
    return any(log.count(mark) > number for mark, number in most.items())


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
