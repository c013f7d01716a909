"""An attempt counts once: episodes of one attempt that differ are refused, lines that are there again are left out."""

import json
from pathlib import Path

import pytest

from agentgym.cli import main

WORDS = {
    "compare": ["compare", "{a}", "{b}"],
    "view": ["view", "{a}"],
    "leaderboard": ["leaderboard", "{a}", "{b}", "--out", "{b}.html"],
    "eval again": ["eval", "guessnumber", "--policy", "expert", "--tasks", "2", "--out", "{a}", "--quiet"],
    "rescore": [
        "rescore",
        "{a}",
        "--rewards",
        "length",
        "--reward.budget",
        "5",
        "--reward.length.unit",
        "turns",
        "--out",
        "{b}-again",
    ],
}


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Return two evaluations of the same tasks."""
    made = {name: tmp_path / name for name in ("a", "b")}
    for folder in made.values():
        assert main(["eval", "guessnumber", "--policy", "expert", "--tasks", "2", "--out", str(folder), "--quiet"]) == 0
    return made


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_two_results_of_one_attempt_are_refused(words: list[str], folders: dict[str, Path], capsys) -> None:
    path = folders["a"] / "episodes.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, lines[0], ""]))  # the same line again is one episode
    words = [word.format(**folders) for word in words]
    assert main(words) == 0, capsys.readouterr().err
    other = json.loads(lines[0])
    path.write_text("\n".join([*lines, json.dumps({**other, "seed": other["seed"] + 1}), ""]))
    capsys.readouterr()
    assert main([*words[:-1], f"{words[-1]}-2"] if words[0] == "rescore" else words) == 2
    error = capsys.readouterr().err
    assert "attempt 0" in error and "which differ; an attempt counts once" in error
