"""Whole training runs on a tiny environment: they learn, stop, resume to the last digit, and fail with a clear message."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from forked import Program
from small_runs import curve, episodes
from whole_runs import CHILD, small, whole  # noqa: F401  (a fixture)

import agentgym
from agentgym.cli import main
from agentgym.episodes.episode import read_episodes
from agentgym.errors import BadConfig, BadData, UnknownName
from agentgym.trainers import resume, train
from agentgym.trainers.config.recipe_files import read_config, read_recipe, recipes, to_toml
from agentgym.trainers.data.segments import build
from agentgym.trainers.learners.muon import orthogonal
from agentgym.trainers.model.policy import init_policy, load_policy
from agentgym.trainers.run.interrupt import uninterrupted


def test_a_run_leaves_what_it_promises(whole):  # noqa: F811
    folder, summary = whole
    run = folder / "run"
    assert json.loads((run / "summary.json").read_text()) == summary
    wanted = {"success_before", "success_sft", "success_after", "episodes", "train_seconds", "credit", "seed"}
    assert wanted <= set(summary)
    assert summary["fault_share"] == 0 and summary["comparable"] is True
    rows = curve(run)
    assert [r["step"] for r in rows if r["phase"] == "rl"] == [1, 2, 3, 4]
    assert summary["episodes"] == 40 + 4 * 2 * 4
    assert all(abs(r["mismatch_kl"]) < 1e-6 for r in rows if r["phase"] == "rl")
    assert read_config(run / "config.toml") == small(run, precision="fp32", train_split="train")  # what `auto` is on a CPU
    assert {e["horizon"] for e in episodes(run) if e["group_id"][0] in "12"} == {2}
    assert {e["horizon"] for e in episodes(run) if e["group_id"][0] in "34"} == {3}


@pytest.mark.parametrize(
    ("kind", "number"),
    [("step", 1), pytest.param("sft", 20, marks=pytest.mark.slow), pytest.param("step", 3, marks=pytest.mark.slow)],
)
def test_a_killed_run_goes_on_to_the_last_digit(whole, tmp_path, kind, number):  # noqa: F811
    config = small(tmp_path / "run")
    (tmp_path / "config.toml").write_text(to_toml(config))
    assert Program(CHILD, tmp_path / "config.toml", kind, number).wait() == -signal.SIGKILL
    summary = resume(tmp_path / "run")
    folder, expected = whole
    assert curve(tmp_path / "run") == curve(folder / "run")
    assert episodes(tmp_path / "run") == episodes(folder / "run")
    changing = ("train_seconds",)
    assert {k: v for k, v in summary.items() if k not in changing} == {
        k: v for k, v in expected.items() if k not in changing
    }


@pytest.mark.long
def test_control_c_leaves_a_checkpoint_and_exit_code_130(tmp_path):
    config = small(tmp_path / "run", steps=500, checkpoint_every=400, eval_every=0)
    (tmp_path / "own.toml").write_text(to_toml(config))
    command = [sys.executable, "-m", "agentgym", "train", str(tmp_path / "own.toml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        deadline = time.time() + 400
        while time.time() < deadline:
            metrics = tmp_path / "run" / "metrics.jsonl"
            if metrics.exists() and '"rl"' in metrics.read_text():
                break
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=400)
    assert process.returncode == 130, text
    assert "agentgym train --resume" in text
    newest = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    steps = [row["step"] for row in curve(tmp_path / "run") if row["phase"] == "rl"]
    assert int(newest.name.removeprefix("step-")) == 20 + steps[-1]


def test_control_c_within_an_update_goes_to_whoever_handles_it():
    seen = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        seen.append("whole")
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("noted"))
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            seen.append("whole")
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == ["whole", "whole", "noted"]


def test_it_learns_what_pays(tmp_path):
    """With a range of one to nine and one guess, success can only come from preferring the guesses that win."""
    changes = {"sft_episodes": 120, "steps": 8, "tasks_per_step": 4, "lr": 1e-3, "checkpoint_every": 100}
    changes["credit_options"] = {"penalty": 0.5}  # of the finished advantage
    train(small(tmp_path / "run", **changes, group_size=8, eval_every=0, horizon=(), test_tasks=0))
    rows = [row for row in curve(tmp_path / "run") if row["phase"] == "rl"]
    valid = [row["valid"] for row in rows]
    assert sum(valid[-3:]) > sum(valid[:3]) + 0.1


def test_not_a_number_stops_with_a_message_and_keeps_the_last_checkpoint(tmp_path):
    with pytest.raises(BadConfig, match=r"training stopped at update 2\d.*last good checkpoint is .*step-"):
        train(small(tmp_path / "run", credit="beyond_numbers", credit_options={}, eval_every=0, test_tasks=0))


@agentgym.credit("beyond_numbers")
def beyond_numbers(group):
    """Advantages of which no gradient is finite."""
    return [np.full(len(episode.turns), 3e38) for episode in group]


def test_a_damaged_checkpoint_is_named(tmp_path):
    train(small(tmp_path / "run", sft_episodes=0, steps=1, eval_every=0, test_tasks=0))
    newest = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    (newest / "trainer.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(BadData, match=r"trainer\.pt: damaged checkpoint"):
        resume(tmp_path / "run")


LIMITED = """
import resource, sys
from pathlib import Path
import agentgym
from agentgym.cli import main
from agentgym.trainers.run.record import Record
checkpoint, calls = Record.checkpoint, []
def late(self, *parts, **options):
    calls.append(1)
    if len(calls) == 3:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    checkpoint(self, *parts, **options)
