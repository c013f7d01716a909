"""Rows of SWE-rebench-V2, SWE-Gym, R2E-Gym, SWE-bench Pro and Multi-SWE-bench: what is read, and what counts as resolved."""

import importlib.util
import json
import os
import re
from pathlib import Path

import pytest
import swe_sets
from swe_sets import FAILING, PASSING, SETS
from test_swe_bench import write

from agentgym.envs.swe.bench import env as bench_env
from agentgym.envs.swe.bench.env import SWEBench
from agentgym.envs.swe.bench.own_code import answered
from agentgym.envs.swe.bench.r2e_format import statuses_of
from agentgym.envs.swe.bench.rebench_format import without_duration
from agentgym.envs.swe.bench.rows import is_bench, read_rows
from agentgym.envs.swe.predictions import read_predictions
from agentgym.errors import BadData, MissingExtra
from agentgym.sandbox.protocol import Result, SandboxFault
from agentgym.tasks.reading import Reading

IMAGES = {
    "rebench": "docker.io/swerebenchv2/acme-purse:7-0123456",
    "gym": "xingyaoww/sweb.eval.x86_64.dask_s_dask-3:latest",
    "r2e": "acme/purse_final:0123abcd",
    "pro": "jefzda/sweap-images:acme.purse-acme__purse-0123abcd",
    "multi": "mswebench/cli_m_cli:pr-5",
}
FOLDERS = {"rebench": "/purse", "gym": "/testbed", "r2e": "/testbed", "pro": "/app", "multi": "/home/cli"}
IDS = {
    "rebench": "acme__purse-7",
    "gym": "dask__dask-3",
    "r2e": "pillow-0123abcd",
    "pro": swe_sets.PRO_ID,
    "multi": "cli/cli:pr-5",
}
ISSUES = {
    "rebench": "The discount is added.\n\nInterface:\ntotal(prices, discount)",
    "pro": "The discount is added.\n\nRequirements:\n- keep order",
    "multi": "Discount\n\nThe discount is added.",
}


@pytest.fixture
def read(tmp_path):
    """Return what reads the row of a set, with columns changed."""
    folders = swe_sets.checkouts(tmp_path / "checkouts")

    def read(name, **changes):
        path = write(tmp_path / "rows.jsonl", {**swe_sets.rows()[name], **changes})
        return read_rows(path, Reading(strict=True), folders[name]).items[0]

    return read


@pytest.mark.parametrize("name", SETS)
def test_a_row_of_each_set(read, tmp_path, name):
    row = read(name)
    assert (row.image, row.work, row.id) == (IMAGES[name], FOLDERS[name], IDS[name])
    assert row.issue == ISSUES.get(name, "The discount is added.") and row.row["patch"] == swe_sets.PATCH
    assert row.split == ("test" if name in ("pro", "multi") else "train")
    assert is_bench(tmp_path / "rows.jsonl")
    if name != "r2e":
        assert (row.tests("FAIL_TO_PASS"), row.tests("PASS_TO_PASS")) == (FAILING, PASSING)


BROKEN = [
    ("rebench", {"install_config": {"log_parser": "parse_log_pytest"}}, "test_cmd"),
    ("rebench", {"install_config": {"log_parser": "os.system", "test_cmd": "x"}}, "log_parser is 'os.system'"),
    ("rebench", {"repo": "acme/.."}, "expected owner/name"),
    ("rebench", {"repo": "acme/a; id"}, "expected owner/name"),
    ("rebench", {"FAIL_TO_PASS": []}, "no test in FAIL_TO_PASS"),
    ("gym", {"version": "99"}, "version '99' of dask/dask is not in the tables"),
    ("gym", {"test_patch": ""}, "'test_patch' is ''"),
    ("r2e", {"docker_image": "swebench/sweb.eval.x"}, "SWE-bench's own data set"),
    ("r2e", {"expected_output_json": "{}"}, "expected an object of tests"),
    ("r2e", {"parsed_commit_content": "{}"}, "expected the solution"),
    ("r2e", {"parsed_commit_content": '{"file_diffs": [{}]}'}, "no key 'header'"),
    ("pro", {"instance_id": "../../etc"}, "has no run_scripts"),
    ("pro", {"base_commit": "HEAD; id"}, "expected a commit"),
    ("pro", {"fail_to_pass": "__import__('os')"}, "a column is .* expected a list"),
    ("pro", {"fail_to_pass": "[]"}, "no test in fail_to_pass"),
    ("multi", {"number": "5"}, "expected the number of a pull request"),
    ("multi", {"f2p_tests": {}}, "no test in f2p_tests"),
    ("multi", {"run_result": {"passed_count": 2}}, "run_result has no passed_tests"),
]


