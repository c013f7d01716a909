"""What a step amounts to, over several processes: each episode and each turn counts once, wherever it was played."""

import math

from agentgym.core.hints import Hint
from agentgym.episodes.episode import Episode, Turn, groups
from agentgym.trainers.run.metrics import merged, played, signal, success_by_part


def episode(success, turns, valid=True):
    reason = "crash" if success is None else "success" if success else "failure"
    made = [Turn("", valid=valid, output_ids=[1]) for _ in range(turns)]
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


def test_replies_of_whole_episodes_are_measured_call_by_call():
    one, other = episode(True, 2), episode(False, 1, valid=False)
    one.turns[0].output_ids = [1, 2, 3]
    one.turns[0].notes = [Turn("", output_ids=[1] * 8, finish="length")]  # what the model wrote for itself counts too
    other.turns[0].output_ids, other.turns[0].finish, other.turns[0].parsed = [1] * 4, "length", False
    crashed = episode(None, 3)
    row = merged([played([one]), played([other, crashed])])
    assert row["parsed"] == row["valid"] == 2 / 3 and row["cut"] == 2 / 4 and row["reply_tokens"] == 16 / 4
    nothing = merged([played([])])
    assert all(math.isnan(nothing[name]) for name in ("parsed", "cut", "reply_tokens"))


def test_started_hinted_and_whole_episodes_have_a_success_each():
    begun, hinted = [episode(True, 1), episode(False, 1)], [episode(True, 1) for _ in range(3)]
    for one in begun:
        one.labels["start"] = "demonstration"
    for one, level in zip(hinted, (0.25, 0.5, 0.75), strict=True):
        one.hint = Hint(level)
    row = merged([played([episode(False, 1), *begun]), played(hinted)])
    assert (row["success_train"], row["success_started"], row["success_hinted"]) == (0, 0.5, 1)
    assert (row["started"], row["hinted"], row["hint_level"]) == (2, 3, 0.5)
    assert not {"started", "hinted", "hint_level"} & played([episode(True, 1)]).keys()


def test_groups_of_equal_returns_and_of_one_attempt_are_counted_over_processes():
    def group(name, *results):
        episodes = [episode(result, 1) for result in results]
        for one in episodes:
            one.group_id = name
        return episodes

    mine = [*group("a", True, True), *group("b", True, False), *group("c", True, None)]
    others = group("d", False, False, False)
    second_group = [one for one in groups(mine) if one[0].group_id == "b"]
    row = merged([signal(mine, second_group), signal(others, [])])
    assert row == {"groups": 4, "groups_equal": 2, "groups_alone": 1, "groups_trained": 1, "groups_dropped": 3}


def by_role(success, env="", roles=("A", "B")):
    labels = {"env": env} if env else {}
    turns = [Turn("o", role=role) for role in roles]
    return Episode("id", "t", "g", 0, turns=turns, labels=labels, success=success["A"], role_success=success)


def test_self_play_has_a_success_of_each_role():
    won, lost = {"A": True, "B": False}, {"A": False, "B": True}
    episodes = [by_role(won), by_role(won), by_role(lost), by_role({"A": False, "B": False})]
    assert merged([success_by_part("s", episodes)]) == {"s/A": 0.5, "s/B": 0.25}
    assert merged([success_by_part("s", [by_role(won, "x"), by_role(lost, "y")])]) == {
        "s/x": 1.0, "s/x/A": 1.0, "s/x/B": 0.0, "s/y": 0.0, "s/y/A": 0.0, "s/y/B": 1.0,
    }  # fmt: skip
    assert success_by_part("s", [by_role(won, roles=("A",))]) == {}  # the environment plays the other side
