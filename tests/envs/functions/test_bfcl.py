"""Rows of BFCL, made by hand: verdicts on calls, what is left out, and that no text is evaluated."""

import json

import pytest

import agentgym
from agentgym import BadData
from agentgym.contract import check
from agentgym.envs.functions.bfcl import backend
from agentgym.envs.functions.bfcl.check import matches, right

ID = "rlvr/Functions-v0"


def function(name="tile.area", required=("w",), **properties):
    return {
        "name": name,
        "description": "Area",
        "parameters": {"type": "dict", "properties": properties, "required": list(required)},
    }


TILE = function(w={"type": "integer"}, unit={"type": "string"}, scale={"type": "float"})
OTHER = function("tile.color", (), tone={"type": "string"})
ANSWER = {"w": [2], "unit": ["", "square cm"], "scale": ["", 1.5, 2.0]}


@pytest.mark.parametrize(
    ("arguments", "good"),
    [
        ({"w": 2}, True),
        ({"w": 2.0}, False),
        ({"w": True}, False),
        ({"w": "2"}, False),
        ({"w": 3}, False),
        ({}, False),
        ({"w": 2, "unit": "Square-CM."}, True),
        ({"w": 2, "unit": "m"}, False),
        ({"w": 2, "unit": ""}, True),
        ({"w": 2, "scale": 2}, True),
        ({"w": 2, "scale": 1}, False),
        ({"w": 2, "other": 1}, False),
    ],
)
def test_values_by_hand(arguments, good):
    assert matches(("tile_area", arguments), TILE, ANSWER) is good
    assert not matches(("tile.area", arguments), TILE, ANSWER)


@pytest.mark.parametrize(
    ("schema", "allowed", "good", "bad"),
    [
        ({"type": "array", "items": {"type": "string"}}, [["a b", "c"]], ["AB", "c"], ["c", "ab"]),
        ({"type": "array", "items": {"type": "integer"}}, [[1, 2]], [1, 2], [1, 2.0]),
        ({"type": "integer"}, ["n"], "n", 1),
        ({"type": "dict"}, [{"a": [1, 2], "b": ["", 3]}], {"a": 2}, {"b": 3}),
        ({"type": "dict"}, [{"a": [1]}], {"a": 1}, {"a": 1, "c": 1}),
        (
            {"type": "array", "items": {"type": "dict"}},
            [[{"a": ["x"]}, {"a": ["y"]}]],
            [{"a": "X"}, {"a": "y"}],
            [{"a": "x"}],
        ),
        ({"type": "boolean"}, [True], True, 1),
        ({"type": "any"}, ["x"], "X", 3),
        ({"type": "tuple", "items": {"type": "float"}}, [[1.0, 2.0]], [1.0, 2.0], [1, 2]),
    ],
)
def test_types_by_hand(schema, allowed, good, bad):
    one = function("f", ("p",), p=schema)
    assert matches(("f", {"p": good}), one, {"p": allowed})
    assert not matches(("f", {"p": bad}), one, {"p": allowed})


def test_parallel_calls_come_in_any_order_and_the_first_that_fits_is_taken():
    one, two = function("f", ("p",), p={"type": "integer"}), function("g", ())
    answers = [{"f": {"p": [1, 2]}}, {"f": {"p": [1]}}, {"g": {}}]
    calls = [("g", {}), ("f", {"p": 2}), ("f", {"p": 1})]
    assert right("parallel_multiple", calls, [one, two], answers)
    assert not right("parallel_multiple", [calls[0], calls[2], calls[1]], [one, two], answers)  # greedy, as published
    assert not right("parallel_multiple", calls[:2], [one, two], answers)
    assert right("multiple", [("g", {})], [one, two], [{"g": {}}]) and not right(
        "simple_python", [("g", {})], [one], [{"f": {}}]
    )


def write(tmp_path, rows, answers=(), name="BFCL_v4_simple_python.json"):
    (tmp_path / "possible_answer").mkdir(exist_ok=True)
    (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "possible_answer" / name).write_text("\n".join(map(json.dumps, answers)))
    return str(tmp_path / name)


def row(id="simple_python_0", functions=(TILE,), **more):
    return {"id": id, "question": [[{"role": "user", "content": "Area?"}]], "function": list(functions), **more}


GOLD = {"id": "simple_python_0", "ground_truth": [{"tile.area": ANSWER}]}


def test_an_episode(tmp_path):
    env = agentgym.make(ID, data=write(tmp_path, [row()], [GOLD]), split="all")
    observation, _ = env.reset(seed=0)
    assert observation.endswith("User: Area?") and set(env.tools) == {"tile_area", "end_turn"}
    assert env.tools["tile_area"].properties["scale"] == {"type": "number"}
    assert not env.step('{"name": "tile_area", "arguments": {}}')[4]["valid"]
    assert env.step('{"name": "tile_area", "arguments": {"w": 2, "scale": 2}}')[4]["valid"]
    assert env.step("end_turn[Done]")[4]["success"] is True
    for actions in (["end_turn[No]"], ['{"name": "tile_area", "arguments": {"w": "two"}}', "end_turn[Done]"]):
        env.reset(seed=0)
        assert [env.step(action)[4]["success"] for action in actions][-1] is False
    env.reset(seed=0)
    assert [env.step(action)[4]["success"] for action in env.oracle()][-1] is True