def test_columns_that_are_text_or_belong_to_other_rows(read):
    """Tables with columns, such as parquet's, give every row the tests of all rows, most of them empty."""
    config = swe_sets.rows()["rebench"]["install_config"]
    assert read("rebench", install_config=json.dumps(config)).row["install_config"] == config
    group = {**swe_sets.rows()["multi"]["f2p_tests"], "of another row": None}
    assert read("multi", f2p_tests=group).tests("FAIL_TO_PASS") == FAILING


def test_predictions_in_the_forms_of_the_sets(tmp_path):
    multi = {"org": "cli", "repo": "cli", "number": 5, "fix_patch": "a"}
    rows = [multi, {**multi, "number": "6", "fix_patch": None}, {"instance_id": swe_sets.PRO_ID, "patch": "b", "prefix": ""}]
    found = read_predictions(write(tmp_path / "preds.jsonl", *rows))
    assert found == {IDS["multi"]: "a", "cli/cli:pr-6": "", IDS["pro"]: "b"}


@pytest.mark.parametrize(("name", "changes", "problem"), BROKEN)
def test_a_row_that_cannot_be_played_is_refused(read, name, changes, problem):
    with pytest.raises(BadData, match=problem):
        read(name, **changes)


@pytest.mark.parametrize("name", ["rebench", "gym", "pro"])
def test_a_set_whose_code_is_elsewhere_needs_a_checkout(tmp_path, name):
    path = write(tmp_path / "rows.jsonl", swe_sets.rows()[name])
    with pytest.raises(BadData, match=r"checkout=FOLDER"):
        read_rows(path)
    with pytest.raises(BadData, match="expected a clone of github.com" if name != "gym" else "clone of github.com"):
        read_rows(path, checkout=tmp_path)


def judged(row, log, restore=True, stderr=b""):
    return row.rules.judge(row, "x", Result(0, log.encode(), stderr, "exit", 0.0), restore=restore, elsewhere=_nowhere)


def _nowhere(work):
    raise AssertionError("no other sandbox is needed")


def lines(**statuses):
    """Return pytest's lines, with `discount` and `total` for the two tests."""
    files = {"discount": FAILING[0], "total": PASSING[0], "extra": "tests/test_purse.py::test_extra"}
    return "".join(f"{status} {files[name]}\n" for name, status in statuses.items())


@pytest.mark.parametrize(
    ("statuses", "resolved", "exact"),
    [
        ({"discount": "PASSED", "total": "PASSED"}, True, True),
        ({"discount": "PASSED", "total": "PASSED", "extra": "PASSED"}, True, False),
        ({"discount": "PASSED", "total": "FAILED"}, False, False),
        ({"discount": "PASSED", "total": "SKIPPED"}, False, False),
        ({"discount": "PASSED"}, False, False),
        ({}, False, False),
    ],
)
def test_rebench_wants_every_test_to_pass(read, statuses, resolved, exact):
    verdict, report = judged(read("rebench"), lines(**statuses))
    assert (verdict.resolved, report["passed_match"]) == (resolved, exact)
    assert verdict.fail_to_pass == float(statuses.get("discount") == "PASSED")


