"""Several difficulties of an environment in one evaluation, and the rows that tell them apart."""

import json
from pathlib import Path
from typing import Any

import pytest

import agentgym
from agentgym import BadConfig, Episode
from agentgym.cli import main
from agentgym.evaluate.compare import compare_folders
from agentgym.evaluate.run import EvaluationPlan, evaluate
from agentgym.evaluate.suite import read_suite
from agentgym.evaluate.summary import summarize

ENV = "rlvr/FrozenLake-v0"


def plan(**changes: Any) -> EvaluationPlan:
    return EvaluationPlan(**{"envs": (ENV,), "tasks": 3, "attempts": 2, "difficulties": (0, 2), **changes})


def test_as_many_tasks_of_each_are_played_and_told_apart(tmp_path: Path) -> None:
    episodes = evaluate(agentgym.OracleAgent(), plan(), tmp_path / "a")
    assert {(e.task_id.split("/")[1], e.labels["difficulty"]) for e in episodes} == {("0", "0"), ("2", "2")}
    assert len(episodes) == 2 * 3 * 2
    summary = json.loads((tmp_path / "a/summary.json").read_text())["envs"][ENV]
    assert [
        (name, row["success"]["tasks"], row["success"]["episodes"]) for name, row in summary["by_difficulty"].items()
    ] == [
        ("0", 3, 6),
        ("2", 3, 6),
    ]
    assert set(summary["by_difficulty"]["0"]["success"]) >= {"mean", "low", "high"}
    described = json.loads((tmp_path / "a/manifest.json").read_text())["options"]["envs"][ENV]
    assert (described["tasks"], described["difficulties"]) == (6, [0, 2])
    size = [len(e.turns[0].observation) for e in episodes]
    assert max(size[6:]) > max(size[:6])  # and the environment was made at each difficulty


def test_rows_by_difficulty_are_those_of_their_episodes_alone() -> None:
    results = {"10": (True, True, False), "9": (False,), "x": (True,)}
    episodes = [
        Episode("me/W-v0", f"{name}/{i}", "g", 0, labels={"difficulty": name}, success=won, reason="success")
        for name, wins in results.items()
        for i, won in enumerate(wins)
    ]
    episodes.append(Episode("me/W-v0", "old", "g", 0, success=True, reason="success"))  # of an older file
    found = summarize(episodes)["envs"]["me/W-v0"]
    assert {name: row["success"]["mean"] for name, row in found["by_difficulty"].items()} == {
        "x": 1.0,
        "9": 0.0,
        "10": 2 / 3,
    }
    assert list(found["by_difficulty"]) == ["x", "9", "10"]
    assert found["success"]["mean"] == 4 / 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"difficulties": ()}, "expected at least one"),
        ({"difficulties": (1, 1)}, "each once"),
        ({"env_options": {ENV: {"difficulty": 1}}}, "no additional option `difficulty`"),
        ({"difficulties": (-1,)}, "expected an integer from 0"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=message):
        evaluate(agentgym.RandomAgent(), plan(**changes), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_files_have_no_difficulties(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"id": "0", "contents": "\\"Title\\"\\ntext"}\n')
    (tmp_path / "q.jsonl").write_text('{"question": "what?", "golden_answers": ["text"], "split": "test"}\n')
    files = {"corpus": str(tmp_path / "c.jsonl"), "questions": str(tmp_path / "q.jsonl")}
    searching = plan(envs=("rlvr/Search-v0",), split="test", env_options={"rlvr/Search-v0": files})
    with pytest.raises(BadConfig, match="has the same tasks at difficulties"):
        evaluate(agentgym.RandomAgent(), searching, tmp_path / "new")


def test_suites_and_flags_name_them_and_comparisons_tell_them_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.toml"
    path.write_text("tasks = 2\n[envs]\nfrozenlake = { difficulties = [0, 1] }\n")
    assert read_suite(path).own[ENV] == {"difficulties": (0, 1)}
    assert main(["eval", str(path), "--policy", "oracle", "--out", str(tmp_path / "a")]) == 0
    output = capsys.readouterr().out
    assert "  difficulty 0  " in output and "  difficulty 1  " in output
    command = ["eval", "frozenlake", "--policy", "random", "--tasks", "2", "--difficulties", "0", "1"]
    assert main([*command, "--out", str(tmp_path / "b")]) == 0
    found = compare_folders(tmp_path / "a", tmp_path / "b")["envs"][ENV]["by_difficulty"]
    assert {name: (row["a"], row["difference"]["units"]) for name, row in found.items()} == {"0": (1, 2), "1": (1, 2)}
    for text in ("difficulties = []", "difficulties = 1", "difficulties = [true]", "difficulties = [-1]"):
        path.write_text(f'{text}\nworlds = ["frozenlake"]')
        with pytest.raises(BadConfig, match="expected a list of integers from 0"):
            read_suite(path)
