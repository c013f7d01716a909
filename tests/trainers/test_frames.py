"""How far it is from the command to the gradient: who reads the loop goes through so many functions, and no more."""

import sys
from pathlib import Path

import pytest
import small_envs
import torch
from small_runs import TINY, small

import agentgym
from agentgym.cli import main
from agentgym.trainers.config.recipe_files import to_toml
from agentgym.trainers.model.policy import init_policy

PACKAGE = str(Path(agentgym.__file__).parent)
MOST = 6


@pytest.fixture
def stacks(monkeypatch):
    """The package's functions on the stack, outermost first, whenever a gradient is computed."""
    noted = []
    backward = torch.Tensor.backward

    def watched(self, *arguments, **options):
        frame, functions = sys._getframe(1), []
        while frame is not None:
            if frame.f_code.co_filename.startswith(PACKAGE):
                functions.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
            frame = frame.f_back
        noted.append(functions[::-1])
        return backward(self, *arguments, **options)

    monkeypatch.setattr(torch.Tensor, "backward", watched)
    return noted


def test_few_functions_lie_between_the_command_and_the_gradient(stacks, tmp_path, capsys):
    model = init_policy("small/File-v0", tmp_path / "policy", size=TINY, episodes=20)
    config = small(tmp_path / "run", str(model), steps=1, sft_episodes=8, sft_batch=8, test_tasks=0)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(to_toml(config))
    assert small_envs and main(["train", str(recipe)]) == 0, capsys.readouterr()
    output = capsys.readouterr().out
    assert "success on test tasks: not measured" in output and "nan" not in output
    files = str(tmp_path / "run")
    assert main(["sft", files, "--model", files, "--out", str(tmp_path / "sft")]) == 0, capsys.readouterr()
    phases = {functions[-1]: functions for functions in stacks}
    assert set(phases) == {"step.imitate", "local.update"}
    for functions in stacks:
        assert functions[0] == "__init__.main" and len(functions) <= MOST, functions
