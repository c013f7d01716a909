"""Rows of tokens: what merges, what is trained, and what is refused."""

import time

import numpy as np
import pytest

from agentgym.episodes.episode import Episode, Turn
from agentgym.errors import BadData
from agentgym.trainers.data.segments import build


def turn(prompt, output, logprobs=None, **more):
    return Turn(
        "o", prompt_ids=prompt, output_ids=output, logprobs=[-1.0] * len(output) if logprobs is None else logprobs, **more
    )


def made(*turns):
    return Episode("e", "t", "t", 0, turns=list(turns))


def test_turns_that_extend_what_is_held_make_one_row():
    # prompt 1 2, output 3 4; then the bridge 5 6; output 7
    one = made(turn([1, 2], [3, 4], [-0.5, -0.25]), turn([1, 2, 3, 4, 5, 6], [7], [-2.0]))
    (row,) = build([one], [[0.5, -1.0]])
    assert row.ids.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert row.mask.tolist() == [False, False, True, True, False, False, True]
    assert row.advantages.tolist() == [0, 0, 0.5, 0.5, 0, 0, -1]
    assert row.turns.tolist() == [-1, -1, 0, 0, -1, -1, 1]
    np.testing.assert_array_equal(row.logprobs, np.float32([np.nan, np.nan, -0.5, -0.25, np.nan, np.nan, -2]))
    assert (row.ids.dtype, row.advantages.dtype, row.trained, row.scored, len(row)) == (np.int32, np.float32, 3, True, 7)


@pytest.mark.parametrize("prompt", [[1, 2, 3, 9, 5], [1, 2, 3], [8], [1, 2, 9, 4, 5, 6]])
def test_anything_else_starts_a_new_row(prompt):
    first, second = build([made(turn([1, 2], [3, 4]), turn(prompt, [7]))], [[0.5, -1.0]])
    assert first.ids.tolist() == [1, 2, 3, 4]
    assert second.ids.tolist() == [*prompt, 7]
    assert second.turns.tolist() == [-1] * len(prompt) + [1]
    assert second.advantages.tolist() == [0] * len(prompt) + [-1]


def test_a_row_can_begin_in_the_middle_and_go_on():
    rows = build([made(turn([1], [2]), turn([5], [6]), turn([5, 6, 7], [8]))], [[1, 2, 3]])
    assert [row.ids.tolist() for row in rows] == [[1, 2], [5, 6, 7, 8]]
    assert rows[1].advantages.tolist() == [0, 2, 0, 3]


def test_advantages_per_token_are_cut_at_the_turns():
    (row,) = build([made(turn([1], [2, 3]), turn([1, 2, 3, 4], [5]))], [[0.1, 0.2, 0.3]])
    assert row.advantages.tolist() == pytest.approx([0, 0.1, 0.2, 0, 0.3])


def test_a_turn_cut_by_length_is_ended_by_the_bridge_untrained():
    (row,) = build([made(turn([1], [2, 3], finish="length"), turn([1, 2, 3, 99, 4], [5]))], [[1, 1]])
    assert row.mask.tolist() == [False, True, True, False, False, True]  # 99, the end token, was not sampled


def test_turns_not_to_be_trained_are_context():
    one = made(turn([1], [2], extra={"train": False}), turn([1, 2, 3], [4]))
    (row,) = build([one], [[5.0, 1.0]])
    assert row.mask.tolist() == [False, False, False, True]
    assert row.advantages.tolist() == [0, 0, 0, 1]
    assert row.turns.tolist() == [-1, 0, -1, 1]
    assert build([made(turn([1], [2], extra={"train": False}))]) == []


def test_turns_without_output_are_left_out():
    (row,) = build([made(turn([1], [2]), turn([1, 2, 3], [], finish="context"))], [[1, 1]])
    assert row.ids.tolist() == [1, 2]


def test_demonstrations_have_no_logprobs_and_say_so():
    (row,) = build([made(turn([1], [2, 3], []))])
    assert not row.scored
    assert np.isnan(row.logprobs).all()
    assert row.advantages.tolist() == [0, 1, 1]


def test_what_cannot_be_trained_is_refused_in_a_sentence():
    with pytest.raises(BadData, match=r"'t', attempt 0, turn 0 .* engine without token access"):
        build([made(Turn("o", text="go north", action="go north"))])
    with pytest.raises(BadData, match="2 output ids and 1 logprobs"):
        build([made(turn([1], [2, 3], [-1.0]))])
    with pytest.raises(BadData, match="no context"):
        build([made(turn([], [2]))])
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        build([made(turn([1], [2, 3]))], [[1, 2, 3]])
    with pytest.raises(ValueError, match="0 arrays"):
        build([made(turn([1], [2, 3]))], [])


def test_a_few_hundred_episodes_take_milliseconds():
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(200):
        held_ids, turns = [], []
        for _ in range(10):
            prompt = held_ids + rng.integers(0, 600, 15).tolist()
            turns.append(turn(prompt, rng.integers(0, 600, 5).tolist()))
            held_ids = prompt + turns[-1].output_ids
        episodes.append(made(*turns))
    started = time.process_time()
    rows = build(episodes, [np.ones(10)] * 200)
    assert (len(rows), sum(row.trained for row in rows)) == (200, 200 * 50)
    assert time.process_time() - started < 1.0  # about 0.03 s; the bound only catches a wrong order of growth


def test_a_reward_that_no_turn_was_paid_is_refused():
    """Credit reads the rewards of turns; an episode made by hand may have a total alone."""
    from agentgym.errors import BadData
    from agentgym.trainers.data.turn_rewards import turn_rewards

    episode = Episode("e", "test/0/1", "g", seed=1, turns=[Turn("a"), Turn("b")])
    episode.reward = 1.0
    with pytest.raises(BadData, match=r"has reward 1\.0, and none of its turns was paid.*pay_last"):
        turn_rewards(episode)
    episode.pay_last(1.0, {})
    assert turn_rewards(episode).tolist() == [0.0, 1.0]
