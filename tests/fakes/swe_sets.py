"""Rows in the layouts of SWE-rebench-V2, SWE-Gym, R2E-Gym, SWE-bench Pro and Multi-SWE-bench, and stand-ins for the code
of their repositories: all of our own making. AGENTGYM_SWE_CHECKOUTS names a folder of genuine clones to use instead.
"""

import json
import os
from pathlib import Path

SETS = ("rebench", "gym", "r2e", "pro", "multi")
CLONES = {"rebench": "SWE-rebench-V2", "gym": "SWE-Bench-Fork"}
PATCH = """diff --git a/purse.py b/purse.py
--- a/purse.py
+++ b/purse.py
@@ -7 +7 @@
-    return whole + whole * discount // 100
+    return whole - whole * discount // 100
"""
TEST_PATCH = """diff --git a/tests/test_purse.py b/tests/test_purse.py
--- a/tests/test_purse.py
+++ b/tests/test_purse.py
@@ -1 +1 @@
-old
+new
"""
FAILING = ["tests/test_purse.py::test_discount"]
PASSING = ["tests/test_purse.py::test_total"]
PRO_ID = "instance_acme__purse-0123abcd"


def stage(passed, failed):
    return {
        **{f"{kind}_count": len(tests) for kind, tests in (("passed", passed), ("failed", failed), ("skipped", []))},
        **{f"{kind}_tests": tests for kind, tests in (("passed", passed), ("failed", failed), ("skipped", []))},
    }


def rows(patch=PATCH, test_patch=TEST_PATCH, base="0123456789abcdef", tests="fedcba98", failing=FAILING, passing=PASSING):
    """Return a row of each set about the same bug; `tests` is the commit that has the hidden tests."""
    common = {"patch": patch, "test_patch": test_patch, "base_commit": base}
    issue = "The discount is added."
    expected = {".".join(test.split("::")[1:]): "PASSED" for test in [*failing, *passing]}
    groups = {"f2p_tests": ("PASS", "FAIL", failing), "p2p_tests": ("PASS", "PASS", passing)}
    named = {
        name: {test: {"run": run, "test": before, "fix": "PASS"} for test in listed}
        for name, (run, before, listed) in groups.items()
    }
    return {
        "rebench": {
            **common,
            "instance_id": "acme__purse-7",
            "repo": "acme/purse",
            "language": "python",
            "created_at": 1700000000000,
            "problem_statement": issue,
            "interface": "total(prices, discount)",
            "pr_description": "Subtract it",
            "FAIL_TO_PASS": failing,
            "PASS_TO_PASS": passing,
            "image_name": "docker.io/swerebenchv2/acme-purse:7-0123456",
            "install_config": {
                "base_image_name": "python_3.11",
                "install": ["pip install -e ."],
                "test_cmd": ["pytest -rA --color=no tests"],
                "log_parser": "parse_log_pytest",
                "docker_specs": None,
                "log_parsers": None,
            },
            "meta": {"llm_metadata": [], "num_modified_files": 1, "pr_url": None},
        },
        "gym": {
            **common,
            "instance_id": "dask__dask-3",
            "repo": "dask/dask",
            "version": "2.30",
            "problem_statement": issue,
            "hints_text": "Look at purse.py.",
            "created_at": "2024-01-01",
            "FAIL_TO_PASS": failing,
            "PASS_TO_PASS": passing,
        },
        "r2e": {
            "repo_name": "pillow",
            "docker_image": "acme/purse_final:0123abcd",
            "commit_hash": "0123abcd",
            "parsed_commit_content": json.dumps({"file_diffs": [parsed(patch), parsed(test_patch)]}),
            "execution_result_content": "{}",
            "problem_statement": f"[ISSUE]\n{issue}\n[/ISSUE]",
            "prompt": "",
            "modified_files": ["purse.py"],
            "relevant_files": ["purse.py"],
            "modified_entity_summaries": [],
            "num_non_test_files": 1,
            "expected_output_json": json.dumps(expected),
        },
        "pro": {
            **common,
            "repo": "acme/purse",
            "instance_id": PRO_ID,
            "repo_language": "python",
            "problem_statement": issue,
            "requirements": "- keep order",
            "interface": None,
            "issue_specificity": "['a']",
            "issue_categories": "['b']",
            "before_repo_set_cmd": f"git reset --hard {base}\ngit clean -fd\ngit checkout {tests} -- tests/test_purse.py",
            "selected_test_files_to_run": "['tests/test_purse.py']",
            "fail_to_pass": repr(failing),
            "pass_to_pass": repr(passing),
            "dockerhub_tag": "acme.purse-acme__purse-0123abcd",
        },
        "multi": {
            "org": "cli",
            "repo": "cli",
            "number": 5,
            "state": "closed",
            "title": "Mend it",
            "body": None,
            "base": {"label": "cli:main", "ref": "main", "sha": base},
            "resolved_issues": [{"number": 4, "title": "Discount", "body": issue}],
            "fix_patch": patch,
            "test_patch": test_patch,
            "fixed_tests": named["f2p_tests"],
            **named,
            "s2p_tests": {},
            "n2p_tests": {},
            "run_result": stage([*failing, *passing], []),
            "test_patch_result": stage(passing, failing),
            "fix_patch_result": stage([*failing, *passing], []),
        },
    }


