"""Twenty questions by hand: answers, what they leave, and one guess."""

import pytest

import agentgym
from agentgym import Task

FOX = ("red", "small", "forest", "insects", "fur", "four", "silent", "by night")
CREATURES = [
    ("bado", FOX),
    ("figa", ("green", *FOX[1:])),
    ("kalu", ("green", "huge", *FOX[2:])),
    ("mino", ("blue", *FOX[1:])),
]


def begun(meant="kalu"):
    env = agentgym.make("rlvr/TwentyQuestions-v0")
    env.reset(seed=0, options={"task": Task(data={"creatures": CREATURES, "meant": meant}, id="mine")})
    return env


def test_an_episode_by_hand():
    env = begun()
    assert "\nbado: red, small, forest, insects, fur, four, silent, by night\n" in env.observation
    assert env.step("ask[color green]")[0] == "Yes." and env.left() == ["figa", "kalu"]
    assert env.info()["metrics"] == {"known": pytest.approx(0.5)}
    assert env.step("ask[Size  Huge?]")[0] == "Yes." and env.left() == ["kalu"]
    assert env.step("ask[awake by day]")[0] == "No."
    assert env.step("guess[Kalu]")[:3] == ("Yes!", 1.0, True)


def test_one_guess():
    env = begun()
    assert env.step("guess[bado]")[:3] == ("No, it was kalu.", 0.0, True)


def test_wrong_questions_are_explained():
    env = begun()
    assert env.step("ask[is it red]")[0].startswith("'is' is not a property. Ask about color, size,")
    assert (
        env.step("ask[color pink]")[0]
        == "A creature's color is one of red, green, blue, brown, gray, white. For example: ask[color red]."
    )
    assert env.step("guess[cat]")[0].startswith("'cat' is not on the list.") and env.success is None


def test_what_is_left_is_the_state_however_it_was_found_out():
    one, two = begun(), begun()
    one.step("ask[color green]")
    for question in ("ask[color red]", "ask[color blue]"):
        two.step(question)
    assert one.state_key() == two.state_key()


@pytest.mark.parametrize("difficulty", [0, 3])
def test_the_expert_needs_few_questions(difficulty):
    env = agentgym.make("rlvr/TwentyQuestions-v0", difficulty=difficulty)
    for task in env.tasks(20):
        env.reset(seed=0, options={"task": task})
        while env.success is None:
            env.step(next(env.expert()))
        assert env.success and env.turn <= 13
