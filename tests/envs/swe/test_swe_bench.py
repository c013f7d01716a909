"""SWE-bench's format: rows, predictions, and what the real `swebench` says about logs of its own form."""

import json
import os
import shlex
import subprocess
import sys

import pytest
import swe_files
from swe_forgeries import ALWAYS_PASSED, BY_ITS_LOOK, EQUALS_ALL, PATCHED_CALL, READS_THE_TEST

from agentgym.envs.swe.bench.env import SWEBench, changed_lines
from agentgym.envs.swe.bench.row import GIT_APPLY, HOURS
from agentgym.envs.swe.bench.rows import is_bench, read_rows
from agentgym.envs.swe.bench.swebench_format import report_of, swebench
from agentgym.envs.swe.predictions import LONGEST, last_observation, patch_of, predictions, read_predictions
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig, BadData
from agentgym.tasks.reading import Reading

SCRIPT = """#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git checkout 0123456789abcdef tests/test_purse.py
git apply -v - <<'EOF_114329324912'
EOF_114329324912
: '>>>>> Start Test Output'
pytest -rA tests/test_purse.py
: '>>>>> End Test Output'
git checkout 0123456789abcdef tests/test_purse.py
"""
GOLD = """diff --git a/purse.py b/purse.py
--- a/purse.py
+++ b/purse.py
@@ -7 +7 @@
-    return whole + whole * discount // 100
+    return whole - whole * discount // 100
"""
ROW = {
    "instance_id": "acme__purse-1",
    "repo": "acme/purse",
    "base_commit": "0123456789abcdef",
    "problem_statement": "The discount is added.",
    "patch": GOLD,
    "test_patch": "",
    "version": "1.0",
    "difficulty": "15 min - 1 hour",
    "FAIL_TO_PASS": '["tests/test_purse.py::test_discount"]',
    # the name of a parameter is cut at its space, as in the genuine data
    "PASS_TO_PASS": '["tests/test_purse.py::test_total", "tests/test_purse.py::test_share[a"]',
    "image": "swebench/sweb.eval.x86_64.acme_1776_purse-1:latest",
    "eval_script": SCRIPT,
    "log_parser": "parse_log_pytest",
    "eval_type": "pass_and_fail",
}
SMITH = {
    "instance_id": "acme__purse.0123abcd.func_pm_1",
    "repo": "swesmith/acme__purse.0123abcd",
    "patch": GOLD,
    "FAIL_TO_PASS": ["tests/test_purse.py::test_discount"],
    # the name of a parameter is cut at its space, as in the genuine data
    "PASS_TO_PASS": ["tests/test_other.py::test_total"],
    "image_name": "swebench/swesmith.x86_64.acme_1776_purse.0123abcd",
    "problem_statement": "The discount is subtracted.",
}
LOG = """+ source /opt/miniconda3/bin/activate
+ : '>>>>> Start Test Output'
+ pytest -rA tests/test_purse.py
============================= test session starts ==============================
tests/test_purse.py {dots}                                                 [100%]
=========================== short test summary info ============================
{lines}
========================= {counts} in 0.05s =========================
+ SWEBENCH_TEST_EXIT_CODE={code}
+ : '>>>>> End Test Output'
+ echo '>>>>> Test Exit Code: {code}'
>>>>> Test Exit Code: {code}
+ git checkout 0123456789abcdef tests/test_purse.py
"""


def log(discount, total="PASSED", code=None):
    suffixes = {"FAILED": " - assert 220 == 180", "SKIPPED": "", "PASSED": ""}
    lines = [
        f"{discount} tests/test_purse.py::test_discount{suffixes[discount]}",
        f"{total} tests/test_purse.py::test_total{suffixes[total]}",
        "PASSED tests/test_purse.py::test_share[a b]",
    ]
    bad = "FAILED" in (discount, total)
    return LOG.format(dots="...", lines="\n".join(lines), counts="3 tests", code=int(bad) if code is None else code)


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_are_read(tmp_path):
    path = write(tmp_path / "rows.jsonl", ROW, {**ROW, "instance_id": "b", "split": "dev", "difficulty": None})
    found = read_rows(path)
    assert is_bench(path) and found.splits == {"dev": 0.5, "test": 0.5}
    row = found.find("acme__purse-1")
    assert (row.image, row.split, row.difficulty) == (ROW["image"], "test", 1)
    assert row.tests("PASS_TO_PASS") == ["tests/test_purse.py::test_total", "tests/test_purse.py::test_share[a"]
    assert [HOURS.index(one) for one in HOURS] == [0, 1, 2, 3]
    env = SWEBench(data=str(path), split="test")
    assert env.tasks(1)[0].instruction == "The discount is added." and env.size("dev") == 1


