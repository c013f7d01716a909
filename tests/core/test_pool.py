"""Pools of generated tasks: fixed, hashed, of one split, and nothing in their file that answers them."""

import json
from pathlib import Path

import pytest

from agentgym.cli import main
from agentgym.cli.eval_trained import trained_as
from agentgym.core.pool import fingerprint, lines
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig, BadData
from agentgym.registry import make


def written(path: Path, *tasks: Task) -> str:
    path.write_text("".join(lines(tasks)))
    return str(path)


def test_a_pool_is_the_first_tasks_of_the_split() -> None:
    env = make("sql", pool=5)
    assert [task.id for task in env.pooled() or []] == [f"train/2/{number}" for number in range(5)]
    assert [task.split for task in env.pooled("test") or []] == ["test"] * 5
    assert env.task_count() == 5 and make("sql").task_count() is None and make("sql").pooled() is None


def test_resets_draw_from_the_pool_and_reach_all_of_it() -> None:
    env = make("guessnumber", pool=3)
    drawn = set[str]()
    for seed in range(40):
        env.reset(seed=seed)
        drawn.add(env.task.id)
    assert drawn == {task.id for task in env.pooled() or []} and len(drawn) == 3
    env.reset(options={"task": "test/0/7"})  # a task that is named is that one
    assert env.task.id == "test/0/7"


def test_a_pool_of_one_task() -> None:
    env = make("sokoban", pool=1)
    assert {env.reset(seed=seed)[0] for seed in range(5)} == {env.reset(seed=9)[0]}


def test_the_hash_is_that_of_contents_and_order() -> None:
    one, two = Task("a", {"x": 1}, "t/0/0"), Task("b", {"x": 1}, "t/0/1")
    assert fingerprint([one, two]) != fingerprint([two, one]) != fingerprint([one])
    assert fingerprint([one]) != fingerprint([Task("a", {"x": 2}, "t/0/0")])
    assert fingerprint([Task("a", {"x": 1, "y": 2}, "t")]) == fingerprint([Task("a", {"y": 2, "x": 1}, "t")])


def test_a_file_gives_back_the_tasks_and_holds_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "pool.jsonl"
    assert not main(["envs", "guessnumber", "--write", "8", "--out", str(path), "--env.split", "valid"])
    env = make("guessnumber", pool_file=str(path), split="valid")
    tasks = env.pooled() or []
    assert tasks == make("guessnumber").up_to(8, "valid") and env.task_count() == 8
    assert fingerprint(tasks) in capsys.readouterr().out
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert all({*row} == {"id", "hash", "instruction"} for row in rows)
    with pytest.raises(BadData, match="lists no task of split 'train'"):
        make("guessnumber", pool_file=str(path)).pooled()


def test_files_that_are_none(tmp_path: Path) -> None:
    task = make("guessnumber").numbered(3)
    good = written(tmp_path / "good.jsonl", task, task)
    assert make("guessnumber", pool_file=good).pooled() == [task]
    rows = {
        "a changed hash": ('{"id": "train/0/3", "hash": "0"}', "is not the one that was written"),
        "an id of nothing": ('{"id": "../../etc/passwd", "hash": "0"}', "expected SPLIT/DIFFICULTY/NUMBER"),
        "no object": ("[1]", "expected an object with the texts"),
        "no JSON": ("{", "line 1: .*; expected one JSON object a line"),
        "too deep": ("[" * 100_000, "line 1: "),
    }
    for name, (line, message) in rows.items():
        file = tmp_path / "bad.jsonl"
        file.write_text(line)
        with pytest.raises(BadData, match=message):
            make("guessnumber", pool_file=str(file)).pooled()
            pytest.fail(name)
    with pytest.raises(BadData, match="No such file"):
        make("guessnumber", pool_file=str(tmp_path / "none")).pooled()


def test_a_task_of_other_options_is_not_taken_for_the_one_that_was_written(tmp_path: Path) -> None:
    file = written(tmp_path / "pool.jsonl", *make("household", preset="tiny").up_to(2))
    assert len(make("household", preset="tiny", pool_file=file).pooled() or []) == 2
    with pytest.raises(BadData, match="other options of the environment"):
        make("household", pool_file=file).pooled()


@pytest.mark.parametrize("options", [{"pool": 0}, {"pool": True}, {"pool": "3"}, {"pool": 10**9}, {"pool_file": 3}])
def test_what_is_no_pool_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(BadConfig, match=f"{next(iter(options))} of GuessNumber is"):
        make("guessnumber", **options)


def test_a_pool_comes_from_one_place_and_fits_its_split(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="a pool comes from one of them"):
        make("guessnumber", pool=3, pool_file="x")
    with pytest.raises(BadConfig, match=r"split 'test' of GuessNumber has \d+ different tasks; 5000 were asked for"):
        make("guessnumber", pool=5000).pooled("test")


@pytest.mark.parametrize("words", ["--write 3", "guessnumber --write 3", "guessnumber --out x", "--write 3 --out x"])
def test_writing_needs_an_environment_a_number_and_a_file(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", *words.split()])
    assert "agentgym envs ID --write N --out FILE" in capsys.readouterr().err


def test_a_file_that_exists_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("mine")
    assert main(["envs", "guessnumber", "--write", "3", "--out", str(tmp_path / "mine")])
    assert (tmp_path / "mine").read_text() == "mine" and "exists" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--env.pool", "4"], ["--env.pool", "4", "--tasks", "9"], ["--env.pool_file"]])
def test_an_evaluation_plays_the_pool(flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if flags == ["--env.pool_file"]:
        file = tmp_path / "pool.jsonl"
        assert not main(["envs", "guessnumber", "--write", "4", "--out", str(file), "--env.split", "test"])
        flags = [*flags, str(file)]
    out = tmp_path / "eval"
    assert not main(["eval", "guessnumber", "--policy", "expert", "--out", str(out), *flags])
    played = [json.loads(line)["task_id"] for line in (out / "episodes.jsonl").read_text().splitlines()]
    env = make("guessnumber")
    assert sorted(played) == sorted(task.id for task in env.up_to(4, "test"))
    about = json.loads((out / "manifest.json").read_text())["options"]["envs"]
    (about,) = about.values()
    assert about["tasks"] == 4 and about["pool"] == fingerprint(env.up_to(4, "test"))


def test_the_pool_that_a_run_was_trained_on_does_not_narrow_its_evaluation(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('env = "guessnumber"\n[env_options]\npool = 2\ndifficulty = 1\n')
    trained = trained_as(tmp_path, ["guessnumber"], {}, ["agentgym"])
    assert trained and trained.env_options == {"difficulty": 1}
    (tmp_path / "config.toml").write_text('env = "guessnumber"\n')
    trained = trained_as(tmp_path, ["guessnumber"], {}, ["agentgym"])
    assert trained and trained.env_options == {}
