"""Runs that are over in a second or two, for tests of the stages."""

import contextlib
import functools
import json
import math
import shutil
import tempfile
from pathlib import Path

import small_envs

from agentgym.trainers import TrainConfig, resume, train
from agentgym.trainers.config import caller_settings
from agentgym.trainers.config.recipe_files import read_values
from agentgym.trainers.config.train_config import defaults
from agentgym.trainers.model.policy import PolicySize, init_policy

MODULES = ("env", "agent", "credit", "loss", "sampler", "select", "generation", "branching")
TIMES = {"seconds", "eta_seconds", "tokens_per_second", "share_env", "share_rollout", "share_train"}
TINY = PolicySize(width=32, layers=1, heads=2, vocabulary=300)


def trusted(folder):
    """Return what the caller of `resume` says of a run that she trusts: its modules, and where and how it runs."""
    values = read_values(Path(folder) / "config.toml", stored=True)
    named = {name: values[name] for name in MODULES if ":" in values.get(name, "")}
    return named | {one.flag: one.value for one in caller_settings.caller_settings_of(values, defaults(), named)}


def policy(folder, *envs):
    """Write a tiny policy for some of these environments and return its folder."""
    first, *others = envs or ("small/File-v0",)
    return str(init_policy(first, folder, size=TINY, episodes=20, beside=[(env, {}) for env in others]))


def taught(folder, episodes=256):
    """Return the folder of a policy that solves some of the tasks: imitation, as the runs below leave it out."""
    shutil.copytree(_taught(episodes).name, folder, dirs_exist_ok=True)
    return str(folder / "taught")


@functools.cache
def _taught(episodes):
    """Make that policy once for all test files of this process, in a folder that is gone at its end."""
    folder = tempfile.TemporaryDirectory()  # copied by `taught`: a test may change its own
    model = policy(Path(folder.name) / "policy")
    out = Path(folder.name) / "taught"
    train(small(out, model, sft_episodes=episodes, sft_batch=8, sft_noise=0.3, steps=0))
    return folder


def small(out, model, **changes):
    """Return a run of a few steps."""
    options = {
        "env": f"{small_envs.__name__}:small/File-v0", "model": model, "out": str(out), "sft_noise": 0.0, "sft_invalid": 0.0,
        "sft_forget": 0.0, "steps": 3, "tasks_per_step": 3, "group_size": 3, "horizon": (3,), "eval_every": 0,
        "test_tasks": 0, "checkpoint_every": 1, "turn_tokens": 4, "threads": 1, "select": "keep", "keep_episodes": 1000,
        "credit_options": {"anchor": "state"}, "prompt": "bare", "lr_warmup": 0,
    }  # fmt: skip
    if "envs" in changes:
        del options["env"]
    return TrainConfig(**{**options, **changes})


def goes_on_to_the_last_digit(folder, config, **settings):
    """Check that a run which is killed in its third step goes on as if it had not been; `config` makes it, by its folder.

    `settings`: those that the caller of `resume` says again.
    """

    class Killed(Exception):
        pass

    def kill(kind, numbers):
        if kind == "progress" and numbers["what"].startswith("step 3, updating"):
            raise Killed

    train(config(folder / "whole"))
    with contextlib.suppress(Killed):
        train(config(folder / "cut"), kill)
        raise AssertionError("the run came to its end without a third step")
    resume(folder / "cut", settings=settings)
    assert curve(folder / "cut") == curve(folder / "whole")
    assert episodes(folder / "cut") == episodes(folder / "whole")


def is_whole(folder, *, steps, each, tolerance):
    """Check that every step has its episodes once, of its own version, and that what samples is what is trained.

    `each`: episodes of a step. `apart`: the largest mean distance in log-probability. Returns the metrics of the steps.
    """
    rows = [row for row in curve(folder) if "success_train" in row]
    assert [row["step"] for row in rows] == list(range(1, steps + 1))
    for row in rows:
        assert math.isfinite(row["loss"]) and row["mismatch_mean"] < tolerance, row
    played = [e for e in episodes(folder) if e["group_id"][0].isdigit()]  # those of evaluations have no step
    assert len({(e["group_id"], e["attempt"]) for e in played}) == len(played) == steps * each
    versions = {(int(e["group_id"].split("/")[0]), turn["policy_version"]) for e in played for turn in e["turns"]}
    assert versions == {(step, step - 1) for step in range(1, steps + 1)}
    return rows


def curve(folder):
    """Return the rows of a run's metrics without what the clock says."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]


def episodes(folder):
    """Return the episodes of a run as plain data without what the clock says."""
    rows = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    for row in rows:
        for turn in row["turns"]:
            del turn["seconds"]
    return rows
