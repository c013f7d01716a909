"""The lines that say what using the package feels like, run through `gym.make`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import agentgym

PAGE = Path(__file__).resolve().parents[2] / "docs/start/own_environment.md"
GUESS_NUMBER = PAGE.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]


@pytest.fixture
def package(tmp_path):
    (tmp_path / "my_package.py").write_text(GUESS_NUMBER)
    return tmp_path


def agentgym_command(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "agentgym", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "COLUMNS": "300"},
    )


def test_one_episode():
    env = gym.make("rlvr/Search-v0", split="train")
    observation, info = env.reset(seed=7)
    assert isinstance(observation, str) and info["task_id"].startswith("train/")
    observation, _reward, terminated, truncated, info = env.step("search[the composer of Brightwater Suite]")
    assert (info["valid"], terminated, truncated) == (True, False, False)
    assert re.fullmatch("[0-9a-f]{16}", info["state_key"])
    assert 0 <= info["metrics"]["evidence"] <= 1


def test_an_environment_of_ones_own(package, monkeypatch):
    monkeypatch.syspath_prepend(str(package))
    env = agentgym.make("my_package:me/GuessNumber-v0")
    assert type(env).__name__ == "GuessNumber" and env.limit == 0 and env.horizon == 12
    observation, info = gym.make("me/GuessNumber-v0").reset(seed=3)
    assert observation == "I'm thinking of a number from 1 to 100. Guess it." and info["admissible"] is None
    env.reset(seed=3)
    env.step("x")
    assert env.observation == "That is not a number. Say one, for example 7."
    secret = env.task.data["secret"]
    assert env.step(str(secret - 1))[0] == "Higher."
    assert env.step(str(secret))[:4] == ("Right.", 1.0, True, False)


def test_check_finds_what_a_first_environment_gets_wrong(package):
    """Without the page's care for digits like '²' and for huge numbers."""
    careless = GUESS_NUMBER.replace(
        "action.strip().isascii() and action.strip().isdigit() and len(action) < 20", "action.isdigit()"
    )
    assert careless != GUESS_NUMBER
    (package / "my_package.py").write_text(careless)
    done = agentgym_command(package, "check", "my_package:me/GuessNumber-v0")
    lines = done.stdout.splitlines()
    broken = [line for line in lines if " broken " in line and not line.startswith("me/")]
    assert done.returncode == 1 and done.stderr == "", done.stdout + done.stderr
    assert len(broken) == 1 and "nasty actions" in broken[0] and "ValueError" in done.stdout
    assert "(5000 characters)" in done.stdout
    assert lines[-1].startswith("me/GuessNumber-v0: ") and lines[-1].endswith(" 1 broken")


def test_branching():
    env = agentgym.make("rlvr/FrozenLake-v0")
    env.reset(seed=3)
    state = env.snapshot()
    outcomes = set()
    for k in range(8):
        branch = env.restore(state, seed=k)
        assert branch is env
        outcomes.add("|".join(branch.step("right")[0] for _ in range(2) if branch._running))
    assert len(outcomes) > 1  # chance was drawn afresh
    env.restore(state)
    assert env.snapshot().random_state == state.random_state


def test_branching_with_an_agent():
    env, agent = agentgym.make("rlvr/FrozenLake-v0"), agentgym.ExpertAgent()
    env.reset(seed=3)
    state, talk = env.snapshot(), agent.begin(env.task, env.tools)
    values = [agentgym.play_out(env.restore(state, seed=k), agent, talk.fork(), seed=k).reward for k in range(8)]
    again = [agentgym.play_out(env.restore(state, seed=k), agent, talk.fork(), seed=k).reward for k in range(8)]
    assert values == again and 0.5 < sum(values) / 8 <= 1


def test_look_around(package):
    done = agentgym_command(package, "envs")
    assert done.returncode == 0 and done.stderr == ""
    for id in ("rlvr/Household-v0", "rlvr/Search-v0"):
        assert id in done.stdout
    assert agentgym_command(package, "doctor").returncode == 0


def test_errors(package):
    done = agentgym_command(package, "train", "houshold")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no recipe 'houshold'. Did you mean 'household'?") and done.stderr.count("\n") == 1
    assert "--env MODULE:NAMESPACE/NAME-v0" in done.stderr
