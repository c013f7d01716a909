"""An old key or flag is refused with its new name."""

from pathlib import Path

import pytest

from agentgym.cli import main
from agentgym.errors import BadConfig, bad_option
from agentgym.renamed import RENAMED, new_name

RUN = [old for old in RENAMED if old not in ("player", "law", "worlds")]


@pytest.mark.parametrize("old", RUN)
def test_a_recipe_with_an_old_key_names_the_new_one(old: str, tmp_path: Path):
    from agentgym.trainers.config.recipe_files import read_config

    path = tmp_path / "mine.toml"
    path.write_text(f"{old} = 1\n")
    with pytest.raises(BadConfig, match=f"`{old}` is called `{RENAMED[old]}` now"):
        read_config(path)


@pytest.mark.parametrize(
    "words",
    [
        *(["train", "household", f"--{old.replace('_', '-')}", "1"] for old in RUN),
        ["eval", "guessnumber", "--player", "expert"],
        ["play", "guessnumber", "--player=oracle"],
        ["check", "guessnumber", "--law", "horizons"],
    ],
    ids=lambda words: words[2].partition("=")[0],
)
def test_an_old_flag_names_the_new_one(words: list[str], capsys: pytest.CaptureFixture[str]):
    old = words[2].partition("=")[0]
    assert main(words) == 2
    assert f"`{old}` is called `{new_name(old)}` now" in capsys.readouterr().err


def test_a_suite_with_the_old_key_names_the_new_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "mine.toml"
    path.write_text('worlds = ["guessnumber"]\n')
    assert main(["eval", str(path), "--policy", "expert"]) == 2
    assert "`worlds` is called `envs` now" in capsys.readouterr().err


def test_a_new_name_is_told_only_where_it_is_known():
    assert "is called" not in str(bad_option("option", "ratio", ["horizon"]))
    assert str(bad_option("option", "ratio", ["importance_sampling_level"])) == (
        "option `ratio` is called `importance_sampling_level` now"
    )


def test_names_that_are_known_are_listed_once():
    assert str(bad_option("key", "zzz", ["agent", "loss", "agent"])).endswith("Known: agent, loss.")
