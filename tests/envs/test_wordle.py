"""Wordle by hand: how letters are marked, and what each guess leaves."""

import pytest

import agentgym
from agentgym import Task
from agentgym.envs.wordle import best, fitting, listed, marks


@pytest.mark.parametrize(
    ("word", "guess", "expected_marks"),
    [
        ("crane", "crane", "GGGGG"),
        ("crane", "nacre", "YYYYG"),
        ("abbey", "babes", "YYGG-"),  # one b in its place, one elsewhere; both are there
        ("speed", "erase", "Y--YY"),
        ("those", "geese", "---GG"),  # the last e is in its place, so the others are not there
        ("robot", "floor", "--YGY"),
    ],
)
def test_letters_are_marked_as_often_as_they_are_there(word, guess, expected_marks):
    assert marks(word, guess) == expected_marks


def begun(*words):
    env = agentgym.make("rlvr/Wordle-v0")
    env.reset(seed=0, options={"task": Task(data={"words": words}, id="mine")})
    return env


def test_an_episode_by_hand():
    env = begun("crane")
    assert env.step("CRATE")[0] == "C R A T E\nG G G - G\n5 guesses left."
    text, _, _, _, info = env.step("xxxxx")
    assert text.startswith("'xxxxx' is not in the word list.") and not info["valid"] and env._left == 5
    assert env.step("crane")[:3] == ("Right.", 1.0, True)


def test_six_guesses_and_no_more():
    env = begun("crane")
    for _ in range(5):
        env.step("slate")
    text, reward, terminated, _, info = env.step("slate")
    assert text == "S L A T E\n- - G - G\nNo guesses are left." and (reward, terminated, info["success"]) == (
        0.0,
        True,
        False,
    )


def test_several_words_at_once_and_found_ones_are_shown_no_more():
    env = begun("crane", "light")
    assert env.step("crane")[0] == "C R A N E\nG G G G G\nC R A N E\n- - - - -\n1 of 2 words found. 6 guesses left."
    assert env.info()["metrics"] == {"found": 0.5}
    assert env.step("night")[0] == "N I G H T\n- G G G G\n1 of 2 words found. 5 guesses left."
    assert env.step("light")[0] == "Right."


def test_the_list_and_what_fits():
    assert len(listed()) == len(set(listed())) > 800 and all(len(w) == 5 and w.isalpha() and w.islower() for w in listed())
    assert fitting((("slate", "--G-G"), ("crane", "GGGGG"))) == ["crane"]
    assert best(["light", "might", "night"]) in ("light", "might", "night")
