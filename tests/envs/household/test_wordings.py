"""Generated houses in the words of both generations of ALFWorld's files, their variants and paraphrases."""

import re

import pytest

from agentgym.envs.household import Household
from agentgym.envs.household.text import NEW, OLD
from agentgym.envs.household.wordings import WORDINGS, draw_dialect
from agentgym.errors import BadConfig, UnknownName


def play(env: Household, number: int) -> tuple[list[str], list[str], bool]:
    """Let the expert play a task; return commands, observations and the success."""
    text, _ = env.reset(options={"task": number}, seed=0)
    commands: list[str] = []
    texts = [str(text)]
    done = False
    info: dict[str, object] = {}
    while not done:
        commands.append(next(env.expert()))
        text, _, terminated, truncated, info = env.step(commands[-1])
        texts.append(str(text))
        done = terminated or truncated
    return commands, texts, bool(info["success"])


@pytest.mark.parametrize("wording", WORDINGS)
def test_the_expert_wins_in_every_wording(wording: str):
    env = Household(preset="easy", wordings=(wording,), horizon=60)
    assert all(play(env, number)[2] for number in range(12))


def test_the_default_plays_the_newer_generation_and_old_that_of_the_published_files():
    new, old = (Household(preset="easy", horizon=60, **more) for more in ({}, {"wordings": ("old",)}))
    for number in range(12):
        (before, texts, _), (after, replies, _) = play(new, number), play(old, number)
        assert new.play.game.dialect == NEW and old.play.game.dialect == OLD
        assert after == ["put " + c[5:].replace(" to ", " in/on ") if c.startswith("move ") else c for c in before]
        assert not any("loc " in text for text in texts)
        assert all(
            text.startswith("You arrive at loc ") for c, text in zip(after, replies[1:], strict=True) if c[:2] == "go"
        )


def test_a_mixture_is_drawn_by_task_and_contains_every_part():
    tasks = [f"train/0/{number}" for number in range(400)]
    drawn = [draw_dialect(("new", "old"), task) for task in tasks]
    assert 150 < drawn.count(OLD) < 250 and set(drawn) == {NEW, OLD}
    assert drawn == [draw_dialect(("new", "old"), task) for task in tasks]
    variants = {draw_dialect(("variants",), task) for task in tasks}
    assert {(d.put, d.arrive_at_location, d.help is None, d.examine_visible) for d in variants} == {
        (generation.put, generation.arrive_at_location, no_help, examine)
        for generation in (NEW, OLD)
        for no_help in ((True, False) if generation is NEW else (True,))
        for examine in (True, False)
    }


def words_of(wordings: tuple[str, ...], tasks: list[str]) -> set[str]:
    """Return the words of the phrases that tasks have, and of the engine's own, in lower case."""
    pairs = [pair for task in tasks for pair in draw_dialect(wordings, task).phrases]
    return set(re.findall("[a-z]+", " ".join(text for pair in pairs for text in pair).lower()))


def test_invented_phrases_differ_from_house_to_house_and_leave_the_lists():
    first, other = (draw_dialect(("invented",), f"train/0/{number}") for number in range(2))
    assert first == draw_dialect(("invented",), "train/0/0")
    assert not {text for _, text in first.phrases} & {text for _, text in other.phrases}
    for genuine, text in first.phrases:
        assert text[0].isupper() == genuine[0].isupper() and text[0].isspace() == genuine[0].isspace()
        assert text[-1].isspace() == genuine[-1].isspace() and text.strip()
    env, new = (Household(preset="easy", wordings=(name,), horizon=60) for name in ("invented", "new"))
    listed = re.compile(r" a (\w+ \d+)")
    for number in range(8):
        played = [listed.findall("\n".join(play(env_, number)[1])) for env_ in (env, new)]
        assert played[0] == played[1] and played[0]


def test_held_out_phrases_are_in_no_training_wording():
    tasks = [f"train/0/{number}" for number in range(300)]
    training = [wording for wording in WORDINGS if wording != "held_out"]
    trained = {p for w in training for task in tasks for _, p in draw_dialect((w,), task).phrases}
    held_out = {p for task in tasks for _, p in draw_dialect(("held_out",), task).phrases}
    assert held_out and not held_out & trained
    new_words = set(re.findall("[a-z]+", " ".join(held_out).lower())) - words_of(("paraphrased",), tasks)
    assert {"grab", "notice", "reach"} <= new_words and not new_words & words_of(("invented",), tasks)
    env = Household(preset="easy", wordings=("held_out",), horizon=60)
    text = "\n".join(line for number in range(8) for line in play(env, number)[1])
    assert "You arrive at" not in text and ", you see " not in text and ", you notice " in text
    assert "Your task is to: " in text


def test_a_snapshot_keeps_the_wording():
    env = Household(preset="easy", wordings=("held_out",), horizon=60)
    env.reset(options={"task": 3}, seed=0)
    state, command = env.snapshot(), next(env.expert())
    expected = env.step(command)[0]
    other = Household(preset="easy", wordings=("held_out",), horizon=60)
    other.restore(state)
    assert other.step(command)[0] == expected


def test_unknown_wordings_are_refused():
    with pytest.raises(UnknownName, match="wording"):
        Household(wordings=("olde",))
    with pytest.raises(BadConfig, match="wordings"):
        Household(wordings=())