def test_a_log_that_the_parser_cannot_read_is_the_models_failure(read):
    """Its parser raises for any log here; a genuine one may for a log that the code under test printed."""
    config = {"log_parser": "parse_log_unhappy", "test_cmd": "x"}
    if "AGENTGYM_SWE_CHECKOUTS" in os.environ:
        pytest.skip("the parser that always raises is a stand-in's")
    row = read("rebench", install_config=config)
    with pytest.raises(SandboxFault, match="fails on an empty log"):
        judged(row, "anything")
    assert answered(None, "answer = 1 / len(question['log'])", {"log": ""}) is None
    assert answered(None, "print('loud'); answer = [1]", None) == [1]


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("a [1.34 ms]", "a"),
        ("b in 29.08 msec more", "b more"),
        ("c (0.4s)", "c"),
        ("d (1.5 s)  ", "d"),
        ("e [x]", "e [x]"),
        ("f (3)", "f (3)"),
    ],
)
def test_durations_in_names(name, plain):
    assert without_duration(name) == plain


@pytest.mark.parametrize(
    ("statuses", "resolved", "by_the_fork"),
    [
        ({"discount": "PASSED", "total": "PASSED"}, True, True),
        ({"discount": "PASSED", "total": "SKIPPED"}, True, True),
        ({"discount": "SKIPPED", "total": "PASSED"}, False, True),  # the fork counts no skipped test
        ({"discount": "SKIPPED", "total": "SKIPPED"}, False, False),
        ({"discount": "PASSED", "total": "FAILED"}, False, False),
        ({"discount": "PASSED"}, False, False),
        ({}, False, False),
    ],
)
def test_gym_is_decided_by_its_fork(read, statuses, resolved, by_the_fork):
    row = read("gym")
    assert judged(row, lines(**statuses))[0].resolved is resolved
    assert judged(row, lines(**statuses), restore=False)[0].resolved is by_the_fork


SUMMARY = "= short test summary info =\n{}"


@pytest.mark.parametrize(
    ("log", "resolved"),
    [
        ("PASSED r2e_tests/test_1.py::test_discount\nPASSED r2e_tests/test_1.py::test_total\n", True),
        ("PASSED r2e_tests/test_1.py::test_discount\nFAILED r2e_tests/test_1.py::test_total - no\n", False),
        ("PASSED r2e_tests/test_1.py::test_discount\n", False),
        ("PASSED a::test_discount\nPASSED a::test_total\nPASSED a::test_more\n", False),
        ("", False),
    ],
)
def test_r2e_wants_every_status_as_expected(read, log, resolved):
    assert judged(read("r2e"), SUMMARY.format(log))[0].resolved is resolved
    assert not judged(read("r2e"), log)[0].resolved  # without pytest's summary nothing is read


def test_an_expected_failure_that_passes_is_no_success_in_r2e(read):
    expected = json.dumps({"test_discount": "PASSED", "test_total - old": "FAILED", "\x1b[1mT.c\x1b[0m": "ERROR"})
    log = "PASSED a::test_discount\nFAILED a::test_total - old - x\nERROR a::T::c - y\n"
    assert judged(read("r2e", expected_output_json=expected), SUMMARY.format(log))[0].resolved
    log = log.replace("FAILED a::test_total - old - x", "PASSED a::test_total")
    assert not judged(read("r2e", expected_output_json=expected), SUMMARY.format(log))[0].resolved


R2E_LINES = [
    "PASSED a.py::B::c",
    "FAILED a.py::d - E - f",
    "ERROR a.py::g - x",
    "ERROR",
    "XFAIL a.py::h",
    "no",
    "SKIPPED [1] i",
]


