"""Leaderboards: the order, the differences by hand, and what may not stand in one table."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from agentgym import BadConfig, Episode
from agentgym.cli import main
from agentgym.evaluate import manifest
from agentgym.evaluate.compare import read_evaluation
from agentgym.evaluate.leaderboard import leaderboard
from agentgym.evaluate.protocol import comparability

PROTOCOL = {
    "name": "me@rules",
    "tasks": 40,
    "prompt_hash": "0" * 16,
    "admissible": True,
    "history": "all",
    "reward": "outcome",
}
HOSTILE = "</script><img src=x onerror=alert(1)>"


def written(
    folder: Path, rate: float, *, faults: int = 0, tasks: int = 40, instruction: str = "do it", **options: Any
) -> Path:
    """Write an evaluation in which the first tasks are solved."""
    manifest.start(folder, {"seed": 0, "attempts": 1, "model": "hf:" + folder.name, "protocol": PROTOCOL, **options})
    lines: list[str] = []
    for i in range(tasks):
        fault = i >= tasks - faults
        result = None if fault else i < rate * tasks
        reason = {True: "success", False: "horizon", None: "engine"}[result]
        made = Episode("me/A-v0", f"t{i}", f"{i}", 0, success=result, reason=reason, instruction=instruction)
        lines.append(made.to_json() + "\n")
    (folder / "episodes.jsonl").write_text("".join(lines))
    return folder


def test_order_and_differences_by_hand(tmp_path: Path):
    folders = [written(tmp_path / name, rate) for name, rate in (("grpo", 0.5), ("gigpo", 0.75), ("none", 0.0))]
    board = leaderboard(folders)
    assert [entry["name"] for entry in board["entries"]] == ["gigpo", "grpo", "none"]
    assert board["references"] == ["gigpo"] and board["protocol"] == "me@rules" and board["tasks"] == 40
    best, second, last = (entry["differences"] for entry in board["entries"])
    assert best == {} and second["gigpo"]["mean"] == -0.25 and last["gigpo"]["mean"] == -0.75
    assert second["gigpo"]["high"] < 0 and second["gigpo"]["units"] == 40
    against = leaderboard(folders, [folders[0]])
    assert [e["differences"].get("grpo", {}).get("mean") for e in against["entries"]] == [0.25, None, -0.5]
    both = leaderboard(folders, folders[:2])
    assert both["references"] == ["grpo", "gigpo"]  # the baselines stand beside every number
    gaps = [{name: gap["mean"] for name, gap in entry["differences"].items()} for entry in both["entries"]]
    assert gaps == [{"grpo": 0.25}, {"gigpo": -0.25}, {"grpo": -0.5, "gigpo": -0.75}]
    _, episodes = read_evaluation(folders[0])
    named = re.search(r"task ids (\w+)", comparability({"protocol": PROTOCOL, "model": "m"}, episodes))
    assert named and named[1] == board["task_ids"]  # the same that `eval` prints


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"tasks": 39}, "task ids"),
        ({"instruction": "do something else"}, "instructions"),
        ({"protocol": {**PROTOCOL, "history": "last 2"}}, "protocol"),
        ({"protocol": None}, "protocol"),
    ],
)
def test_other_tasks_or_rules_are_refused(tmp_path: Path, other: dict[str, Any], what: str):
    folders = [written(tmp_path / "a", 0.5), written(tmp_path / "b", 0.6, **other)]
    with pytest.raises(BadConfig, match=f"cannot share a table: {what}"):
        leaderboard(folders)


def test_an_evaluation_that_has_not_ended_is_refused(tmp_path: Path):
    folders = [written(tmp_path / name, 0.5, attempts=2, protocol=None) for name in "ab"]
    with (folders[0] / "episodes.jsonl").open("a") as file:
        file.write(
            Episode("me/A-v0", "t0", "0", 0, attempt=1, success=True, reason="success", instruction="do it").to_json() + "\n"
        )
    with pytest.raises(BadConfig, match="number of episodes is 41 in the first and 40 in the second"):
        leaderboard(folders)


def test_without_a_protocol_what_is_played_must_agree(tmp_path: Path):
    folders = [written(tmp_path / f"{k}", 0.5, protocol=None, attempts=k, temperature=k) for k in (1, 2)]
    with pytest.raises(BadConfig, match="attempts is 1 in the first and 2 in the second"):
        leaderboard(folders)
    same = [written(tmp_path / f"t{k}", 0.5, protocol=None, temperature=k) for k in (1, 2)]
    board = leaderboard(same)
    assert board["protocol"] is None and board["options"] == {"temperature": {"t1": 1, "t2": 2}}


def test_too_many_faults_have_no_rank(tmp_path: Path):
    folders = [written(tmp_path / "a", 0.5), written(tmp_path / "b", 0.9, faults=1), written(tmp_path / "c", 0.4)]
    board = leaderboard(folders)
    assert [entry["name"] for entry in board["entries"]] == ["a", "c", "b"]
    assert "2.5%" in board["entries"][2]["not_comparable"] and board["entries"][2]["differences"] == {}
    with pytest.raises(BadConfig, match="reference"):
        leaderboard(folders, [folders[0], folders[1]])
    with pytest.raises(BadConfig, match="no evaluation can be ranked"):
        leaderboard([folders[1], written(tmp_path / "d", 0.1, faults=4)])


def test_what_is_no_evaluation_is_refused(tmp_path: Path):
    one = written(tmp_path / "a", 0.5)
    for paths, message in (
        ([one], "at least two"),
        ([one, one / "episodes.jsonl"], "each once"),
        ([one, tmp_path], "no evaluation"),
    ):
        with pytest.raises(BadConfig, match=message):
            leaderboard(paths)
    run = written(tmp_path / "run", 0.5)
    (run / "config.toml").write_text("")
    with pytest.raises(BadConfig, match="agentgym eval --model"):
        leaderboard([one, run])
    other = written(tmp_path / "b", 0.5)
    with pytest.raises(BadConfig, match="not one of the evaluations"):
        leaderboard([one, other], [tmp_path])


def test_the_order_of_names_changes_nothing_but_ties(tmp_path: Path):
    folders = [written(tmp_path / f"{k}", k / 10) for k in range(1, 6)]
    wanted = leaderboard(folders)["entries"]
    random.Random(0).shuffle(folders)
    assert leaderboard(folders)["entries"] == wanted


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folders = [str(written(tmp_path / name, rate, note=HOSTILE)) for name, rate in (("a", 0.5), ("b", 0.7))]
    out = tmp_path / "board.html"
    assert main(["leaderboard", *folders, "--out", str(out)]) == 0
    output = capsys.readouterr().out
    assert "b" in output and "-20.0 points" in output and str(out) in output.replace("\n", "")
    assert HOSTILE not in out.read_text() and "connect-src" not in out.read_text()
    assert main(["leaderboard", *folders, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["references"] == ["b"]
    assert main(["leaderboard", *folders, "--reference", *folders, "--out", str(out)]) == 0
    output = capsys.readouterr().out
    assert "+20.0 points" in output and "-20.0 points" in output
    assert main(["leaderboard", *folders, "--out", str(tmp_path)]) == 2