def test_rows_of_swe_smith_get_a_script(tmp_path):
    row = read_rows(write(tmp_path / "rows.jsonl", SMITH)).find(SMITH["instance_id"])
    assert row.bug == GOLD and row.image == SMITH["image_name"]
    assert (
        "pytest --disable-warnings --color=no --tb=no -rA tests/test_other.py tests/test_purse.py\n"
        in row.row["eval_script"]
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": None}, "before swebench 5"),
        ({"FAIL_TO_PASS": "[]"}, "no test in FAIL_TO_PASS"),
        ({"FAIL_TO_PASS": 3}, "expected a list of tests"),
    ],
)
def test_rows_that_are_no_use_are_refused(tmp_path, change, message):
    with pytest.raises(BadData, match=f"line 2: .*{message}"):
        read_rows(write(tmp_path / "rows.jsonl", ROW, {**ROW, "instance_id": "b", **change}), Reading(strict=True))
    with pytest.warns(UserWarning, match=f"1 of 2 rows are not played.*{message}"):
        assert [row.id for row in read_rows(tmp_path / "rows.jsonl").items] == [ROW["instance_id"]]
    with pytest.raises(BadData, match="no column 'patch'"):
        read_rows(write(tmp_path / "rows.jsonl", {key: value for key, value in ROW.items() if key != "patch"}))
    with pytest.raises(BadData, match="was given before"):
        read_rows(write(tmp_path / "rows.jsonl", ROW, ROW), Reading(strict=True))
    with pytest.raises(BadConfig, match="needs a file"):
        SWEBench()


@pytest.fixture
def row(tmp_path):
    pytest.importorskip("swebench", reason="the extra `swebench` is not installed")
    return read_rows(write(tmp_path / "rows.jsonl", ROW)).find("acme__purse-1")


def test_swebench_decides(row):
    assert report_of(row, GOLD, log("PASSED"))["resolved"] is True
    report = report_of(row, GOLD, log("FAILED"))
    assert report["resolved"] is False
    assert report["tests_status"]["FAIL_TO_PASS"] == {"success": [], "failure": ["tests/test_purse.py::test_discount"]}
    assert report_of(row, GOLD, log("SKIPPED"))["resolved"] is False  # a skipped test of the issue is no resolution
    assert report_of(row, GOLD, log("PASSED", "SKIPPED"))["resolved"] is True  # and one that passed before may be skipped
    assert report_of(row, GOLD, log("PASSED", "FAILED"))["resolved"] is False
    assert report_of(row, GOLD, log("PASSED", code=1))["resolved"] is False  # a log that says otherwise than pytest ended
    assert report_of(row, GOLD, "nothing ran")["resolved"] is False


def test_the_script_is_swebenchs_own(row):
    script = swebench("harness.utils").make_test_spec(dict(row.row)).eval_script
    assert script.count(">>>>> Test Exit Code") == 1 and "SWEBENCH_TEST_EXIT_CODE=$?" in script
    assert swebench("image_builder.constants").CONTAINER_WORKDIR == "/testbed"
    run = swebench("harness.run_evaluation")
    assert list(GIT_APPLY) == run.GIT_APPLY_CMDS


def test_an_image_has_the_name_that_swebench_gives_it(row):
    spec = swebench("image_builder.image_spec").ImageSpec("acme__purse-1", "FROM scratch", "swebench")
    assert spec.name == row.image


PRINTS_THE_LOG = """
import os
for file in range(3, 32):  # one of these is the output that pytest has put aside
    try:
        os.write(file, "".join("PASSED " + name + chr(10) for name in {tests!r}).encode())
    except OSError:
        pass
os._exit(0)
"""
IN_ONE_PROCESS = {  # whether this, appended to the broken module, is called a repair
    "nothing": ("", False),
    "a repair": ("def total(prices, discount=0):\n    return sum(prices) * (100 - discount) // 100\n", True),
    "a patched `Function.runtest`": (PATCHED_CALL, True),
    "outcomes by the look of the test": (BY_ITS_LOOK, True),
    "reports that always say passed": (ALWAYS_PASSED, True),
    "an object that equals everything": (EQUALS_ALL, True),
    "what the test expects": (READS_THE_TEST, True),
    "a log of its own": (PRINTS_THE_LOG, True),
}


