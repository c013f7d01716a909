"""alfworld@verl-agent: what the model reads and how its reply is read, against texts written by hand."""

from pathlib import Path

import changed_prompt
import pytest
from household_files import write_game

import agentgym
from agentgym import BadConfig
from agentgym.agents.parse import Parsed, Reply
from agentgym.engines.scripted import ScriptedEngine
from agentgym.evaluate.suite import resolve

NAME = "alfworld@verl-agent"
GAME = "pick_cool_then_place_in_recep-Apple-None-Shelf-1"
HELLO = """-= Welcome to TextWorld, ALFRED! =-

You are in the middle of a room. Looking quickly around you, you see a drawer 1, a fridge 1, a microwave 1, a shelf 2, a shelf 1, and a sinkbasin 1.

Your task is to: cool some apple and put it in shelf."""  # noqa: E501
ASKED = """
Now it's your turn to take an action.
You should first reason step-by-step about the current situation. This reasoning process MUST be enclosed within <think> </think> tags.\x20
Once you've finished your reasoning, you should choose an admissible action for current step and present it within <action> </action> tags.
"""  # noqa: E501
FIRST = f"""
You are an expert agent operating in the ALFRED Embodied Environment.
Your current observation is: {HELLO}
Your admissible actions of the current situation are: ['go to drawer 1'
 'go to fridge 1'
 'go to microwave 1'
 'go to shelf 1'
 'go to shelf 2'
 'go to sinkbasin 1'
 'inventory'
 'look'].
{ASKED}"""
AT_THE_FRIDGE = """Your admissible actions of the current situation are: ['close microwave 1'
 'examine drawer 1'
 'examine fridge 1'
 'examine microwave 1'
 'examine sinkbasin 1'
 'go to shelf 1'
 'go to shelf 2'
 'inventory'
 'look'
 'open drawer 1'
 'open fridge 1'
 'use desklamp 1'].
"""
THIRD = f"""
You are an expert agent operating in the ALFRED Embodied Environment. Your task is to: cool some apple and put it in shelf.
Prior to this step, you have already taken 2 step(s). Below are the most recent 2 observaitons and the corresponding actions you took: [Observation 1: '{HELLO}', Action 1: 'go to fridge 1']
[Observation 2: 'You arrive at fridge 1. The fridge 1 is closed.', Action 2: 'n the fridge right now, please']
You are now at step 3 and your current observation is: Nothing happens.
{AT_THE_FRIDGE}{ASKED}"""  # noqa: E501
FOURTH = f"""
You are an expert agent operating in the ALFRED Embodied Environment. Your task is to: cool some apple and put it in shelf.
Prior to this step, you have already taken 3 step(s). Below are the most recent 2 observaitons and the corresponding actions you took: [Observation 2: 'You arrive at fridge 1. The fridge 1 is closed.', Action 2: 'n the fridge right now, please']
[Observation 3: 'Nothing happens.', Action 3: 'look']
You are now at step 4 and your current observation is: You are facing the drawer 1, fridge 1, microwave 1, and sinkbasin 1. Next to it, you see nothing.
{AT_THE_FRIDGE}{ASKED}"""  # noqa: E501
REPLIES = (
    "<think>It is cold there.</think>\n<action>Go to Fridge 1</action>",
    "I think I shall OPEN the fridge right now, please",
    "<think>?</think><action> look </action> or <action>inventory</action>",
    "<think></think><action>open fridge 1</action>",
)


def test_prompts_are_the_published_ones_to_the_letter(tmp_path: Path) -> None:
    for split in ("train", "valid_seen", "valid_unseen"):
        write_game(tmp_path / split / GAME / "trial_T1")
    suite = resolve(NAME)
    agent = agentgym.WindowAgent(ScriptedEngine(lambda prompt, turn: REPLIES[turn]), prompt=suite.prompt)
    options = {**suite.env_options("rlvr/ALFWorld-v0"), "data": str(tmp_path), "horizon": 4}
    (episode,) = agentgym.collect(agent, "rlvr/ALFWorld-v0", split=suite.split, tasks=1, env_options=options)
    prompts = [agent.tokenizer.decode(turn.prompt_ids) for turn in episode.turns]
    for place, text in ((0, FIRST), (2, THIRD), (3, FOURTH)):
        assert prompts[place] == f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    assert [turn.action for turn in episode.turns] == [
        "go to fridge 1",
        "n the fridge right now, please",
        "look",
        "open fridge 1",
    ]
    assert [turn.parsed for turn in episode.turns] == [True, False, True, True]


def test_what_it_fixes() -> None:
    suite = resolve(NAME)
    assert (suite.split, suite.tasks, suite.horizon, suite.temperature, suite.turn_tokens) == (
        "valid_seen",
        140,
        50,
        0.4,
        512,
    )
    assert suite.agent == "window" and suite.protocol is not None
    assert suite.protocol.admissible and suite.protocol.history == "last 2"


@pytest.mark.parametrize(("old", "new"), [("observaitons", "observations"), ("tags. \n", "tags.\n"), ("{newline}", "")])
def test_a_word_changed_is_refused(old: str, new: str, tmp_path: Path) -> None:
    changed_prompt.refused(NAME, old, new, tmp_path)


@pytest.mark.parametrize(
    ("text", "action", "valid"),
    [
        ("<think>a</think><action>Take Egg 1 from Fridge 1</action>", "take egg 1 from fridge 1", True),
        ("<action> look </action>", "look", False),  # no thought
        ("<think>a<action>look</action>", "look", False),
        ("<action>look</action></think><think>", "look", True),  # their order is not asked for
        ("<think>好</think><action>look</action>", "look", False),
        ("<think><action>a</action></think><action>b</action>", "a", True),  # the first, in the thought too
        ("<think>a</think><action></action>", "", True),
        ("<think></think></action>look<action>", "", True),
        ("<think>a</think><ACTION>look</ACTION>", "look", True),
        ("<THINK>a</THINK><action>look</action>", "look", False),
        ("<think>a</think> GO TO the desk, number 1, at once ", "o the desk, number 1, at once ", False),
    ],
)
def test_replies_are_read_as_its_projection_does(text: str, action: str, valid: bool) -> None:
    found = Reply.read("verl-agent", "p").parse(text, {}, opened=False)
    assert found == Parsed(action, valid)


def test_the_reply_form_takes_nothing_beside_it() -> None:
    for text in ("think verl-agent", "verl-agent x"):
        with pytest.raises(BadConfig, match="or verl-agent"):
            Reply.read(text, "p")


def test_an_expert_can_write_it() -> None:
    agent = agentgym.WindowAgent(ScriptedEngine([]), prompt=resolve(NAME).prompt)
    (episode,) = agentgym.collect(agentgym.Demonstrator(agent, thought="{action}"), "rlvr/GuessNumber-v0", tasks=1)
    first = episode.turns[0]
    assert first.text == f"<think>{first.action}</think><action>{first.action}</action>" and first.parsed
