"""The files of examples/stages that no other test runs: a row of the seams each, as a user would run them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import small_runs
import torch
from rich.console import Console
from small_runs import curve, episodes, goes_on_to_the_last_digit, small

import agentgym
from agentgym.cli.train_screen import Screen
from agentgym.errors import BadConfig
from agentgym.trainers import Learner, Sampler, train
from agentgym.trainers.config.train_config import STATE, newest_checkpoint
from agentgym.trainers.learners.updates import UpdateResult
from agentgym.trainers.model.policy import load_policy

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "examples" / "stages"
PAGES = "".join(page.read_text() for page in sorted((ROOT / "docs" / "seams").glob("*.md")))


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    return small_runs.taught(tmp_path_factory.mktemp("taught"))


@pytest.fixture(autouse=True)
def found_from_the_checkout(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def test_every_file_is_short_and_on_a_page():
    for path in FOLDER.glob("*.py"):
        most = 60 if path.name == "reinforce.py" else 30  # a learner with every method that a resumed run needs
        assert sum(bool(line.strip()) for line in path.read_text().splitlines()) < most, path.name
        assert path.name in PAGES, path.name


@pytest.mark.parametrize("name", ["best_so_far", "needs"])
def test_what_the_page_shows_is_in_the_file(name):
    text = (FOLDER / f"{name}.py").read_text()
    functions = re.findall(r"(?s)(@agentgym\..*?)(?=\n\n\n|\Z)", text)
    assert functions and all(function.strip() in PAGES for function in functions)


def test_a_draw_begins_inside_a_demonstration_and_is_sampled_otherwise(taught, tmp_path):
    train(small(tmp_path / "run", taught, sampler="examples.stages.last_turns:LastTurns", steps=1))
    rows = episodes(tmp_path / "run")
    assert len(rows) == 9
    assert all(turn["extra"]["temperature"] == 1.2 for row in rows for turn in row["turns"])
    assert any(row["turns"][0]["observation"] in ("Higher.", "Lower.") for row in rows)  # as after a turn of the expert's


def test_a_learner_of_three_methods_learns(taught, tmp_path, capsys):
    config = small(
        tmp_path / "run", taught, learner="examples.stages.reinforce:Reinforce", steps=6, tasks_per_step=6, group_size=6,
        select="drop",
    )  # fmt: skip
    train(config, Screen(Console(), config, config.out))
    assert "learner examples.stages.reinforce:Reinforce on" in capsys.readouterr().out
    rows = curve(tmp_path / "run")
    assert rows[-1]["success_train"] > rows[0]["success_train"], rows
    before, after = (
        load_policy(folder)[0].state_dict() for folder in map(newest_checkpoint, (Path(taught), tmp_path / "run"))
    )
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_a_learner_of_ones_own_goes_on_to_the_last_digit_and_scores_what_a_credit_needs(taught, tmp_path):
    own = {"learner": "examples.stages.reinforce:Reinforce", "credit": "rl_zvp", "credit_options": {}, "select": "keep"}
    goes_on_to_the_last_digit(tmp_path, lambda folder: small(folder, taught, **own))


def test_a_learner_is_asked_for_no_more_than_it_says_it_can(taught, tmp_path):
    own = {"learner": "examples.stages.reinforce:Reinforce"}
    with pytest.raises(BadConfig, match=r"sft_episodes is 8 with learner .* which has no imitate"):
        train(small(tmp_path / "run", taught, sft_episodes=8, **own))
    with pytest.raises(BadConfig, match=r"needs 'entropy' with learner .* which has no score"):
        train(small(tmp_path / "run", taught, credit="rl_zvp", credit_options={}, learner=f"{__name__}:Scoreless"))
    with pytest.raises(BadConfig, match=r"async_level is 1, and learner .* `overlaps = True`"):
        train(small(tmp_path / "run", taught, async_level=1, **own))
    with pytest.raises(BadConfig, match="sharding 'fsdp2' has no effect with learner"):
        small(tmp_path / "run", taught, sharding="fsdp2", processes=2, tasks_per_step=2, **own)


@agentgym.learner("half")
class Half(Learner):
    def update(self, minibatch, loss, step):
        return UpdateResult()


@agentgym.learner("scoreless")
class Scoreless(Half):
    async def publish(self, version):
        pass

    def save(self, folder):
        pass


@agentgym.learner("strange")
class Strange:
    """Inherits nothing."""


@agentgym.sampler("empty")
class Empty(Sampler):
    """Draws nothing."""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learner": f"{__name__}:Half"}, r"learner '.*:Half' lacks publish\(\), save\(\); let its class inherit"),
        ({"learner": f"{__name__}:Strange"}, r"lacks about\(\), begin\(\), .*, update\(\); let its class inherit"),
        ({"sampler": f"{__name__}:Empty"}, r"sampler '.*:Empty' lacks draw\(\); let its class inherit"),
    ],
)
def test_a_class_that_lacks_methods_is_refused_with_their_names(taught, tmp_path, changes, message):
    with pytest.raises(BadConfig, match=message):
        train(small(tmp_path / "run", taught, **changes))


def test_a_credit_of_ones_own_keeps_its_state(taught, tmp_path):
    train(small(tmp_path / "run", taught, credit="examples.stages.best_so_far:best_so_far", credit_options={}, steps=2))
    newest = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    (state,) = torch.load(newest / STATE, weights_only=True)["stages"]
    assert state["credit"]["best"] == max(row["reward"] for row in episodes(tmp_path / "run"))


def test_a_need_of_ones_own_is_in_the_turns(taught, tmp_path):
    options = {"credit": "examples.stages.needs:no_circles", "credit_options": {"cost": 0.2}, "steps": 1}
    train(small(tmp_path / "run", taught, **options))
    assert all("seen_before" in turn["extra"] for row in episodes(tmp_path / "run") for turn in row["turns"])


def test_a_learner_of_ones_own_trains_what_it_means_to(taught, tmp_path):
    options = {"lr": 1e-2, "steps": 2, "select": "keep"}
    config = small(tmp_path / "run", taught, learner="examples.stages.learner:Frozen", **options)
    assert train(config)["steps"] == 2 and curve(tmp_path / "run")
    newest = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    before, after = (dict(load_policy(path)[0].named_parameters()) for path in (newest_checkpoint(taught), newest))
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert any("embed" in name for name in same) and len(same) < len(before) / 2


@pytest.mark.long
def test_a_learner_with_frozen_weights_trains_in_two_processes(taught, tmp_path):
    words = "train --env rlvr/GuessNumber-v0 --prompt bare --steps 2 --tasks-per-step 2 --group-size 2 --horizon 3"
    words += " --select keep --turn-tokens 4 --test-tasks 0 --eval-every 0 --processes 2"
    words += " --learner examples.stages.learner:Frozen"
    command = [sys.executable, "-m", "agentgym", *words.split(), "--model", str(taught), "--out", str(tmp_path / "run")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(curve(tmp_path / "run")) == 2  # a second backward pass fails if a joined weight got no gradient


@pytest.mark.long
def test_stored_episodes_are_imitated_and_exported():
    done = subprocess.run(
        [sys.executable, str(FOLDER / "stored.py")], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"updates on 1\d of 1\d episodes", done.stdout) and "data.parquet" in done.stdout
