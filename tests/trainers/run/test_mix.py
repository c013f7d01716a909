"""Three environments at once, with a difficulty that moves, a reward and a loss of a user's module."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from forked import Program

from agentgym.episodes.episode import read_episodes
from agentgym.trainers import resume, train
from agentgym.trainers.config.recipe_files import read_config

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
RECIPE = ROOT / "examples" / "stages" / "mix.toml"
CHILD = """
import os, sys
from dataclasses import replace
from pathlib import Path
from agentgym.trainers import train
from agentgym.trainers.config.recipe_files import read_config

def show(what, numbers):
    if what == "step" and numbers["step"] == int(sys.argv[3]):
        os.kill(os.getpid(), 9)

config = read_config(Path(sys.argv[1]))
small = {"sft_episodes": 32, "steps": 4, "eval_every": 2, "eval_tasks": 2, "test_tasks": 2, "checkpoint_every": 1}
train(replace(config, out=sys.argv[2], keep_episodes=1000, **small), show)
"""
TIMES = ("seconds", "eta_seconds", "tokens_per_second", "share_env", "share_rollout", "share_train")


def run(out, killed_at):
    return Program(CHILD, RECIPE, out, killed_at, env={"PYTHONPATH": str(ROOT)}).wait()


def own_stages():
    """Return the stages of a module of the user: a resumed run does not take them from its folder."""
    config = read_config(RECIPE)
    return {"reward": config.reward, "loss": config.loss}


def rows(out):
    lines = (out / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in lines]


def played(out):
    return sorted(
        (e.group_id, e.attempt, e.reward, [(t.action, t.observation, t.logprobs, t.extra) for t in e.turns])
        for e in read_episodes(out / "episodes.jsonl")
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("mix") / "run"
    assert run(out, 0) == 0
    return out


def test_the_weights_say_how_many_groups_each_environment_has(whole):
    groups = {e.group_id for e in read_episodes(whole / "episodes.jsonl") if e.group_id.startswith("1/")}
    count = {name: sum(f"/{name}-v0/" in group for group in groups) for name in ("GuessNumber", "FrozenLake", "TextCraft")}
    assert count == {"GuessNumber": 4, "FrozenLake": 2, "TextCraft": 2}


def test_results_are_told_by_environment(whole):
    last = rows(whole)[-1]
    summary = json.loads((whole / "summary.json").read_text())
    for env in ("rlvr/GuessNumber-v0", "rlvr/FrozenLake-v0", "rlvr/TextCraft-v0"):
        assert {f"success_train/{env}", f"success_valid/{env}"} <= set(last)
        assert f"success_after/{env}" in summary


def test_each_environment_has_its_own_horizon(whole):
    horizons = {e.env: e.horizon for e in read_episodes(whole / "episodes.jsonl") if e.group_id.startswith("1/")}
    assert horizons["rlvr/FrozenLake-v0"] == 20 and horizons["rlvr/TextCraft-v0"] == 10


@pytest.mark.slow
def test_a_run_stopped_in_the_middle_of_a_step_goes_on_to_the_last_digit(whole, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))

    def stop(kind, numbers):
        if kind == "progress" and numbers["what"].startswith("step 3, episode") and numbers["done"] == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(replace(read_config(whole / "config.toml"), out=str(tmp_path / "run")), stop)
    resume(tmp_path / "run", settings=own_stages())
    assert rows(tmp_path / "run") == rows(whole)
    assert played(tmp_path / "run") == played(whole)


def test_a_killed_run_goes_on_to_the_last_digit(whole, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    assert run(tmp_path / "run", 3) == -signal.SIGKILL
    resume(tmp_path / "run", settings=own_stages())
    assert rows(tmp_path / "run") == rows(whole)
    assert played(tmp_path / "run") == played(whole)