def parsed(patch):
    """Return a diff of one file as R2E-Gym stores it."""
    path = patch.splitlines()[0].rpartition(" b/")[2]
    diff = {"old_file_content": "", "new_file_content": "", "header": {"file": {"path": path}, "misc_line": None}}
    diff |= {"index_line": None, "minus_file": {"path": f"a/{path}"}, "plus_file": {"path": f"b/{path}"}, "hunks": []}
    for line in patch.splitlines()[1:]:
        if line.startswith("@@ "):
            old, new = (side[1:].split(",") for side in line.split(" @@")[0].split()[1:3])
            section = line.partition(" @@")[2].strip()
            ranges = [{"start": int(side[0]), "length": int(side[1]) if side[1:] else None} for side in (old, new)]
            descriptor = {"old_range": ranges[0], "new_range": ranges[1], "section": section}
            diff["hunks"].append({"descriptor": descriptor, "line_group": {"all_lines": []}})
        elif diff["hunks"] and line[:1] in (" ", "+", "-"):
            kind = {" ": "context", "+": "added", "-": "deleted"}[line[0]]
            diff["hunks"][-1]["line_group"]["all_lines"].append({"content": line[1:], "type": kind})
    return diff


PARSERS = """
def parse_log_pytest(log):
    statuses = ("PASSED ", "FAILED ", "SKIPPED ")
    return {line.split()[1]: line.split()[0] for line in log.splitlines() if line.startswith(statuses)}

def parse_log_unhappy(log):
    raise ValueError(log)

NAME_TO_PARSER = {"parse_log_pytest": parse_log_pytest, "parse_log_unhappy": parse_log_unhappy}
"""
CONSTANTS = 'MAP_REPO_VERSION_TO_SPECS = {"dask/dask": {"2.30": {"test_cmd": "pytest -n0 -rA  --color=no"}}}\n'
FORK_PARSERS = f"{PARSERS}\nMAP_REPO_TO_PARSER = {{'dask/dask': parse_log_pytest}}\n"
TEST_SPEC = """
def make_eval_script_list(instance, specs, env_name, folder, base, test_patch):
    import re
    from datasets import load_dataset  # as the fork does, without using it
    files = " ".join(re.findall("--- a/(.*)", test_patch))
    apply = f"git apply -v - <<'EOF_1'\\n{test_patch}\\nEOF_1"
    start = ["source /opt/miniconda3/bin/activate", f"conda activate {env_name}", f"cd {folder}"]
    return [*start, f"git checkout {base} {files}", apply, f"{specs['test_cmd']} {files}", f"git checkout {base} {files}"]
"""
GRADING = """
def get_eval_tests_report(statuses, gold):
    report = {}
    for name, tests in gold.items():
        good = [test for test in tests if statuses.get(test) in ("PASSED", "XFAIL")]
        bad = [test for test in tests if statuses.get(test) in (None, "FAILED", "ERROR")]
        report[name] = {"success": good, "failure": bad}
    return report

def get_resolution_status(report):
    return "RESOLVED_NO" if any(one["failure"] for one in report.values()) else "RESOLVED_FULL"
"""
RUN_SCRIPT = """#!/bin/bash
set -e
echo "mail for the log of errors" >&2
python -m pytest -rA --color=no ${1//,/ }
"""
PARSER = """import json, sys
lines = open(sys.argv[1]).read().splitlines()
tests = [line.split()[:2] for line in lines if line.startswith(("PASSED ", "FAILED "))]
json.dump({"tests": [{"name": name, "status": status} for status, name in tests]}, open(sys.argv[3], "w"))
"""


def checkouts(folder: Path) -> dict[str, str | None]:
    """Write a stand-in for the repository of each set, and return the folders by set."""
    files = {
        "rebench/lib/agent/log_parsers.py": PARSERS,
        "gym/swebench/harness/constants.py": CONSTANTS,
        "gym/swebench/harness/log_parsers.py": FORK_PARSERS,
        "gym/swebench/harness/test_spec.py": TEST_SPEC,
        "gym/swebench/harness/grading.py": GRADING,
        "gym/swebench/__init__.py": "raise RuntimeError('this imports all that there is')\n",
        f"pro/run_scripts/{PRO_ID}/run_script.sh": RUN_SCRIPT,
        f"pro/run_scripts/{PRO_ID}/parser.py": PARSER,
        f"pro/dockerfiles/base_dockerfile/{PRO_ID}/Dockerfile": "FROM x\nENV PYTHONDONTWRITEBYTECODE=1\n",
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    found: dict[str, str | None] = {name: str(folder / name) for name in ("rebench", "gym", "pro")}
    genuine = os.environ.get("AGENTGYM_SWE_CHECKOUTS", "")
    clones = {name: str(Path(genuine, clone)) for name, clone in CLONES.items() if genuine and Path(genuine, clone).is_dir()}
    return {"r2e": None, "multi": None, **found, **clones}
