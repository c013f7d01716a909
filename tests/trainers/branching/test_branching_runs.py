"""Whole runs with branches: what is logged and kept, resumed to the last digit, in workers and in two processes."""

import shutil

import pytest
import small_envs
from several import run_two
from small_runs import curve, episodes, policy, taught, trusted
from two_trees import branching

from agentgym import read_episodes
from agentgym.trainers import resume, train


def rows(folder):
    return [row for row in curve(folder) if row["phase"] == "rl"]


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"env": f"{small_envs.__name__}:small/Blocking-v0", "workers": 1},
        {"branching": "treerl", "branching_options": {}, "credit": "treerl", "shared_turns": "each"},
        {
            "branching": "pairs", "branching_options": {}, "credit": "relative_future", "loss": "refuel", "minibatches": 1,
            "epochs": 2, "loss_aggregation": "episode-sum",
        },
        {"branching": "aepo", "credit": "aepo"},
        {"branching": "turns", "branching_options": {}, "credit": "pav", "needs_options": {"k": 2, "best_of": 2}},
    ],
    ids=["arpo", "worker", "treerl", "refuel", "aepo", "pav"],
)  # fmt: skip
def test_a_run_counts_its_branches_and_goes_on_to_the_last_digit(tmp_path, changes):
    model = taught(tmp_path)
    whole, part = tmp_path / "whole", tmp_path / "part"
    train(branching(whole, model, steps=2, **changes))
    train(branching(part, model, steps=1, **changes))
    resume(part, steps=2, settings=trusted(part))
    if "workers" not in changes:  # those answer in any order, and what is computed together rounds otherwise
        assert rows(part) == rows(whole) and episodes(part) == episodes(whole)
    played = [e for e in read_episodes(whole / "episodes.jsonl") if not e.group_id.startswith(("eval", "success"))]
    assert len(played) == 2 * 2 * 4
    found = [e for e in played if e.forks]
    assert sum(row["branched_episodes"] for row in rows(whole)) == len(found) > 0
    assert sum(row["branched_tokens"] for row in rows(whole)) == sum(e.sampled for e in found)
    groups = {}
    for episode in played:
        groups.setdefault(episode.group_id, {})[episode.attempt] = episode
    for episode in found:
        parent = groups[episode.group_id][episode.forks[-1][0]]
        for number in range(episode.shared):
            mine, theirs = episode.turns[number], parent.turns[number]
            assert (list(mine.prompt_ids), mine.output_ids) == (list(theirs.prompt_ids), theirs.output_ids)
    if "shared_turns" not in changes:
        assert all(not t.extra.get("train", True) for e in found for t in e.turns[: e.shared])


@pytest.mark.long
def test_two_processes_branch_each_in_its_own_groups(tmp_path):
    model, out = policy(tmp_path / "policy"), tmp_path / "run"
    run_two("two_trees.py", out, model)
    played = read_episodes(out / "episodes.jsonl")
    assert len(played) > 0 and any(e.forks for e in played)
    assert all(row["branched_episodes"] > 0 for row in rows(out))
    before = rows(out)
    shutil.copytree(out, tmp_path / "again")
    last = sorted((tmp_path / "again" / "checkpoints").glob("step-*"))[-1]
    shutil.rmtree(last)
    run_two("two_trees.py", f"{tmp_path / 'again'}+", model)
    assert rows(tmp_path / "again") == before
