"""Folders in the form of tau2-bench's: what is read, what is left out, and what is wrong with a file."""

import json

import pytest

import agentgym
from agentgym.envs.desk.tau2 import load
from agentgym.tasks.reading import Reading


def task(id, *, basis=None, **criteria):
    """Return a task in the exact form, its words our own."""
    record = {
        "domain": "parcels",
        "reason_for_call": "You want to know where parcel P7 is.",
        "known_info": "You are Kim Larsen.",
        "unknown_info": None,
        "task_instructions": "Be polite.",
    }
    move = {"action_id": f"{id}_0", "name": "move_parcel", "arguments": {"parcel_id": "P7", "to": "Oslo"}, "info": None}
    blank = {"actions": [move], "communicate_info": ["12"], "nl_assertions": ["Agent is polite."], "reward_basis": basis}
    return {
        "id": id,
        "description": {"purpose": "a test", "relevant_policies": None, "notes": None},
        "user_scenario": {"persona": None, "instructions": record},
        "initial_state": None,
        "evaluation_criteria": {**blank, **criteria},
        "annotations": None,
    }


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "parcels"
    root.mkdir()
    rows = [task("0"), task("1", basis=["DB", "NL_ASSERTION"]), task("2", basis=["ENV_ASSERTION"]), task("x-3")]
    (root / "tasks.json").write_text(json.dumps(rows), encoding="utf-8")
    splits = {"train": ["0", "x-3"], "test": ["1", "2"], "base": ["0", "1", "2", "x-3"]}
    (root / "split_tasks.json").write_text(json.dumps(splits), encoding="utf-8")
    (root / "db.json").write_text(json.dumps({"parcels": {"P7": {"at": "Bergen"}}}), encoding="utf-8")
    (root / "policy.md").write_text("# Parcels\nBe polite.\n", encoding="utf-8")
    return root


def test_a_folder_is_read_whole(folder):
    bench = load(str(folder))
    assert bench.name == "parcels" and bench.policy.startswith("# Parcels") and bench.db["parcels"]["P7"] == {"at": "Bergen"}
    assert [(one.id, one.split) for one in bench.library.tasks] == [
        ("0", "train"),
        ("1", "test"),
        ("2", "test"),
        ("x-3", "train"),
    ]
    first, second, *_ = bench.library.tasks
    assert first.instruction == "You want to know where parcel P7 is."
    assert first.data["basis"] == ["DB", "COMMUNICATE"] and first.data["left_out"] == []
    assert first.data["criteria"]["actions"][0]["arguments"] == {"parcel_id": "P7", "to": "Oslo"}
    assert second.data["left_out"] == ["NL_ASSERTION"]
    counts = {"tasks": 4, "DB": 3, "COMMUNICATE": 2, "NL_ASSERTION": 1, "ENV_ASSERTION": 1, "left out in part": 1}
    assert bench.report() == counts


def test_the_desk_lists_them(folder):
    env = agentgym.make("rlvr/Desk-v0", data=str(folder / "tasks.json"), split="test")
    assert [one.id for one in env.tasks(2)] == ["1", "2"] and env.size() == 2 and env.size("train") == 2
    assert env.find("x-3").data["persona"] is None and env.split_of(env.find("0")) == "train"
    with pytest.raises(LookupError, match="x-3"):
        env.find("x-4")


def test_without_a_file_of_splits_the_id_decides_and_toml_is_read_too(folder):
    (folder / "split_tasks.json").unlink()
    (folder / "db.json").unlink()
    (folder / "db.toml").write_text('[parcels.P7]\nat = "Oslo"\n', encoding="utf-8")
    bench = load(str(folder / "tasks.json"))
    assert bench.db == {"parcels": {"P7": {"at": "Oslo"}}}
    assert {one.split for one in bench.library.tasks} <= {"train", "valid", "test"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tasks.json", "{", "expected JSON in UTF-8"),
        ("tasks.json", "[]", "expected a list of tasks"),
        ("tasks.json", "[3]", "task 0: '3'; expected an object"),
        ("tasks.json", json.dumps([{**task("0"), "id": 0}]), "task 0: id is 0; expected a string"),
        ("tasks.json", json.dumps([task("0"), task("0")]), "the id '0' was given before"),
        ("tasks.json", json.dumps([{**task("0"), "user_scenario": {}}]), "instructions of user_scenario are 'None'"),
        ("tasks.json", json.dumps([task("0", basis=["LUCK"])]), "reward_basis has 'LUCK'; expected DB, COMMUNICATE"),
        ("split_tasks.json", "[1]", r"split_tasks.json: '\[1\]'; expected an object"),
        ("db.json", "[", "db.json: .*expected JSON in UTF-8"),
    ],
)
def test_what_is_wrong_is_named(name, text, message, folder):
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(agentgym.BadData, match=message):
        load(str(folder), Reading(strict=True))


def test_one_bad_task_refuses_no_file_and_text_that_nobody_reads_does(folder):
    bad, odd = {**task("b"), "user_scenario": {}}, {**task("o"), "context": "The parcel is in Oslo, and nobody was told."}
    (folder / "tasks.json").write_text(json.dumps([task("0"), bad, task("1")]), encoding="utf-8")
    with pytest.warns(UserWarning, match="1 of 3 rows are not played.*instructions of user_scenario"):
        assert [one.id for one in load(str(folder)).library.tasks] == ["0", "1"]
    with pytest.raises(agentgym.BadData, match="instructions of user_scenario"):
        agentgym.make("rlvr/Desk-v0", data=str(folder), strict=True)
    (folder / "tasks.json").write_text(json.dumps([task("0"), odd]), encoding="utf-8")
    with pytest.raises(agentgym.BadData, match="column 'context' holds 'The parcel is in Oslo"):
        load(str(folder), Reading())
    assert agentgym.make("rlvr/Desk-v0", data=str(folder), ignore="context", split="train").find("o").id == "o"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("required_documents", ["Fees"], "it requires documents of a knowledge base"),
        ("user_tools", "check", "user_tools is 'check'; expected names of tools"),
        ("user_tools", [1], "user_tools is"),
    ],
)
def test_a_task_with_a_field_that_cannot_be_applied_is_left_out(field, value, message, folder):
    plain = [{**task("0"), field: None}, {**task("1"), field: []}]
    (folder / "tasks.json").write_text(json.dumps([*plain, {**task("2"), field: value}]), encoding="utf-8")
    with pytest.warns(UserWarning, match=f"1 of 3 rows are not played.*{message}"):
        assert [one.id for one in load(str(folder)).library.tasks] == ["0", "1"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(agentgym.BadData, match="no folder of tau2-bench"):
        agentgym.make("rlvr/Desk-v0", data=str(tmp_path / "nothing"))