def test_a_simple_row_of_version_3_is_one_of_python(tmp_path):
    path = write(tmp_path, [row("simple_0")], [{**GOLD, "id": "simple_0"}], name="BFCL_v3_simple.json")
    env = agentgym.make(ID, data=path, split="all")
    env.reset(seed=0)
    assert [env.step(action)[4]["success"] for action in env.oracle()][-1] is True


@pytest.mark.parametrize("ids", [("simple_python",), ("irrelevance", "live_relevance"), ("multiple", "parallel")])
def test_files_keep_the_contract(tmp_path, ids):
    rows = [row(f"{id}_{n}", [TILE, OTHER]) for id in ids for n in range(4)]
    path = write(tmp_path, rows, [{**GOLD, "id": one["id"]} for one in rows], name="BFCL_v4_rows.json")
    report = check(ID, data=path, split="all")
    assert report.ok and sum(result.status == "holds" for result in report.results) >= 18, str(report)


def test_after_a_call_that_no_answer_has_nobody_knows_a_solution(tmp_path):
    env = agentgym.make(ID, data=write(tmp_path, [row()], [GOLD]), split="all")
    env.reset(seed=0)
    env.step('{"name": "tile_area", "arguments": {"w": 3}}')
    with pytest.raises(NotImplementedError, match="simple_python_0"):
        next(env.oracle())


def test_no_call_is_right_where_nothing_fits_and_any_call_where_something_does(tmp_path):
    rows = [row("irrelevance_0"), row("live_relevance_1-1-0")]
    env = agentgym.make(ID, data=write(tmp_path, rows, name="BFCL_v4_irrelevance.json"), split="all")
    for id, called, success in ((0, False, True), (0, True, False), (1, False, False), (1, True, True)):
        env.reset(seed=0, options={"task": rows[id]["id"]})
        if called:
            env.step("tile_area[7]")
        info = env.step("end_turn[Done]")[4]
        assert info["success"] is success and info["metrics"]["turns"] == success


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (row("simple_java_1"), "rows of 'simple_java' are not played here"),
        (row("memory_1-x-2"), "are not played here"),
        (row("simple_python_9"), "no answer with this id"),
        (row(functions=[function(w={"type": "HashMap"})], id="simple_python_1"), "expected a Python one"),
        (row(functions=[function("end_turn")], id="simple_python_1"), "called end_turn"),
        (row(question="Area?", id="simple_python_1"), "expected a row in BFCL's layout"),
        (row(id=3), "id is '3'"),
        (
            row("multi_turn_base_1", involved_classes=["os"]),
            "bfcl-eval" if not backend.installed() else "involved_classes names",
        ),
    ],
)
def test_rows_that_cannot_be_played_are_left_out_and_counted(tmp_path, bad, why):
    answers = [GOLD, {**GOLD, "id": "simple_python_1"}]
    path = write(tmp_path, [row(), bad], answers)
    with pytest.warns(UserWarning, match="1 of 2 rows are not played") as warned:
        env = agentgym.make(ID, data=path, split="all")
    assert env.size() == 1 and why in str(warned[0].message)
    with pytest.raises(BadData):
        agentgym.make(ID, data=path, strict=True)


def test_text_that_nobody_reads_is_refused_unless_it_is_ignored(tmp_path):
    path = write(tmp_path, [row("memory_1", scenario="a customer"), row(context="Tiles are square.")], [GOLD])
    for strict in (False, True):
        with pytest.raises(BadData, match="are not played here" if strict else r"column 'context'.*ignore=\('context',\)"):
            agentgym.make(ID, data=path, split="all", strict=strict)
    with pytest.warns(UserWarning, match="1 of 2 rows are not played"):
        assert agentgym.make(ID, data=path, split="all", ignore="context").size() == 1


def test_expected_calls_are_read_and_never_evaluated():
    names = {"cd": ["folder"], "sort": ["file_name", "reverse"]}
    assert backend.read_call("sort('a b', reverse=[1, -2.5])", names) == ("sort", {"file_name": "a b", "reverse": [1, -2.5]})
    for text in ("rm('a')", "cd(folder=open('x'))", "cd('a', 'b')", "cd", "cd(", "__import__('os').system('true')"):
        with pytest.raises(ValueError, match=r"."):
            backend.read_call(text, names)


def test_results_are_compared_as_often_as_they_are_expected():
    assert backend.holds(["a", "b", "a"], ["a", "a"]) and not backend.holds(["a", "b"], ["a", "a"])
    assert backend.holds([], [])
