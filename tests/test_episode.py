"""Episodes are written as JSON lines and come back as they were."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import BadData, Episode, Turn, groups, read_episodes

ids = st.lists(st.integers(0, 9), max_size=8)
texts = st.text(max_size=10)


@st.composite
def episodes(draw):
    turns, held = [], []
    for _ in range(draw(st.integers(0, 4))):
        prompt = (held if draw(st.booleans()) else held[: draw(st.integers(0, len(held)))]) + draw(ids)
        output = draw(ids)
        turns.append(
            Turn(draw(texts), prompt_ids=prompt, output_ids=output, logprobs=[-0.5] * len(output), action=draw(texts))
        )
        held = prompt + output
    return Episode("e", draw(texts), "g", draw(st.integers(0, 2**62)), turns=turns, reason="success", success=True)


@given(episodes())
def test_what_is_written_is_read(episode):
    line = episode.to_json()
    assert "\n" not in line and Episode.from_json(line) == episode


def test_a_prompt_is_written_as_what_it_adds():
    first, second = Turn("a", prompt_ids=[1, 2], output_ids=[3]), Turn("b", prompt_ids=[1, 2, 3, 4], output_ids=[5])
    third = Turn("c", prompt_ids=[1, 9], output_ids=[])
    raw = json.loads(Episode("e", "t", "g", 0, turns=[first, second, third]).to_json())
    assert [turn["prompt_ids"] for turn in raw["turns"]] == [[0, [1, 2]], [3, [4]], [1, [9]]]


def test_arrays_in_extra_become_lists():
    turn = Turn("a", extra={"values": np.array([0.5, 1.0])})
    assert Episode.from_json(Episode("e", "t", "g", 0, turns=[turn]).to_json()).turns[0].extra == {"values": [0.5, 1.0]}


@pytest.mark.parametrize(
    "line", ["", "3", "[]", "{}", '{"format": 2}', '{"format": 1}', '{"format": 1, "turns": [{}]}', "{" * 9999, "null"]
)
def test_what_is_no_episode_says_so(line):
    with pytest.raises(BadData):
        Episode.from_json(line)


def test_a_line_cut_by_a_crash_is_left_out_and_a_bad_one_is_named(tmp_path):
    path, line = tmp_path / "episodes.jsonl", Episode("e", "t", "g", 0).to_json()
    path.write_text(f"{line}\n{line}\n{line[:30]}")
    assert len(read_episodes(path)) == 2
    path.write_text(f"{line}\n{line[:30]}\n{line}\n")
    with pytest.raises(BadData, match=r"episodes.jsonl, line 2: "):
        read_episodes(path)


def episode(group, reward=0.0, roles=("agent",), **more):
    turns = [Turn("o", role=role, reward=reward) for role in roles]
    return Episode("e", "t", group, 0, turns=turns, reward=reward, **more)


def test_groups_are_by_group_and_role_and_leave_faults_out():
    one = episode("g", 1.0)
    two = episode("h", roles=("X", "O", "X"), final_rewards={"X": 1.0, "O": 0.0})
    found = groups([one, two, episode("g"), episode("g", reason="timeout"), Episode("e", "t", "g", 0)])
    assert [(group.role, len(group)) for group in found] == [("agent", 2), ("X", 1), ("O", 1)]
    assert found[0][0] is one
    assert (len(found[1][0].turns), found[1][0].reward, found[2][0].reward) == (2, 1.0, 0.0)
    assert len(two.turns) == 3  # a view copies, it does not take


@pytest.mark.parametrize(
    ("reason", "fault"), [("success", False), ("horizon", False), ("context", False), ("timeout", True), ("engine", True)]
)
def test_faults(reason, fault):
    assert episode("g", reason=reason).fault is fault


@pytest.mark.parametrize(
    "change",
    [{"success": "yes"}, {"success": 7}, {"env": 5}, {"labels": None}, {"labels": {"type": 1}}, {"attempt": "0"}],
)
def test_values_of_another_kind_are_refused_with_their_line(change: dict[str, object]):
    raw = json.loads(Episode("w", "t", "g", 0).to_json())
    with pytest.raises(BadData, match="not an episode"):
        Episode.from_json(json.dumps({**raw, **change}))


def test_endless_nesting_is_no_episode():
    with pytest.raises(BadData, match="not an episode"):
        Episode.from_json('{"format": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}")
