"""The size of a policy made for a run, evaluations during the SFT warm start, and mistakes that are not imitated."""

import pytest
import torch
from small_runs import curve, episodes, policy, small

from agentgym.errors import BadConfig, UnknownName
from agentgym.trainers import TrainConfig, resume, train
from agentgym.trainers.config.recipe_files import read_recipe
from agentgym.trainers.loop import Loop
from agentgym.trainers.model.policy import PolicySize, load_policy, size_of
from agentgym.trainers.run.fits import read_shape


def test_a_recipe_says_how_large_its_policy_is():
    config = TrainConfig(policy_width=64, policy_layers=2, policy_context=300, vocabulary=400)
    assert size_of(config) == PolicySize(64, 2, 2, 128, 400, 300)
    assert size_of(TrainConfig()) == PolicySize()


def test_a_plan_counts_the_policy_of_the_recipe():
    shape = read_shape(TrainConfig(policy_width=192, policy_layers=5, policy_context=999))
    assert (shape.hidden_size, shape.num_hidden_layers, shape.num_attention_heads) == (192, 5, 6)
    assert (shape.intermediate_size, shape.max_position_embeddings, shape.head_dim) == (384, 999, 32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy_width": 100}, "policy_width is 100; expected a multiple of 64"),
        ({"policy_width": 32}, "policy_width is 32"),
        ({"policy_layers": 0}, "policy_layers is 0"),
        ({"sft_eval_every": -1}, "sft_eval_every is -1"),
        ({"sft_masked": ("invalid", "randm")}, "random"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, message):
    with pytest.raises((BadConfig, UnknownName), match=message):
        TrainConfig(**changes)


def test_a_run_makes_the_policy_it_was_told_to(tmp_path):
    config = small(tmp_path / "run", "init", policy_width=64, policy_layers=2, policy_context=128, vocabulary=300, steps=0)
    train(config)
    shape = load_policy(tmp_path / "run" / "init")[0].config
    assert (shape.hidden_size, shape.num_hidden_layers, shape.max_position_embeddings) == (64, 2, 128)


WARM = {"sft_episodes": 48, "sft_batch": 8, "steps": 1, "eval_tasks": 4}


def weights(folder):
    return load_policy(sorted((folder / "checkpoints").glob("step-*"))[-1])[0].state_dict()


def test_an_evaluation_during_the_warm_start_is_in_the_metrics_and_changes_nothing_else(tmp_path):
    model = policy(tmp_path / "policy")
    train(small(tmp_path / "without", model, **WARM))
    train(small(tmp_path / "with", model, sft_eval_every=2, **WARM))
    rows = [row for row in curve(tmp_path / "with") if row["phase"] == "sft"]
    assert [row["step"] for row in rows if "success_valid" in row] == [2, 4, 6]
    groups = [e["group_id"] for e in episodes(tmp_path / "with") if e["group_id"].startswith("eval/sft/")]
    assert len(groups) == 12 and {group.split("/")[2] for group in groups} == {"2", "4", "6"}
    with_, without = weights(tmp_path / "with"), weights(tmp_path / "without")
    assert all(torch.equal(with_[name], without[name]) for name in without)


def test_a_run_stopped_between_such_evaluations_goes_on_the_same(tmp_path, monkeypatch):
    model, changes = policy(tmp_path / "policy"), {**WARM, "sft_episodes": 200, "sft_eval_every": 10, "steps": 0}
    train(small(tmp_path / "whole", model, **changes))
    update = Loop._sft_step

    def stopped(self):
        if self.tally.position == 22:
            raise RuntimeError("stopped")
        update(self)

    with monkeypatch.context() as patched:
        patched.setattr(Loop, "_sft_step", stopped)
        with pytest.raises(RuntimeError, match="stopped"):
            train(small(tmp_path / "stopped", model, **changes))
    resume(tmp_path / "stopped")
    assert curve(tmp_path / "stopped") == curve(tmp_path / "whole")
    assert episodes(tmp_path / "stopped") == episodes(tmp_path / "whole")


def test_only_mistakes_that_are_not_masked_are_imitated(tmp_path):
    """Where every turn of a demonstration is a mistake, nothing moves the policy once that kind is masked."""
    model, moved = policy(tmp_path / "policy"), {}
    before = load_policy(model)[0].state_dict()
    changes = {"sft_episodes": 8, "sft_batch": 8, "sft_invalid": 1.0, "steps": 0}
    for name, masked in (("imitated", ()), ("other", ("random", "forget")), ("masked", ("invalid",))):
        train(small(tmp_path / name, model, sft_masked=masked, **changes))
        after = weights(tmp_path / name)
        moved[name] = not all(torch.equal(after[key], value) for key, value in before.items())
    assert moved == {"imitated": True, "other": True, "masked": False}


def test_the_recipe_of_full_houses_says_its_size_and_trains_on_rooms_of_every_size():
    config = read_recipe("household-full")
    assert size_of(config).context == 2048
    assert {env.name for env in config.mix} == {"full", "crowded"}
    assert set(config.sft_masked) == {"random", "invalid", "forget"}
