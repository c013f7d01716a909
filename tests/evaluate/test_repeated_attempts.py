"""An attempt counts once: episodes of one attempt that differ are refused, lines that are there again are left out."""

import json
from pathlib import Path

import pytest

import agentgym.evaluate
from agentgym.cli import main
from agentgym.episodes.episode import read_episodes
from agentgym.errors import BadData

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


def changed(line: str, **fields: object) -> str:
    """Return a line with other fields."""
    return json.dumps({**json.loads(line), **fields})


FILES = {
    "export": ["export", "{file}", "--as", "episodes", "--out", "{file}.parquet"],
    "export turns": ["export", "{file}", "--as", "turns", "--out", "{file}.parquet"],
    "export documents": ["export", "{file}", "--as", "atif", "--out", "{file}-atif"],
    "view": ["view", "{file}"],
}


@pytest.mark.parametrize("words", FILES.values(), ids=FILES)
@pytest.mark.parametrize("end", ["\n", ""], ids=["whole", "without the last line's end"])
def test_a_file_of_nine_lines_of_one_attempt_is_refused(
    words: list[str], end: str, folders: dict[str, Path], tmp_path, capsys
):
    """Also where the last line has no end: it can be read, so that nothing interrupted it."""
    line, other = (folders["a"] / "episodes.jsonl").read_text().splitlines()
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join([other, *[line] * 9]) + end)  # the same line again is one episode
    words = [word.format(file=path) for word in words]
    assert main(words) == 0, capsys.readouterr().err
    assert len(read_episodes(path)) == len(agentgym.evaluate.to_pandas(path)) == 2
    path.write_text("\n".join([other, line, changed(line, reward=0.5)]) + end)
    assert main(words) == 2
    assert "which differ; an attempt counts once" in capsys.readouterr().err
    for read in (read_episodes, agentgym.evaluate.to_pandas):
        with pytest.raises(BadData, match=r"line 3: attempt 0 at .* is there twice"):
            read(path)


def test_the_folder_of_an_evaluation_has_one_seed_and_one_group_for_each_attempt(folders: dict[str, Path], capsys):
    """Elsewhere another seed, group or session is another attempt: training, and what a gateway wrote."""
    path = folders["a"] / "episodes.jsonl"
    lines = path.read_text().splitlines()
    others = [changed(lines[0], **field) for field in ({"seed": 7}, {"group_id": "b"}, {"labels": {"session": "s"}})]
    elsewhere = folders["a"] / "some.jsonl"
    elsewhere.write_text("\n".join([*lines, *others, ""]))
    assert len(read_episodes(elsewhere)) == 5
    for other in others:
        path.write_text("\n".join([*lines, other, ""]))
        for read in (read_episodes, agentgym.evaluate.to_pandas):
            with pytest.raises(BadData, match="an attempt counts once"):
                read(path)
        assert main(["export", str(folders["a"]), "--as", "turns", "--out", str(path.with_suffix(".parquet"))]) == 2
    (folders["a"] / "config.toml").write_text("")  # a training run: its groups are of steps
    assert len(read_episodes(path)) == 3


@pytest.mark.parametrize("form", ["sft", "episodes", "atif"])
def test_a_file_that_is_named_twice_is_refused(form: str, folders: dict[str, Path], tmp_path: Path, capsys) -> None:
    """Its groups would be two: the folder and its file are one, too."""
    files = [str(folders["a"]), str(folders["a"] / "episodes.jsonl")]
    assert main(["export", *files, "--as", form, "--out", str(tmp_path / "o.parquet")]) == 2
    assert "is named twice" in capsys.readouterr().err
