"""Counting false and missed merges of text anchors, by hand."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

from anchors import Count, count, pairs

from agentgym.episodes.episode import Episode, Turn


def test_pairs_of_places_by_hand():
    text = {(0, 0): "a", (0, 1): "b", (1, 0): "a", (1, 1): "b", (2, 0): "a"}
    state = {(0, 0): "x", (0, 1): "y", (1, 0): "x", (1, 1): "z", (2, 0): "w"}
    # the three of "a" make three pairs, of which one is in one state; the two of "b" make one, in two states
    assert pairs(text, state) == (4, 3)
    assert pairs(state, text) == (1, 0)
    assert pairs(state, {}) == (1, 1)  # in one state, and no text that counts


def test_the_answer_to_an_invalid_action_is_no_text():
    def episode(*turns: Turn) -> Episode:
        return Episode("e", "t", "g", 0, turns=list(turns))

    one = episode(Turn("a", state_key="x", valid=False), Turn("Nothing happens.", state_key="x"))
    two = episode(Turn("a", state_key="x"), Turn("b", state_key="x"))
    # of four turns in one state two say "a", one "b", and one says what has no anchor: six pairs, one of one text
    assert count([[one, two]]) == Count(same_text=1, false=0, same_state=6, missed=5)
