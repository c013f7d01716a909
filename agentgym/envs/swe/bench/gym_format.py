"""Rows of SWE-Gym, with SWE-bench's columns; a fork of swebench has the test commands and log parsers by repository."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

from agentgym.envs.swe.bench.own_code import answer_about_log, answered, names
from agentgym.envs.swe.bench.row import FreshSandbox, Row, RowFormat, checkout_of, listed, repository_of, text_of, verdict_of
from agentgym.envs.swe.verdict import Verdict
from agentgym.sandbox.protocol import Result, Sandbox, SandboxFault

REPOSITORY = "github.com/SWE-Gym/SWE-Bench-Fork"
TABLES = "swebench/harness/log_parsers.py"
_FORK = """
import types
def module(name, **names):
    made = sys.modules[name] = types.ModuleType(name)
    made.__dict__.update(names)
for name in ("swebench", "swebench.harness"):  # without their __init__, which imports much more
    module(name, __path__=[os.path.join(root, *name.split("."))])
module("datasets", Dataset=None, load_dataset=None)  # imported, and not used here
module("dotenv", load_dotenv=lambda: None)
module("requests")
from swebench.harness.constants import MAP_REPO_VERSION_TO_SPECS
from swebench.harness.log_parsers import MAP_REPO_TO_PARSER
"""
_LIST = f"""{_FORK}
answer = [f"{{repo}} {{version}}" for repo, specs in MAP_REPO_VERSION_TO_SPECS.items() for version in specs
          if repo in MAP_REPO_TO_PARSER]
"""
_SCRIPT = f"""{_FORK}
from swebench.harness.test_spec import make_eval_script_list
row = question["row"]
specs = MAP_REPO_VERSION_TO_SPECS[row["repo"].lower()][row["version"]]
lines = make_eval_script_list(row, specs, "testbed", "/testbed", row["base_commit"], row["test_patch"])
answer = "\\n".join(["#!/bin/bash", "set -xo pipefail", *lines]) + "\\n"
"""
_REPORT = f"""{_FORK}
from swebench.harness.grading import get_eval_tests_report, get_resolution_status
statuses = MAP_REPO_TO_PARSER[question["repo"]](question["log"])
report = get_eval_tests_report(statuses, question["tests"])
answer = {{"status": get_resolution_status(report), "tests_status": report}}
"""
_KNOWN = (
    "instance_id hints_text patch test_patch created_at problem_statement repo base_commit version pass_to_pass fail_to_pass"
)


class SWEGymFormat(RowFormat):
    """SWE-Gym: the script, log parser and `get_resolution_status` of its fork of swebench.

    The fork does not count skipped tests. Code under test could skip its tests, so a reward also requires that every test
    of FAIL_TO_PASS passes.
    """

    name = "SWE-Gym"
    known = frozenset(_KNOWN.split())
    split = "train"
    apply = ("git apply --allow-empty -v", "patch --batch --fuzz=5 -p1 -i")

    def owns(self, columns: Collection[str]) -> bool:
        """Return True if a row has a test patch, but no image, script or environment, which similar data sets' rows have."""
        others = ("image", "image_name", "docker_image", "eval_script", "environment_setup_commit", "install_config")
        return "instance_id" in columns and "test_patch" in columns and not any(name in columns for name in others)

    def read(self, raw: Mapping[str, object], checkout: Path | None) -> Row:
        root = checkout_of(checkout, TABLES, REPOSITORY)
        for name in ("instance_id", "base_commit", "patch", "test_patch", "problem_statement"):
            text_of(raw, name)
        listed(raw.get("PASS_TO_PASS"))
        if not listed(raw.get("FAIL_TO_PASS")):
            raise ValueError(f"instance {raw['instance_id']!r} has no test in FAIL_TO_PASS")
        repo, version = repository_of(raw).lower(), raw.get("version")
        if f"{repo} {version}" not in names(root, _LIST):
            raise ValueError(f"version {version!r} of {repo} is not in the tables of {root}")
        id = text_of(raw, "instance_id").lower().replace("__", "_s_")
        return Row({**raw, "image": f"xingyaoww/sweb.eval.x86_64.{id}:latest"}, self, checkout=root)

    def run(self, sandbox: Sandbox, row: Row, timeout: float, untracked: Collection[str]) -> Result:
        script = answered(row.checkout, _SCRIPT, {"row": {name: row.row.get(name) for name in _SCRIPT_COLUMNS}})
        if not isinstance(script, str):
            raise SandboxFault(f"the fork of swebench in {row.checkout} makes no script for {row.id}")
        sandbox.write("/tmp/eval.sh", script.encode("utf-8", "surrogateescape"))
        return sandbox.run("/bin/bash /tmp/eval.sh 2>&1", timeout=timeout)

    def judge(
        self, row: Row, patch: str, result: Result, *, restore: bool, elsewhere: FreshSandbox
    ) -> tuple[Verdict, dict[str, object]]:
        tests = {name: row.tests(name) for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
        log = result.stdout.decode("utf-8", "replace")
        question: dict[str, object] = {"repo": row.repo.lower(), "tests": tests, "log": log}
        answer = answer_about_log(row.checkout, _REPORT, question)
        report = cast("dict[str, Any]", answer if isinstance(answer, dict) else {})
        outcome = report.get("tests_status", {})
        passed = [test for name in tests for test in outcome.get(name, {}).get("success", [])]
        all_fixed = set(tests["FAIL_TO_PASS"]) <= set(passed)
        resolved = report.get("status") == "RESOLVED_FULL" and bool(passed) and (all_fixed or not restore)
        return verdict_of(row, passed, resolved), {**report, "resolved": resolved}


_SCRIPT_COLUMNS = ("instance_id", "repo", "version", "base_commit", "test_patch", "patch", "problem_statement")
