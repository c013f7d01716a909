"""A run that has ended goes on with more steps, to the last digit the run that had been asked for them from the start."""

import json

import pytest
from small_runs import curve, episodes
from whole_runs import small, whole  # noqa: F401  (a fixture)

from agentgym.cli import main
from agentgym.errors import BadConfig
from agentgym.trainers import resume, train
from agentgym.trainers.config.recipe_files import read_config
from agentgym.trainers.model.policy import load_policy


@pytest.mark.long
def test_a_finished_run_goes_on_as_the_longer_one(whole, tmp_path):  # noqa: F811
    folder, expected = whole
    short = train(small(tmp_path / "run", steps=2))
    assert short["steps"] == 2
    summary = resume(tmp_path / "run", steps=4)
    assert curve(tmp_path / "run") == curve(folder / "run")
    assert episodes(tmp_path / "run") == episodes(folder / "run")
    assert {**summary, "train_seconds": 0} == {**expected, "train_seconds": 0}
    assert read_config(tmp_path / "run" / "config.toml").steps == 4
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary


def test_it_wants_more_steps_than_were_taken(tmp_path, capsys):
    train(small(tmp_path / "run", steps=1, sft_episodes=0, test_tasks=0, eval_every=0))
    for steps in (0, 1):
        with pytest.raises(BadConfig, match=f"steps is {steps}, and .* has taken 1 already; expected more"):
            resume(tmp_path / "run", steps=steps)
    assert main(["train", "--resume", str(tmp_path / "run"), "--steps", "x"]) == 2
    assert main(["train", "--resume", str(tmp_path / "run"), "--lr", "3"]) == 2
    errors = capsys.readouterr().err
    assert (
        "steps is 'x'; expected a whole number" in errors
        and "only --steps and --processes can be changed, not --lr 3" in errors
    )


def test_a_runs_folder_is_a_model_to_train(tmp_path):
    train(small(tmp_path / "a", steps=1, test_tasks=0, eval_every=0))
    train(small(tmp_path / "b", model=str(tmp_path / "a"), steps=0, sft_episodes=0, test_tasks=0))
    first, second = (load_policy(max((tmp_path / name / "checkpoints").iterdir()))[0] for name in "ab")
    mine = dict(second.named_parameters())
    assert all((mine[name] == value).all() for name, value in first.named_parameters())
    assert read_config(tmp_path / "b" / "config.toml").model.endswith("a/checkpoints/step-00000021")
