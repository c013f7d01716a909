"""One half of a character (a lone surrogate) in every text of an episode: every writer replaces it and goes on."""

import json
import shutil
from pathlib import Path

import pytest

from agentgym import Episode, Turn
from agentgym.cli import main

HALF = "half \ud800 é"
FORMS = ("sft", "dpo", "grpo", "episodes", "atif")


def written(path: Path) -> Path:
    """Write a file of four attempts at a task, two of them successes, in which every text has half a character."""
    lines: list[str] = []
    for attempt in range(4):
        won = attempt % 2 == 0
        turn = Turn(
            HALF, action=f"{HALF} {attempt}", text=HALF, reward=float(won), rewards={"success": float(won)}, error=HALF
        )
        turn.messages = [{"role": "system", "content": HALF}, {"role": "user", "content": HALF}]
        turn.valid, turn.prompt_ids, turn.output_ids, turn.logprobs = True, [1, 2], [3], [-0.5]
        episode = Episode("rlvr/GuessNumber-v0", "test/0/1", "0/test/0/1", seed=1, attempt=attempt, turns=[turn])
        episode.instruction = episode.final_observation = HALF
        episode.success, episode.reason, episode.reward = won, "success" if won else "failure", float(won)
        episode.labels, episode.split = {"type": HALF}, "train"
        lines.append(episode.to_json())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _as(form: str) -> list[str]:
    return ["--as", form, *(["--credit", "grpo"] if form == "grpo" else [])]


WRITERS = {
    **{
        f"export as {form}": ["export", "{file}", *_as(form), "--out", "{out}" if form == "atif" else "{out}.parquet"]
        for form in FORMS
    },
    "export as sft, success": ["export", "{file}", "--as", "sft", "--success", "--out", "{out}.parquet"],
    "view": ["view", "{file}"],
    "watch": ["watch", "{run}", "--terminal"],
    "compare": ["compare", "{eval}", "{eval2}"],
    "leaderboard": ["leaderboard", "{eval}", "{eval2}", "--out", "{out}.html"],
    "rescore": [
        "rescore",
        "{eval}",
        "--rewards",
        "length",
        "--reward.budget",
        "5",
        "--reward.length.unit",
        "turns",
        "--out",
        "{out}",
    ],
    "view an evaluation": ["view", "{eval}"],
}


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an evaluation of one task, half a character in its texts."""
    folder = tmp_path_factory.mktemp("evaluation") / "e"
    command = ["eval", "guessnumber", "--policy", "expert", "--tasks", "1", "--out", str(folder), "--quiet"]
    assert main(command) == 0
    lines = (folder / "episodes.jsonl").read_text().splitlines()
    raw = json.loads(lines[0])
    raw |= {"instruction": HALF, "final_observation": HALF, "labels": {"type": HALF}}
    raw["turns"][0] |= {"action": HALF, "text": HALF, "observation": HALF}
    (folder / "episodes.jsonl").write_text(json.dumps(raw) + "\n")
    return folder


@pytest.mark.parametrize("words", WRITERS.values(), ids=WRITERS)
def test_a_writer_replaces_half_a_character(
    words: list[str], evaluation: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "e.jsonl")
    places = {
        "file": file,
        "out": tmp_path / "out",
        "run": tmp_path / "run",
        "eval": tmp_path / "x",
        "eval2": tmp_path / "y",
    }
    if "watch" in words:
        (tmp_path / "run").mkdir()
        written(tmp_path / "run" / "episodes.jsonl")
        (tmp_path / "run" / "metrics.jsonl").write_text(json.dumps({"step": 1, "phase": "train"}) + "\n")
    for folder in (tmp_path / "x", tmp_path / "y") if "{eval}" in words else ():
        shutil.copytree(evaluation, folder)
    capfd.readouterr()
    code = main([word.format(**places) for word in words])
    output = capfd.readouterr()
    assert code == 0, output.err
    assert "Traceback" not in output.err and "\ud800" not in output.out
    made = [path for path in tmp_path.rglob("*") if path.is_file() and path != file]
    for path in made:
        if path.suffix in (".html", ".json", ".jsonl", ".md"):
            path.read_text(encoding="utf-8")  # no half of a character reaches a file
