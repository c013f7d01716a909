"""Exported conversations: pairs of better and worse ones, and where a new one begins."""

import pytest

from agentgym.episodes.episode import Episode, Turn
from agentgym.errors import BadConfig
from agentgym.trainers.data.conversations import conversations
from agentgym.trainers.data.export import Rows


def chat(task, attempt, reward, *replies):
    turns = [
        Turn("o", messages=[{"role": "user", "content": "q" if k == 0 else f"o{k}"}], text=text, action=text)
        for k, text in enumerate(replies)
    ]
    return Episode("rlvr/GuessNumber-v0", task, task, 0, attempt, turns, reward=reward, success=reward == 1)


def test_pairs_by_hand():
    """Rewards 1, 0, 0.5, 0 of one task: best with worst, second with the other; equal rewards give no pair."""
    group = [chat("a", n, r, f"{n}", "then") for n, r in enumerate((1.0, 0.0, 0.5, 0.0))]
    pairs = Rows(lambda env: None).dpo([*group, chat("b", 0, 1.0, "x"), chat("b", 1, 1.0, "y"), chat("c", 0, 1.0, "z")])
    assert [(p["chosen"][0]["content"], p["rejected"][0]["content"]) for p in pairs] == [("0", "3"), ("2", "1")]
    assert [m["role"] for m in pairs[0]["chosen"]] == ["assistant", "user", "assistant"]
    assert pairs[0]["prompt"] == [{"role": "user", "content": "q"}]
    with pytest.raises(BadConfig, match="no pair"):
        Rows(lambda env: None).dpo([chat("b", 0, 1.0, "x"), chat("b", 1, 1.0, "y")])


def test_a_prompt_that_begins_anew_is_another_conversation():
    one = chat("a", 0, 1.0, "x", "y")
    for turn, ids in zip(one.turns, ([1, 2], [1, 3]), strict=True):
        turn.prompt_ids, turn.output_ids = ids, [9]
    assert [len(found) for found in conversations(one)] == [2, 2]
    made = Rows(lambda env: None).sft([one])
    assert [row["messages"][0]["content"] for row in made] == ["q", "o1"]
    assert [row["input_ids"] for row in made] == [[1, 2, 9], [1, 3, 9]]
