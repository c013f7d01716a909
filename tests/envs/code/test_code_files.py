"""Files of programming tasks: HumanEval whole, the layouts of other benchmarks by hand, and what is wrong with a file."""

import gzip
import json
import os
from pathlib import Path

import pytest

from agentgym.envs.code import Code
from agentgym.envs.code.contests import pack_private
from agentgym.envs.code.files import load, whole
from agentgym.envs.code.grading.checks import Checks, run_checks
from agentgym.errors import BadConfig, BadData
from agentgym.sandbox.warm_pool import take
from agentgym.tasks.reading import Reading

PLACES = [os.environ.get("AGENTGYM_DATA"), Path(__file__).parents[4] / "shared" / "data"]
HUMAN_EVAL = next((p for place in PLACES if place and (p := Path(place) / "HumanEval.jsonl.gz").is_file()), None)


@pytest.fixture(scope="module")
def human_eval():
    if HUMAN_EVAL is None:
        pytest.skip("HumanEval.jsonl.gz is absent: put it into $AGENTGYM_DATA")
    return load(str(HUMAN_EVAL))


@pytest.fixture(scope="module")
def sandboxes():
    made = [take(limits=Code.limits) for _ in range(2)]
    yield made
    for sandbox in made:
        sandbox.close()


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_reference_solutions_of_human_eval_pass_and_empty_ones_fail(human_eval, sandboxes, every):
    assert len(human_eval.tasks) == 164
    wrong = []
    for task in human_eval.tasks[::every]:
        data = task.data
        checks = Checks(data["names"], data["hidden"], data["before"], data["setup"])
        right = run_checks(*sandboxes, whole(data, data["reference"]), checks)
        empty = run_checks(*sandboxes, whole(data, "    pass\n"), checks)
        wrong += [(task.id, right, empty)] * (not all(one.passed for one in right) or all(one.passed for one in empty))
    assert not wrong


def test_human_eval_as_an_environment(human_eval):
    env = Code(data=str(HUMAN_EVAL), split="test")
    observation, info = env.reset(seed=0, options={"task": "HumanEval/2"})
    assert observation.startswith("Complete this function.") and "def truncate_number" in observation
    assert info["task_id"] == "HumanEval/2" and env.size() == 164
    observation = env.step("run[def truncate_number(x):\n    return x]")[0]
    assert "1 of 1" not in env.step("test[]")[0]
    assert "expected: 0.5" in env.observation and "truncate_number(3.5) gave 3.5" in env.observation
    assert env.step("run[def truncate_number(x):\n    return x % 1]")[0] == "(no output)"
    assert env.step("test[]")[0] == "1 of 1 public tests pass."
    body = "submit[    return number % 1.0]"  # the rest of the function that the prompt begins
    assert env.step(body)[1] == 1.0
    env.close()


def written(path: Path, *tasks: object) -> str:
    path.write_text("\n".join(task if isinstance(task, str) else json.dumps(task) for task in tasks))
    return str(path)


def played(task_id: str, code: str, **options) -> tuple[float, str]:
    env = Code(split="all", **options)
    env.reset(seed=0, options={"task": task_id})
    observation, reward, *_ = env.step(json.dumps({"name": "submit", "arguments": {"code": code}}))
    env.close()
    return reward, observation


def test_mbpp(tmp_path):
    problem = {
        "task_id": 602,
        "text": "Write a function to share items.",
        "code": "def shared(a, b):\n    return tuple(set(a) & set(b))",
        "test_list": ["assert set(shared((3, 4), (5, 4))) == {4}", "assert shared([1], [2]) == ()"],
        "challenge_test_list": ["assert sorted(shared([1, 2, 3], [3, 2])) == [2, 3]"],
        "test_setup_code": "",
    }
    library = load(written(tmp_path / "mbpp.jsonl", problem, problem | {"task_id": 11}, problem | {"task_id": 511}))
    assert [(task.id, task.split) for task in library.tasks] == [
        ("MBPP/602", "train"),
        ("MBPP/11", "test"),
        ("MBPP/511", "valid"),
    ]
    env = Code(data=library.source, split="train", verify=True)
    observation, _ = env.reset(seed=0)
    assert problem["test_list"][0] in observation and problem["test_list"][1] not in observation
    assert played("MBPP/602", problem["code"], data=library.source) == (1.0, "All 3 hidden tests pass.")
    assert played("MBPP/602", "def shared(a, b): return (4,)", data=library.source) == (0.0, "1 of 3 hidden tests pass.")


