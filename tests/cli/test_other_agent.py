"""A run's policy that is evaluated with another agent or prompt than it was trained with."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_runs import policy, small

from agentgym.agents.spec import AgentSpec
from agentgym.cli import main
from agentgym.cli.eval_trained import about_training, differences
from agentgym.trainers import train
from agentgym.trainers.config.recipe_files import read_recipe, to_toml
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.config.train_config import TrainConfig


def run_of(folder: Path, config: TrainConfig) -> Path:
    (folder / "checkpoints" / "step-00000001").mkdir(parents=True)
    (folder / "config.toml").write_text(to_toml(config))
    return folder


def test_the_agent_and_the_prompt_are_compared(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", read_recipe("alfworld-1.5b"))
    same = AgentSpec(agent="window", prompt="alfworld@verl-agent", turn_tokens=9)
    assert differences(str(run), same) == [] and differences(str(tmp_path), same) == [] and differences("hf:x", same) == []
    (other,) = differences(str(run), replace(same, prompt="window"))
    assert "trained with agent 'window' of 2 turns and prompt 'alfworld@verl-agent', and is evaluated with agent" in other
    assert "prompt 'window'" in other
    (checkpoint,) = differences(str(run / "checkpoints" / "step-00000001"), AgentSpec())  # which has no settings of its own
    assert "evaluated with agent 'chat' and the prompt of the environment" in checkpoint
    assert differences(str(run), replace(same, window_turns=3))
    search = run_of(tmp_path / "search", read_recipe("search-3b"))
    assert not differences(str(search), AgentSpec(agent="completion", prompt="search-r1"))  # another name of the same
    small = run_of(tmp_path / "small", TrainConfig())
    assert not differences(str(small), AgentSpec(prompt="bare")) and differences(str(small), AgentSpec(prompt="react"))


def test_the_wordings_of_all_environments_of_a_run_are_read(tmp_path: Path) -> None:
    parts = [{}, {"wordings": ("old",)}, {"wordings": ("variants", "new")}]
    envs = tuple(EnvSpec("rlvr/Household-v0", label=f"part {n}", options=options) for n, options in enumerate(parts))
    run = run_of(tmp_path / "run", replace(read_recipe("household-full"), envs=envs))
    trained = {"trained_wordings": ["new", "old", "variants"]}
    assert (
        about_training(str(run), AgentSpec())
        == trained
        == about_training(str(run / "checkpoints/step-00000001"), AgentSpec())
    )
    small = run_of(tmp_path / "small", read_recipe("household"))
    assert about_training(str(small), AgentSpec()) == {"trained_wordings": ["new"]}
    other = run_of(tmp_path / "other", TrainConfig(env="rlvr/GuessNumber-v0"))
    assert about_training(str(other), AgentSpec()) == about_training("hf:x", AgentSpec()) == {}
    text = (small / "config.toml").read_text()
    (small / "config.toml").write_text(text.replace("[env_options]", "[env_options]\nwordings = 7"))
    assert about_training(str(small), AgentSpec()) == {}


def test_the_wordings_that_a_run_played_come_before_its_settings(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", read_recipe("household"))  # whose settings name `new`
    sessions: list[object] = [{"wordings": {"full": ["new", "old"]}}, {}, {"wordings": {"full": ["old"], "x": ["a", 7]}}]
    (run / "manifest.json").write_text(json.dumps({"format": 1, "sessions": sessions}))
    assert about_training(str(run), AgentSpec()) == {"trained_wordings": ["a", "new", "old"]}
    for strange in ("[]", "{", "7", '{"sessions": {"wordings": 1}}', '{"sessions": [1, {"wordings": [2]}]}', "[" * 100_000):
        (run / "manifest.json").write_text(strange)
        assert about_training(str(run), AgentSpec()) == {"trained_wordings": ["new"]}, strange[:20]


def test_a_training_run_records_the_wordings_it_plays(tmp_path: Path) -> None:
    parts: dict[str, dict[str, object]] = {"both": {"wordings": ("old", "new")}, "one": {"wordings": ("paraphrased",)}}
    model = policy(tmp_path / "policy", "rlvr/Household-v0")
    envs = tuple(EnvSpec("rlvr/Household-v0", label=label, options=options) for label, options in parts.items())
    train(small(tmp_path / "run", model, envs=envs, steps=1, tasks_per_step=2, group_size=2))
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["sessions"][-1]["wordings"] == {"both": ["new", "old"], "one": ["paraphrased"]}
    assert about_training(str(tmp_path / "run"), AgentSpec()) == {"trained_wordings": ["new", "old", "paraphrased"]}
    train(small(tmp_path / "other", policy(tmp_path / "guess", "rlvr/GuessNumber-v0"), env="rlvr/GuessNumber-v0", steps=1))
    assert "wordings" not in json.loads((tmp_path / "other" / "manifest.json").read_text())["sessions"][-1]


@pytest.mark.long
def test_an_evaluation_warns_before_it_plays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_of(tmp_path / "run", TrainConfig(env="rlvr/GuessNumber-v0"))
    model = folder / "checkpoints" / "step-00000001"
    model.rmdir()
    policy(model, "rlvr/GuessNumber-v0")
    (model / "trainer.pt").touch()
    words = ["eval", "guessnumber", "--model", str(folder), "--tasks", "1", "--horizon", "1", "--out", str(tmp_path / "e")]
    assert main([*words, "--turn-tokens", "2"]) == 0 and "was trained with" not in capsys.readouterr().err
    assert main([*words[:-1], str(tmp_path / "other"), "--turn-tokens", "2", "--prompt", "react"]) == 0
    assert f"warning: {folder} was trained with agent 'chat' and prompt 'bare'" in capsys.readouterr().err
