"""Offline training: stored episodes take the place of new ones."""

import json

import pytest
from fresh_run import fresh
from small_runs import curve, episodes, goes_on_to_the_last_digit, small, taught

import agentgym
from agentgym.errors import BadConfig
from agentgym.trainers import train
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.generation.interface import check

OFFLINE = {"generation": "stored", "loss": "awr", "credit": "archer", "credit_options": {},
           "needs_options": {"updates": 3, "batch": 8, "hidden": 4, "expectile": 0.8}}  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A model, and the episodes of a run that it played."""
    folder = tmp_path_factory.mktemp("recorded")
    model = taught(folder)
    train(small(folder / "run", model, steps=2))
    return model, folder / "run" / "episodes.jsonl"


def offline(out, recorded, **changes):
    model, file = recorded
    return small(out, model, generation_options={"file": str(file)}, **{**OFFLINE, **changes})


def replies(rows):
    return {json.dumps([[turn["prompt_ids"], turn["output_ids"], turn["reward"]] for turn in row["turns"]]) for row in rows}


def test_a_step_is_made_of_stored_episodes_alone(recorded, tmp_path, monkeypatch):
    played = replies(map(json.loads, recorded[1].read_text().splitlines()))
    monkeypatch.setattr("small_envs.Small.begin", None)  # no environment begins an episode
    train(offline(tmp_path / "run", recorded))
    rows = episodes(tmp_path / "run")
    assert replies(rows) <= played and len(replies(rows)) > 3
    assert len({(row["group_id"], row["attempt"]) for row in rows}) == len(rows) == 3 * 3 * 3
    steps = [row for row in curve(tmp_path / "run") if "success_train" in row]
    assert [row["stored_episodes"] for row in steps] == [9, 9, 9] and all(row["grad_norm"] > 0 for row in steps)
    assert all(row["mismatch_mean"] < 1e-5 for row in steps)  # ratios begin at 1, whoever sampled


def test_an_expert_needs_no_tokens(recorded, tmp_path):
    path = tmp_path / "expert.jsonl"
    agentgym.collect(agentgym.ExpertAgent(), "small/File-v0", tasks=4, out=path)
    train(offline(tmp_path / "run", (recorded[0], path), steps=1))
    assert all(turn["output_ids"] for row in episodes(tmp_path / "run") for turn in row["turns"])


def test_a_killed_run_goes_on_to_the_last_digit(recorded, tmp_path):
    goes_on_to_the_last_digit(tmp_path, lambda folder: offline(folder, recorded), **{"generation.file": str(recorded[1])})


def test_an_episode_of_another_vocabulary_is_refused(recorded, tmp_path):
    row = json.loads(recorded[1].read_text().splitlines()[0])
    row["turns"][0]["output_ids"][0] = 100_000
    (tmp_path / "other.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(BadConfig, match="has token 100000, and the policy's vocabulary has"):
        train(offline(tmp_path / "run", (recorded[0], tmp_path / "other.jsonl")))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generation_options": {}}, "needs file; give --generation.file"),
        ({"credit": "grpo"}, "compares the attempts of a group at one task"),
        ({"task_queue": True}, "leave it out"),
        ({"async_level": 1}, "leave it at 0"),
        ({"env": "rlvr/GuessNumber-v0"}, "has no episode of rlvr/GuessNumber-v0"),
    ],
)
def test_what_does_not_go_together(recorded, tmp_path, changes, message):
    values = {"env": "small/File-v0", "credit": "archer", "select": "keep", "generation": "stored",
              "generation_options": {"file": str(recorded[1])}}  # fmt: skip
    with pytest.raises(BadConfig, match=message):
        check(fresh(TrainConfig(**{**values, **changes})))