def test_live_code_bench(tmp_path):
    tests = [
        {"input": "1 2\n", "output": "3\n", "testtype": "stdin"},
        {"input": "5 -7\n", "output": "-2.0\n", "testtype": "stdin"},
    ]
    calls = [{"input": "[1, 2]\n2", "output": "[2, 4]", "testtype": "functional"}]
    common = {"question_content": "Add.", "platform": "x", "metadata": "{}", "starter_code": ""}
    program = common | {
        "question_id": "a1",
        "public_test_cases": json.dumps(tests[:1]),
        "private_test_cases": pack_private(tests[1:]),
    }
    method = common | {
        "question_id": "b1",
        "starter_code": "class Solution:\n    def scale(self, values, by):\n        ",
        "metadata": json.dumps({"func_name": "scale"}),
        "public_test_cases": json.dumps(calls),
        "private_test_cases": json.dumps([{"input": "[3]\n-1", "output": "[-3]", "testtype": "functional"}]),
    }
    path = written(tmp_path / "lcb.jsonl", program, method)
    adds = "a, b = map(int, input().split())\nprint(a + b, end='  \\n\\n')"
    assert played("a1", adds, data=path) == (1.0, "All 2 hidden tests pass.")
    assert played("a1", "print(3)", data=path) == (0.0, "1 of 2 hidden tests pass.")
    scales = "class Solution:\n    def scale(self, values, by):\n        return tuple(v * by for v in values)"
    assert played("b1", scales, data=path) == (1.0, "All 2 hidden tests pass.")
    assert played("b1", scales.replace("*", "+"), data=path)[0] == 0.0


def test_packed_tests_that_are_more_than_text_are_not_unpacked(tmp_path):
    import base64
    import pickle
    import zlib

    class Evil:
        def __reduce__(self):
            return os.system, ("touch evil",)

    packed = base64.b64encode(zlib.compress(pickle.dumps(Evil()))).decode()
    problem = {"question_id": "a", "question_content": "x", "public_test_cases": "[]", "private_test_cases": packed}
    with pytest.raises(BadData, match=r"line 1: private_test_cases: a pickle that asks for \w+.system"):
        load(written(tmp_path / "evil.jsonl", problem))
    assert not Path("evil").exists()


def test_code_contests(tmp_path):
    problem = {
        "name": "1_A. Halves",
        "description": "Print half of each number.",
        "public_tests": {"input": ["1 2\n"], "output": ["0.5 1\n"]},
        "private_tests": {"input": ["3\n"], "output": ["1.5\n"]},
        "generated_tests": {"input": ["1\n"], "output": ["0.3333333333 yes\n"]},
        "solutions": {"language": [2, 3], "solution": ["int main() {}", "print('?')"]},
        "time_limit": {"seconds": 1, "nanos": 500_000_000},
    }
    library = load(written(tmp_path / "contests.jsonl", problem))
    (task,) = library.tasks
    assert task.data["seconds"] == 3.0 and task.data["reference"] == "print('?')"
    code = "n = input().split()\nprint('0.33333\\nyes') if n == ['1'] else print(*(int(a) / 2 for a in n))"
    assert played(task.id, code, data=library.source) == (0.0, "2 of 3 hidden tests pass.")  # 1.0 is not 1
    code = code.replace("int(a) / 2", "('%g' % (int(a) / 2))")
    assert played(task.id, code, data=library.source) == (1.0, "All 3 hidden tests pass.")
    with pytest.raises(BadData, match=r"reference solutions fail in task '1_A. Halves' \(test 0: \?"):
        Code(data=library.source, split="all", verify=True)


@pytest.mark.parametrize(("column", "value"), [("input_file", "input.txt"), ("output_file", "out.txt"), ("input_file", 3)])
def test_code_contests_of_files_are_left_out(tmp_path, column, value):
    """A program that reads or writes a file named by the task cannot be tried by its standard input and output."""
    problem = {
        "name": "1_A. Halves",
        "description": "Print half.",
        "public_tests": {"input": ["2\n"], "output": ["1\n"]},
    }
    for plain in ("stdin", "", None, "standard input"):
        fine = written(tmp_path / "fine.jsonl", {**problem, "input_file": plain})
        assert len(load(fine).tasks) == 1
    both = written(tmp_path / "both.jsonl", problem, {**problem, "name": "2", column: value})
    with pytest.warns(UserWarning, match=f"1 of 2 rows are not played.*{column} is"):
        assert [task.id for task in load(both).tasks] == ["1_A. Halves"]
    with pytest.raises(BadData, match="expected a program of standard input and output"):
        load(both, Reading(strict=True))


OWN = {
    "id": "twice",
    "statement": "Write twice(n).",
    "entry": "twice",
    "public": [{"input": [1], "output": 2}],
    "hidden": [{"input": [4], "output": 8}, {"input": ["a"], "output": "aa"}],
    "reference": "def twice(n): return 2 * n",
}


def test_our_own_layout(tmp_path):
    stack = {
        "id": "stack",
        "statement": "Write a class S.",
        "kind": "class",
        "entry": "S",
        "hidden": [{"input": [[], [["push", [1]], ["pop", []]]], "output": [None, 1]}],
        "reference": "class S(list):\n    def push(self, x): self.append(x)",
    }
    check = {
        "id": "check",
        "statement": "Write g.",
        "entry": "g",
        "hidden": ["assert g([2, 1]) == [1, 2]"],
        "reference": "g = sorted",
        "split": "test",
    }
    path = written(tmp_path / "own.jsonl", OWN, stack, check, "")
    env = Code(data=path, split="all", verify=True)
    assert env.size() == 3 and env.find("check").split == "test"
    for task in env.tasks(3):
        env.reset(seed=0, options={"task": task})
        assert env.step(next(env.oracle()))[1] == 1.0
    with gzip.open(tmp_path / "own.jsonl.gz", "wb") as file:
        file.write(Path(path).read_bytes())
    assert load(str(tmp_path / "own.jsonl.gz")).by_id.keys() == load(path).by_id.keys()
    env.close()


