"""What a step amounts to, over several processes: each episode and each turn counts once, wherever it was played."""

import math

from agentgym.episodes.episode import Episode, Turn
from agentgym.trainers.run.metrics import merged, played


def episode(success, turns, valid=True):
    reason = "crash" if success is None else "success" if success else "failure"
    made = [Turn("", valid=valid) for _ in range(turns)]
    return Episode("e", "t", "g", 0, turns=made, success=success, reward=float(success or 0), reason=reason)


def test_means_are_over_all_episodes_and_turns_not_over_processes():
    first = played([episode(True, 1)])
    second = played([episode(False, 3, valid=False), episode(False, 3, valid=False), episode(None, 9), episode(True, 1)])
    row = merged([{**first, "episodes": 1, "share_env": 0.2}, {**second, "episodes": 4, "share_env": 0.4}])
    assert row["success_train"] == 2 / 4 and row["reward"] == 2 / 4 and row["turns"] == 8 / 4 and row["valid"] == 2 / 8
    assert (row["episodes"], row["faults"]) == (5, 1) and math.isclose(row["share_env"], 0.3)


def test_a_process_without_episodes_changes_nothing_and_nothing_at_all_is_nan():
    alone = merged([played([episode(True, 2)])])
    assert merged([played([episode(True, 2)]), played([])]) == alone and alone["success_train"] == 1
    assert math.isnan(merged([played([]), played([])])["success_train"])