@pytest.mark.parametrize("name", IN_ONE_PROCESS)
def test_the_ceiling_of_tests_in_one_process_with_the_code(tmp_path, name):
    """A row made by hand in SWE-smith's form, its own script run here: what `docs/environments/swe.md` says wins it does."""
    pytest.importorskip("swebench", reason="the extra `swebench` is not installed")
    payload, wins = IN_ONE_PROCESS[name]
    failing = [swe_files.ALL[1]]
    passing = [test for test in swe_files.ALL if test not in failing]
    slow_row = {**SMITH, "FAIL_TO_PASS": failing, "PASS_TO_PASS": passing}
    row = read_rows(write(tmp_path / "rows.jsonl", slow_row)).find(SMITH["instance_id"])
    right, wrong, _ = swe_files.BUGS["discount"]
    folder, tools = tmp_path / "testbed", tmp_path / "bin"
    (folder / "tests").mkdir(parents=True)
    tools.mkdir()
    (folder / "purse.py").write_text(
        swe_files.CODE.replace(right, wrong) + payload.replace("{tests!r}", repr(swe_files.ALL))
    )
    (folder / "tests" / "test_purse.py").write_text(swe_files.TESTS)
    (tools / "pytest").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pytest -p no:cacheprovider "$@"\n')
    (tools / "pytest").chmod(0o755)
    script = swebench("harness.utils").make_test_spec(dict(row.row)).eval_script.replace("cd /testbed", f"cd {folder}")
    script = "".join(line for line in script.splitlines(keepends=True) if not line.startswith(("source ", "conda ")))
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(["bash", "-c", script], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert report_of(row, GOLD, ran.stdout)["resolved"] is wins, ran.stdout


def test_grading_may_take_as_long_as_its_tests(tmp_path):
    pytest.importorskip("swebench", reason="the extra `swebench` is not installed")
    path = str(write(tmp_path / "rows.jsonl", ROW))
    assert SWEBench(data=path).step_seconds > 1800
    assert SWEBench(data=path, grading_timeout=7200.0).step_seconds > 7200


def episode(patch, **more):
    result = {"success": True, "reason": "success", "final_observation": last_observation("3 of 3 tests pass.", patch)}
    return Episode(**{"env": "rlvr/SWE-v0", "task_id": "a", "group_id": "a", "seed": 0, **result, **more})


def test_episodes_become_predictions_that_swebench_reads(tmp_path):
    assert patch_of(episode(GOLD)) == GOLD
    assert patch_of(episode(GOLD, reason="horizon", success=False)) == ""
    made = predictions(
        [episode(GOLD), episode("x", attempt=1), episode("y", task_id="b", reason="crash", success=None)], "policy-1"
    )
    assert made == [{"instance_id": "a", "model_name_or_path": "policy-1", "model_patch": GOLD}]
    with pytest.raises(BadData, match="more than 60000 characters"):
        predictions([episode("x" * (LONGEST + 1))], "policy-1")
    path = write(tmp_path / "preds.jsonl", *made)
    assert read_predictions(path) == {"a": GOLD}
    (tmp_path / "preds.json").write_text(json.dumps({"a": made[0]}))
    assert read_predictions(tmp_path / "preds.json") == {"a": GOLD}
    odd = tmp_path / "odd.jsonl"
    odd.write_text('{"instance_id": "a", "model_patch": "+\u2028"}\n\n', encoding="utf-8")
    assert read_predictions(odd) == {"a": "+\u2028"}
    (tmp_path / "preds.json").write_text("[3]")
    with pytest.raises(BadData, match="prediction 1: expected instance_id"):
        read_predictions(tmp_path / "preds.json")
    pytest.importorskip("swebench", reason="the extra `swebench` is not installed")
    assert swebench("harness.utils").get_predictions_from_file(str(path), "", "test") == made


def test_lines_that_a_patch_changes():
    assert changed_lines(GOLD, back=False) == [
        ("purse.py", "+    return whole - whole * discount // 100"),
        ("purse.py", "-    return whole + whole * discount // 100"),
    ]
    assert changed_lines(GOLD, back=True)[0] == ("purse.py", "+    return whole + whole * discount // 100")


def test_other_columns_of_a_statement_are_joined_or_refused(tmp_path):
    row = {**ROW, "requirements": "- keep order", "interface": "share(names)", "hints_text": "Look at purse.py."}
    issue = read_rows(write(tmp_path / "rows.jsonl", row)).items[0].issue
    assert issue == "The discount is added.\n\nRequirements:\n- keep order\n\nInterface:\nshare(names)"
    pip = {**row, "environment": "name: testbed", "interface": None}
    assert read_rows(write(tmp_path / "rows.jsonl", pip)).items[0].issue == "The discount is added."
    with pytest.raises(BadData, match="column 'story' holds"):
        read_rows(write(tmp_path / "rows.jsonl", {**ROW, "legend": "", "story": {"a": "b c"}}))