def test_a_reference_that_fails_is_named(tmp_path):
    path = written(
        tmp_path / "bad.jsonl",
        OWN,
        OWN | {"id": "other", "reference": "def twice(n): return n"},
        OWN | {"id": "none", "reference": ""},
    )
    with pytest.raises(BadData, match=r"fail in task 'other' \(test 0: 4\); task 'none' \(it has no reference\); mend"):
        Code(data=path, split="all", verify=True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: Expecting property name"),
        ("[1]", "line 2: .*expected a JSON object"),
        ({"x": 1}, "line 2: a task with the keys \\['x'\\]; expected those of one layout"),
        (OWN, "line 2: the id 'twice' was given before"),
        (OWN | {"id": "b", "hidden": []}, "line 2: task 'b' has no hidden test"),
        (OWN | {"id": "b", "hidden": 3}, "line 2: hidden: '3'; expected a list"),
        (OWN | {"id": "b", "hidden": [{"input": [1]}]}, "line 2: a test: .*expected an object with input, output"),
        (OWN | {"id": "b", "hidden": [{"input": 1, "output": 2}]}, "line 2: input, a list of arguments: '1'"),
        (OWN | {"id": "b", "entry": "", "kind": "function"}, "line 2: kind 'function' with entry ''"),
        (OWN | {"id": "b", "compare": "nearly"}, "line 2: compare is 'nearly'; expected exact or equal"),
        (OWN | {"id": "b", "tolerance": "x"}, "line 2: tolerance is 'x'; expected a number"),
        (OWN | {"id": "b", "seconds": 0}, "line 2: seconds is 0; expected a number above 0"),
        (OWN | {"id": "b", "seconds": float("inf")}, "line 2: seconds is inf; expected"),
        (OWN | {"id": "b", "split": "all"}, "line 2: split 'all' is the name for the whole file"),
        ({"task_id": 1, "text": "x", "code": "def f(): pass", "test_list": []}, "line 2: test_list is empty"),
        (
            {"task_id": 1, "text": "x", "code": "def f(): pass", "test_list": ["assert g() == 1"]},
            "line 2: its tests call nothing",
        ),
        ({"task_id": 1, "text": "x", "code": "def f(: pass", "test_list": ["assert f()"]}, "line 2: .* expected Python"),
        ({"question_id": "a", "question_content": "x", "public_test_cases": "[3]"}, "line 2: public_test_cases: '3'"),
        ({"question_id": "a", "question_content": "x", "public_test_cases": "????"}, "line 2: public_test_cases: "),
        ({"name": "a", "description": "x", "public_tests": {"input": ["1"], "output": []}}, "1 inputs and 0 outputs"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_with_its_number(tmp_path, line, message):
    with pytest.raises(BadData, match=message):
        load(written(tmp_path / "tasks.jsonl", OWN, line), Reading(strict=True))


def test_a_bad_row_is_left_out_and_counted(tmp_path):
    path = written(tmp_path / "tasks.jsonl", OWN, OWN | {"id": "empty", "hidden": []})
    with pytest.warns(UserWarning, match=r"1 of 2 rows are not played.*line 2: task 'empty' has no hidden test"):
        assert len(load(path).tasks) == 1
    with pytest.raises(BadData, match="no hidden test"):
        Code(data=path, strict=True)


def test_other_columns_of_a_task_are_joined_or_refused(tmp_path):
    path = written(
        tmp_path / "tasks.jsonl", OWN | {"context": "In base 7.", "input_format": "Two numbers.", "source": "a b"}
    )
    task = load(path).tasks[0]
    assert task.instruction == f"In base 7.\n\n{OWN['statement']}\n\nInput format:\nTwo numbers."
    path = written(tmp_path / "other.jsonl", OWN | {"legend": "Read this first."})
    with pytest.raises(BadData, match=r"column 'legend' holds 'Read this first\.'"):
        load(path)
    assert Code(data=path, split="all", ignore="legend").tasks(1)[0].instruction == OWN["statement"]


def test_files_that_are_absent_damaged_or_empty(tmp_path):
    with pytest.raises(BadData, match=r"no file 'nowhere.jsonl'"):
        Code(data="nowhere.jsonl")
    with pytest.raises(BadData, match="holds no task"):
        load(written(tmp_path / "empty.jsonl"))
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(json.dumps(OWN).encode() * 1000)[:-20])
    with pytest.raises(BadData, match="damaged or cut short"):
        load(str(tmp_path / "cut.jsonl.gz"))
    with pytest.raises(BadConfig, match=r"data .* and families"):
        Code(data="x", families=("lists",))
    with pytest.raises(BadConfig, match="verify"):
        Code(verify=True)
    with pytest.raises(LookupError, match="Did you mean 'lists'"):
        Code(families="list")
