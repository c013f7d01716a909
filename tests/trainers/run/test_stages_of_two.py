"""Stages that keep something of every process: two real processes take the steps that one takes."""

import pytest
from several import run_two
from small_runs import curve, episodes, taught
from two_stages import CASES, staged

from agentgym.trainers import train

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return taught(tmp_path_factory.mktemp("model"))


USED = {
    "guide": "hinted", "questa": "hinted", "spec": "draft_tokens_kept", "prune": "pruned_episodes",
    "self_imitation": "mismatch_mean",
}  # fmt: skip
"""By case a number of its rows that is above 0 only where the stage did something."""


def numbers(row):
    """Return the numbers of a row that are over all episodes; those of anchors are means of the processes' own."""
    return {name: value for name, value in row.items() if isinstance(value, int | float) and not name.startswith("anchor_")}


@pytest.mark.parametrize("case", CASES)
def test_two_processes_take_the_steps_of_one(model, tmp_path, case):
    run_two("two_stages.py", tmp_path / "two", model, case)
    train(staged(tmp_path / "run", model, case))
    ours, theirs = curve(tmp_path / "two"), curve(tmp_path / "run")
    assert len(ours) == len(theirs) == 5
    assert sum(row.get(USED[case], 0) > 1e-3 for row in theirs) >= 1, theirs
    for step, (mine, alone) in enumerate(zip(ours, theirs, strict=True)):
        assert numbers(mine) == pytest.approx(numbers(alone), rel=1e-3, abs=1e-4, nan_ok=True), step
    everything = {(e["group_id"], e["attempt"]): e for e in episodes(tmp_path / "run")}
    for episode in episodes(tmp_path / "two"):  # the first process's
        alone = everything[episode["group_id"], episode["attempt"]]
        assert [turn["output_ids"] for turn in episode["turns"]] == [turn["output_ids"] for turn in alone["turns"]]
