#!/bin/sh
# A report of Multi-SWE-bench is valid although a test that passed before the solution did not run after it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check multi-swe-bench==1.1.2
cat >"$folder/probe.py" <<'END'
import sys
from importlib.metadata import version

from multi_swe_bench.harness import repos  # noqa: F401  registers the parsers of repositories
from multi_swe_bench.harness.image import Config
from multi_swe_bench.harness.instance import Instance
from multi_swe_bench.harness.pull_request import Base, PullRequest
from multi_swe_bench.harness.report import generate_report
from multi_swe_bench.harness.test_result import TestResult


def stage(passed: set[str], failed: set[str]) -> TestResult:
    counts = {"passed_count": len(passed), "failed_count": len(failed), "skipped_count": 0}
    return TestResult(**counts, passed_tests=passed, failed_tests=failed, skipped_tests=set())


texts = {name: "" for name in ("state", "title", "body", "fix_patch", "test_patch")}
request = PullRequest(org="cli", repo="cli", number=5, base=Base(label="", ref="", sha=""), resolved_issues=[], **texts)
instance = Instance.create(request, Config(need_clone=False, global_env=None, clear_env=False))
before, tested = stage({"TestTotal"}, set()), stage({"TestTotal"}, {"TestDiscount"})
report = generate_report(instance, before, tested, "--- PASS: TestDiscount (0.00s)\n")
print("multi-swe-bench", version("multi-swe-bench"))
print("expected: not valid, since TestTotal passed before and is missing now")
print("seen: valid", report.valid, "| pass to pass", sorted(report.p2p_tests), "|", report.error_msg or "no error")
sys.exit(report.valid is not True or "TestTotal" in report.p2p_tests)
END
"$folder/venv/bin/python" "$folder/probe.py"