Record.checkpoint = late
sys.exit(main(["train", sys.argv[1]]))
"""


@pytest.mark.long
def test_no_room_for_a_checkpoint_is_one_line_and_leaves_the_earlier_ones(tmp_path):
    (tmp_path / "own.toml").write_text(to_toml(small(tmp_path / "run", eval_every=0, test_tasks=0)))
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "own.toml")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2, ran.stderr
    assert "Traceback" not in ran.stderr
    assert re.search(r"^error: checkpoint .*step-00000022 could not be written .*earlier ones are intact", ran.stderr, re.M)
    checkpoints = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert checkpoints == ["step-00000020", "step-00000021"]
    assert resume(tmp_path / "run")["steps"] == 4


def test_bad_configurations_are_explained(tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'household'"):
        read_recipe("houshold")
    (tmp_path / "a.toml").write_text("stepz = 3\n")
    with pytest.raises(BadConfig, match="Did you mean 'steps'"):
        read_config(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_text('steps = "many"\n')
    with pytest.raises(BadConfig, match="steps is 'many'; expected int"):
        read_config(tmp_path / "b.toml")
    (tmp_path / "c.toml").write_text("steps = = 3\n")
    with pytest.raises(BadData, match="not TOML"):
        read_config(tmp_path / "c.toml")
    with pytest.raises(UnknownName, match="Did you mean 'gigpo'"):
        train(small(tmp_path / "r1", credit="gigp"))
    with pytest.raises(BadConfig, match="Did you mean 'gamma'"):
        train(small(tmp_path / "r2", credit_options={"gama": 1.0}))
    with pytest.raises(UnknownName, match="Did you mean 'valid'"):
        train(small(tmp_path / "r2", valid_split="vald"))
    with pytest.raises(BadConfig, match="none is not there"):
        train(small(tmp_path / "r2", model=str(tmp_path / "none")))
    assert not (tmp_path / "r1").exists() and not (tmp_path / "r2").exists()  # free for the corrected command
    with pytest.raises(BadConfig, match="group_size"):
        small(tmp_path, group_size=1)
    train(small(tmp_path / "r3", sft_episodes=0, steps=0, test_tasks=0, valid_split="", test_split=""))
    assert read_config(tmp_path / "r3" / "config.toml").test_split == "test"
    with pytest.raises(BadConfig, match=r"already holds a run.*`\./dev train --resume .*r3`.*--out runs/NAME.*delete"):
        train(small(tmp_path / "r3"))
    with pytest.raises(BadConfig, match="holds no run"):
        resume(tmp_path / "nothing")


@pytest.mark.parametrize("name", sorted(recipes()))
def test_recipes_are_complete_and_say_what_they_are(name):
    config = read_recipe(name)
    assert recipes()[name].read_text().startswith("# ")
    assert config.env.startswith("rlvr/")


def test_schedules_are_functions_of_the_step():
    config = small("x", horizon=(5, 10, 15), horizon_steps=10, lr=1.0, lr_warmup=4, min_lr_ratio=0.1, steps=11)
    assert [config.horizon_at(step, config.horizon) for step in (0, 9, 10, 19, 20, 500)] == [5, 5, 10, 10, 15, 15]
    assert config.lr_at(0) == pytest.approx(0.25)
    assert config.lr_at(10) == pytest.approx(0.1)
    assert small("x", horizon=()).horizon_at(3, ()) is None


def test_muon_directions_have_singular_values_near_one():
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonal(torch.randn(4, 30, 70)))
    assert float(values.min()) > 0.5 and float(values.max()) < 1.3
    wide = torch.randn(2, 8, 20)
    assert torch.allclose(orthogonal(wide.transpose(1, 2)), orthogonal(wide).transpose(1, 2), atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    "changes", [{"select": "refill"}, {"kl": 0.1}, {"epochs": 2, "importance_sampling_level": "turn"}, {"agent": "window"}]
)
def test_variants_run(tmp_path, changes):
    summary = train(small(tmp_path / "run", sft_episodes=8, steps=2, eval_every=0, test_tasks=2, **changes))
    assert summary["steps"] == 2


def test_a_mixture_of_experts_trains_for_three_steps(tmp_path, caplog):
    folder = tmp_path / "moe"
    shape = ["--width", "64", "--layers", "2", "--vocabulary", "400", "--episodes", "50"]
    assert main(["init-policy", "rlvr/GuessNumber-v0", "--moe", *shape, "--out", str(folder)]) == 0
    train(small(tmp_path / "run", model=str(folder), steps=3, eval_every=0, test_tasks=0))
    assert "Qwen3MoeForCausalLM takes the generic path" in caplog.text
    rows = [row for row in curve(tmp_path / "run") if row["phase"] == "rl"]
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all(row["mismatch_q999"] < 1e-4 and row["mismatch_ess"] > 0.9999 for row in rows)
    assert all(row["grad_norm"] > 0 for row in rows)
    checkpoints = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))
    before, after = (dict(load_policy(path)[0].named_parameters()) for path in (folder, checkpoints[-1]))
    for part in ("mlp.gate.weight", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"):
        name = f"model.layers.1.{part}"
        moved = (before[name] - after[name]).abs().flatten(1).amax(1)
        assert (moved > 0).all(), f"an expert of {part} did not learn"


def test_a_run_in_one_reply_that_goes_on(tmp_path):
    out = tmp_path / "run"
    changes = {"prompt": "search-r1", "sft_episodes": 2, "steps": 1, "horizon": (3,), "turn_tokens": 20}
    fewer = {"eval_every": 0, "test_tasks": 0, "tasks_per_step": 1}
    model = str(init_policy("rlvr/SearchR1-v0", tmp_path / "model", episodes=30))
    train(small(out, env="rlvr/SearchR1-v0", model=model, agent="completion", **changes, **fewer))
    played = read_episodes(out / "episodes.jsonl")
    assert len(build(played)) == len(played) > 0  # a row for each: nothing is rendered anew
    (metrics,) = [row for row in curve(out) if "mismatch_mean" in row]
    assert metrics["mismatch_mean"] < 1e-4
    with pytest.raises(BadConfig, match="agent 'completion' needs \\[reply\\] until NAME"):
        small(tmp_path / "other", agent="completion", prompt="bare")


@pytest.mark.long
def test_a_run_with_summaries(tmp_path):
    out = tmp_path / "run"
    changes = {"sft_episodes": 0, "steps": 1, "horizon": (6,), "context_tokens": 900, "turn_tokens": 100}
    fewer = {"eval_every": 0, "test_tasks": 0, "tasks_per_step": 1, "group_size": 2}
    train(small(out, agent="summary", **changes, **fewer))
    notes = [note for row in episodes(out) for turn in row["turns"] for note in turn.get("notes", ())]
    assert notes and all(len(note["logprobs"]) == len(note["output_ids"]) > 0 for note in notes)
    assert all(len(row["turns"]) == row["horizon"] for row in episodes(out) if row["reason"] == "horizon")
    with pytest.raises(BadConfig, match="no expert writes what agent 'summary' needs"):
        small(out, agent="summary")


def test_a_run_whose_start_cannot_be_shown_leaves_nothing_behind(tmp_path, monkeypatch):
    """What fails before anything was trained frees the folder, loggers' files included; what lay there before stays."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")

    def show(kind, numbers):
        raise BrokenPipeError(f"nobody reads the {kind}")

    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3]))
    config = small(tmp_path / "run", sft_episodes=0, steps=1, loggers=("examples.stages.logger:Table",))
    with pytest.raises(BrokenPipeError, match="nobody reads the start"):
        train(config, show)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]
    assert train(config)["steps"] == 1