def test_r2e_reads_a_summary_like_its_own_parser():
    """Side by side with `execution_log_parser.py` of R2E-Gym at 69bc953, from the clone that AGENTGYM_SWE_CHECKOUTS has."""
    path = Path(os.environ.get("AGENTGYM_SWE_CHECKOUTS", "-"), "R2E-Gym/src/r2egym/repo_analysis/execution_log_parser.py")
    if not path.is_file():
        pytest.skip("AGENTGYM_SWE_CHECKOUTS names no folder with a clone R2E-Gym")
    spec = importlib.util.spec_from_file_location("execution_log_parser", path)
    genuine = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(genuine)
    for place in range(len(R2E_LINES)):
        log = SUMMARY.format("\n".join([*R2E_LINES[place:], *R2E_LINES[:place], "PASSED \x1b[1ma::z\x1b[0m"]))
        theirs = genuine.decolor_dict_keys(genuine.parse_log_fn("pillow")(re.sub(r"\x1b\[[0-9;]*m|\r", "", log)))
        assert statuses_of(log) == {name.split(" - ")[0]: theirs[name] for name in sorted(theirs)}


@pytest.mark.parametrize(
    "statuses", [{"discount": "PASSED", "total": "PASSED"}, {"discount": "FAILED", "total": "PASSED"}, {}]
)
@pytest.mark.parametrize("written", ["PARSED", "nothing", "[1]", '{"tests": 3}', '{"tests": [3, {"name": []}]}'])
def test_pro_is_decided_by_its_parser(read, statuses, written):
    row = read("pro")
    tests = [{"name": line.split()[1], "status": line.split()[0]} for line in lines(**statuses).splitlines()]
    sandbox = Written(json.dumps({"tests": tests}) if written == "PARSED" else written)
    verdict, _ = row.rules.judge(
        row, "x", Result(0, b"out", b"err", "exit", 0.0), restore=True, elsewhere=lambda work: work(sandbox)
    )
    assert verdict.resolved is (written == "PARSED" and statuses.get("discount") == "PASSED")
    assert sandbox.files["/workspace/stdout.log"] == b"out" and sandbox.files["/workspace/stderr.log"] == b"err"


class Written:
    """A sandbox in which the parser has written its output."""

    def __init__(self, output):
        self.output, self.files = output, {}

    def run(self, command, *, stdin=None, timeout=None):
        return Result(0, b"", b"", "exit", 0.0)

    def write(self, path, content):
        self.files[path] = content

    def read(self, path):
        assert path == "/workspace/output.json"
        return self.output.encode()


def test_binary_files_are_no_part_of_a_patch_of_pro(read):
    binary = "diff --git a/x.png b/x.png\nnew file mode 100644\nGIT binary patch\nliteral 1\nA\n\n"
    rules = read("pro").rules
    assert rules.cleaned(swe_sets.PATCH + binary + swe_sets.TEST_PATCH) == swe_sets.PATCH + swe_sets.TEST_PATCH


def go(**statuses):
    return re.sub("^([A-Z]{4})ED", r"--- \1:", lines(**statuses), flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("statuses", "resolved"),
    [
        ({"discount": "PASSED", "total": "PASSED"}, True),
        ({"discount": "PASSED", "total": "PASSED", "extra": "FAILED"}, True),
        ({"discount": "FAILED", "total": "PASSED"}, False),
        ({"discount": "PASSED", "total": "FAILED"}, False),
        ({"discount": "PASSED"}, False),
        ({}, False),
    ],
)
def test_multi_is_decided_by_its_package(read, statuses, resolved):
    """The package is multi-swe-bench 1.1.2."""
    pytest.importorskip("multi_swe_bench", reason="multi-swe-bench is not installed")
    verdict, report = judged(read("multi"), go(**statuses))
    assert verdict.resolved is resolved, report
    if resolved:
        assert (verdict.fail_to_pass, verdict.pass_to_pass) == (1.0, 1.0)


def test_multi_needs_its_package(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_env.SWEBench, "requires", lambda self: None)
    path = write(tmp_path / "rows.jsonl", swe_sets.rows()["multi"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="pip install multi-swe-bench"):
        SWEBench(data=str(path))
