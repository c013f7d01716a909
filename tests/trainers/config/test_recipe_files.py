"""Recipes and bases: their values are sound, and what they say to another stage or model is left out or refused."""

import pytest

from agentgym.cli import main
from agentgym.cli.train import read
from agentgym.errors import BadConfig, UnknownName
from agentgym.trainers.config.checks import check
from agentgym.trainers.config.recipe_files import read_config, read_recipe, recipes
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.losses.interface import resolve_loss
from agentgym.trainers.model.policy import init_policy


def test_recipes_are_sound_and_say_what_they_are():
    for name, path in recipes().items():
        check(read_recipe(name))
        assert path.read_text().startswith("# ")


def test_a_base_is_laid_under_a_file_table_by_table(tmp_path):
    (tmp_path / "low.toml").write_text("steps = 7\nlr = 0.1\n[env_options]\npreset = 'tiny'\nhorizon = 3\n")
    (tmp_path / "own.toml").write_text("base = 'low.toml'\nlr = 0.2\n[env_options]\nhorizon = 4\n")
    found = read_config(tmp_path / "own.toml")
    assert (found.steps, found.lr, found.env_options) == (7, 0.2, {"preset": "tiny", "horizon": 4})
    (tmp_path / "low.toml").write_text("base = 'pretrained'\n")
    with pytest.raises(BadConfig, match="one level"):
        read_config(tmp_path / "own.toml")
    (tmp_path / "own.toml").write_text("base = 'pretrainde'\n")
    with pytest.raises(UnknownName, match="Did you mean 'pretrained'"):
        read_config(tmp_path / "own.toml")
    (tmp_path / "own.toml").write_text("base = 3\n")
    with pytest.raises(BadConfig, match="expected a name"):
        read_config(tmp_path / "own.toml")


def test_a_recipe_for_models_made_from_nothing_refuses_another_and_names_the_one_to_use(capsys):
    assert main(["train", "household", "--model", "Qwen/Qwen3-1.7B"]) == 2
    errors = capsys.readouterr().err
    assert "recipe 'household' is for a small policy trained from scratch" in errors and "Use 'household-1.5b'" in errors


def test_a_recipe_for_models_made_from_nothing_takes_one_of_its_kind(tmp_path):
    folder = init_policy("rlvr/GuessNumber-v0", tmp_path / "p", episodes=4)
    found = read(["household", "--model", str(folder)]).config
    assert found is not None and found.model == str(folder)


def test_what_a_recipe_says_to_another_loss_is_left_out(tmp_path):
    assert read_recipe("household-1.5b").clip_high == 0.28
    assert read_recipe("alfworld-1.5b").loss_options == {"dual_clip": 3.0}
    for name in ("household-1.5b", "alfworld-1.5b"):
        config = read([name, "--loss", "icepop", "--minibatches", "1"]).config
        assert (config.loss, config.loss_options, config.kl) == ("icepop", {}, read_recipe(name).kl)
        resolve_loss(config)
        refuel = read([name, "--loss", "refuel", "--minibatches", "1"]).config  # which clips nothing
        assert refuel.clip_high == TrainConfig.clip_high
        resolve_loss(refuel)
    with pytest.raises(BadConfig, match=r"clip_high is 0\.3 and has no effect with loss 'refuel'"):
        resolve_loss(read(["household-1.5b", "--loss", "refuel", "--clip-high", "0.3"]).config)


def test_what_a_base_says_to_another_stage_is_left_out(tmp_path):
    text = "[credit]\nname = 'gigpo'\nanchor = 'state'\n[loss]\nclip_high = 0.28\nkl = 0.01\n[select]\nname = 'keep'\n"
    (tmp_path / "low.toml").write_text(text)
    own = "base = 'low.toml'\n[credit]\nname = 'grpo'\nnorm = 'mean'\n[loss]\nname = 'refuel'\n"
    (tmp_path / "own.toml").write_text(own)
    found = read_config(tmp_path / "own.toml")
    assert (found.credit, found.credit_options) == ("grpo", {"norm": "mean"})
    assert (found.loss, found.clip_high, found.kl, found.select) == ("refuel", TrainConfig.clip_high, 0.01, "keep")
    (tmp_path / "own.toml").write_text("base = 'low.toml'\n[credit]\nname = 'gigpo'\ngamma = 0.9\n")  # the same one
    assert read_config(tmp_path / "own.toml").credit_options == {"anchor": "state", "gamma": 0.9}
