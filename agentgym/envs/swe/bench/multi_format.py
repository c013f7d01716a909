"""Rows of Multi-SWE-bench and Multi-SWE-RL: scripts are in the image, log parsers in the package `multi-swe-bench`."""

import importlib.util
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

from agentgym.envs.swe.bench.own_code import answer_about_log
from agentgym.envs.swe.bench.row import FreshSandbox, Row, RowFormat, must, repository_of, text_of, verdict_of
from agentgym.envs.swe.verdict import Verdict
from agentgym.errors import MissingExtra
from agentgym.sandbox.protocol import Result, Sandbox

GROUPS = ("f2p_tests", "n2p_tests", "s2p_tests", "p2p_tests")
"""Columns of tests by their status before and after the solution: fail, none or skip to pass, and pass to pass."""
_SECRETS = "rm -f -- /home/*.patch /home/test-run.sh /home/fix-run.sh /home/test_run.sh /home/fix_run.sh"
_STAGED = "git add -f --pathspec-from-file=- --pathspec-file-nul && git diff --cached --binary --no-color --no-ext-diff HEAD"
_REPORT = """
from multi_swe_bench.harness import repos
from multi_swe_bench.harness.image import Config
from multi_swe_bench.harness.instance import Instance
from multi_swe_bench.harness.pull_request import Base, PullRequest
from multi_swe_bench.harness.report import generate_report
from multi_swe_bench.harness.test_result import TestResult
row, counts, names = question["row"], ("passed_count", "failed_count", "skipped_count"), {}
def result(stage):
    lists = ("passed_tests", "failed_tests", "skipped_tests")
    return TestResult(**{name: stage[name] for name in counts}, **{name: set(stage[name]) for name in lists})
more = {name: row[name] for name in ("tag", "number_interval", "lang") if row.get(name)}
request = PullRequest(org=row["org"], repo=row["repo"], number=row["number"], state="", title="", body="",
                      base=Base(label="", ref="", sha=""), resolved_issues=[], fix_patch="", test_patch="", **more)
instance = Instance.create(request, Config(need_clone=False, global_env=None, clear_env=False))
report = generate_report(instance, result(row["run_result"]), result(row["test_patch_result"]), question["log"])
groups = ("f2p_tests", "n2p_tests", "s2p_tests", "p2p_tests")
answer = {"valid": report.valid, "error_msg": report.error_msg, **{name: sorted(getattr(report, name)) for name in groups}}
"""
_COLUMNS = ("org", "repo", "number", "tag", "number_interval", "lang", "run_result", "test_patch_result")
_KNOWN = (
    "org repo number state title body base resolved_issues fix_patch test_patch tag number_interval lang fixed_tests "
    "run_result test_patch_result fix_patch_result hints"
)


class MultiSWEFormat(RowFormat):
    """Multi-SWE-bench and Multi-SWE-RL: the image's `fix-run.sh`, and the report of the package `multi-swe-bench`.

    Resolved: the package calls the report valid, and the report puts every test into the same group as the row does.
    """

    name = "Multi-SWE-bench"
    known = frozenset((*_KNOWN.split(), *GROUPS))
    apply = ("git apply --whitespace=nowarn",)

    def owns(self, columns: Collection[str]) -> bool:
        return all(name in columns for name in ("org", "repo", "number", "fix_patch"))

    def requires(self) -> None:
        if importlib.util.find_spec("multi_swe_bench") is None:
            raise MissingExtra("rows of Multi-SWE-bench are graded by its own package: pip install multi-swe-bench")

    def read(self, raw: Mapping[str, object], checkout: Path | None) -> Row:
        number = raw["number"]
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"number is {number!r:.80}; expected the number of a pull request")
        owner, name = text_of(raw, "org"), text_of(raw, "repo")
        repo = repository_of({"repo": f"{owner}/{name}"})
        groups = {name: _tests(raw.get(name)) for name in GROUPS}
        fixed = [test for name in GROUPS[:3] for test in groups[name]]
        if not fixed:
            raise ValueError("no test in f2p_tests, s2p_tests or n2p_tests")
        for stage in ("run_result", "test_patch_result"):
            _check_stage(stage, raw.get(stage))
        columns = {
            **raw,
            **groups,
            "instance_id": f"{repo}:pr-{number}",
            "image": f"mswebench/{owner}_m_{name}:pr-{number}".lower(),
            "problem_statement": _issue(raw),
            "patch": text_of(raw, "fix_patch"),
            "test_patch": text_of(raw, "test_patch"),
            "FAIL_TO_PASS": fixed,
            "PASS_TO_PASS": groups["p2p_tests"],
        }
        return Row(columns, self, work=f"/home/{name}")

    def hide(self, sandbox: Sandbox, row: Row) -> None:
        must(sandbox, _SECRETS, f"the solution in {row.image} cannot be removed")

    def run(self, sandbox: Sandbox, row: Row, timeout: float, untracked: Collection[str]) -> Result:
        """Write the submitted patch and the test patch to the files that `fix-run.sh` applies, and run this script."""
        sandbox.write("/home/fix.patch", _submitted(sandbox, untracked))
        sandbox.write("/home/test.patch", row.row["test_patch"].encode("utf-8", "surrogateescape"))
        return sandbox.run("/bin/bash /home/fix-run.sh 2>&1", timeout=timeout)

    def judge(
        self, row: Row, patch: str, result: Result, *, restore: bool, elsewhere: FreshSandbox
    ) -> tuple[Verdict, dict[str, object]]:
        columns = {name: row.row.get(name) for name in _COLUMNS}
        log = result.stdout.decode("utf-8", "replace")
        answer = answer_about_log(None, _REPORT, {"row": columns, "log": log})
        report = cast("dict[str, Any]", answer if isinstance(answer, dict) else {})
        missing = [test for name in GROUPS for test in row.row[name] if test not in report.get(name, ())]
        resolved = report.get("valid") is True and not missing
        passed = [test for name in GROUPS for test in report.get(name, ())]
        return verdict_of(row, passed, resolved), {**report, "resolved": resolved}


def _submitted(sandbox: Sandbox, untracked: Collection[str]) -> bytes:
    """Return the changes in the repository as a patch, and undo them."""
    listed = sandbox.run("git diff --name-only --no-renames -z HEAD; git ls-files -z --others").stdout.split(b"\0")
    changed = [path for path in listed if path and path.decode("utf-8", "surrogateescape") not in untracked]
    if not changed:
        return b""
    patch = sandbox.run(_STAGED, stdin=b"\0".join(changed)).stdout
    sandbox.run("git reset -q --hard HEAD")
    return patch


def _tests(group: object) -> list[str]:
    """Return the names of a group's tests. Tables loaded by `datasets` have empty entries for tests of other rows."""
    table = cast("dict[str, object]", group if isinstance(group, dict) else {})
    return [name for name, statuses in table.items() if statuses]


def _issue(raw: Mapping[str, object]) -> str:
    """Return title and body of the resolved issues, or of the pull request if it resolves no issue."""
    issues = cast("list[dict[str, object]]", raw.get("resolved_issues") or [raw])
    return "\n\n".join(f"{issue.get('title') or ''}\n\n{issue.get('body') or ''}".strip() for issue in issues)


def _check_stage(name: str, stage: object) -> None:
    table = cast("dict[str, object]", stage if isinstance(stage, dict) else {})
    for kind in ("passed", "failed", "skipped"):
        tests = table.get(f"{kind}_tests")
        if not isinstance(tests, list) or table.get(f"{kind}_count") != len(cast("list[object]", tests)):
            raise ValueError(f"{name} has no {kind}_tests with as many names as {kind}_count")
