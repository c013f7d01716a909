"""Evaluations name the generation of ALFWorld's words that they play, and warn about one that was not trained on."""

import json
from pathlib import Path

import pytest
from household_files import OLD_GRAMMAR, game_text, write_game

from agentgym.agents.table import UNATTENDED
from agentgym.evaluate.run import EvaluationPlan, evaluate

FILES, HOUSES = "rlvr/ALFWorld-v0", "rlvr/Household-v0"


def played(folder: Path, env: str, trained: list[str] | None = None, **options: object) -> tuple[list[str], list[str]]:
    """Play two tasks by the expert and return the wordings in the manifest and the warnings."""
    warnings: list[str] = []
    plan = EvaluationPlan((env,), tasks=2, env_options={env: options})
    about = {} if trained is None else {"trained_wordings": trained}
    evaluate(UNATTENDED["expert"].load()(), plan, folder, options=about, say=warnings.append)
    manifest = json.loads((folder / "manifest.json").read_text())
    return manifest["options"]["envs"][env].get("wordings"), [w for w in warnings if "wording" in w]


def test_files_of_each_generation_are_named_and_the_other_one_is_warned_about(tmp_path: Path) -> None:
    for name, text in (("new", game_text()), ("old", game_text(grammar=OLD_GRAMMAR))):
        for number in range(2):
            write_game(tmp_path / name / "valid_unseen" / f"pick_cool-{number}" / "trial", text=text)
    options = {"split": "valid_unseen", "horizon": 50}
    assert played(tmp_path / "a", FILES, data=str(tmp_path / "new"), **options) == (["new"], [])
    assert played(tmp_path / "b", FILES, ["new", "old"], data=str(tmp_path / "old"), **options) == (["old"], [])
    wordings, (warning,) = played(tmp_path / "c", FILES, ["new"], data=str(tmp_path / "old"), **options)
    assert wordings == ["old"]
    assert "'old', and the model was trained on 'new' alone: its success may be lower" in warning


def test_a_file_with_parts_of_both_is_a_variant(tmp_path: Path) -> None:
    mixed = OLD_GRAMMAR.replace("{lend.name}", "{r.name}")
    write_game(tmp_path / "data" / "valid_unseen" / "pick_cool" / "trial", text=game_text(grammar=mixed))
    assert played(tmp_path / "e", FILES, data=str(tmp_path / "data"), split="valid_unseen")[0] == ["variants"]


def test_generated_houses_name_theirs_and_other_environments_none(tmp_path: Path) -> None:
    assert played(tmp_path / "a", HOUSES, ["old"], preset="tiny")[0] == ["new"]
    wordings, (warning,) = played(tmp_path / "b", HOUSES, ["new"], preset="tiny", wordings=("held_out", "new"))
    assert "held_out" in wordings and "'held_out'" in warning and "'new'" in warning
    assert played(tmp_path / "c", "rlvr/GuessNumber-v0", ["new"]) == (None, [])


def test_an_evaluation_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    played(tmp_path / "a", HOUSES, ["old"], preset="tiny")
    path = tmp_path / "a" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["options"]["envs"][HOUSES]["wordings"], manifest["options"]["trained_wordings"]
    path.write_text(json.dumps(manifest))
    assert played(tmp_path / "a", HOUSES, ["old"], preset="tiny")[0] == ["new"]
    with pytest.raises(Exception, match="other options"):
        played(tmp_path / "a", HOUSES, ["new"], preset="tiny")
