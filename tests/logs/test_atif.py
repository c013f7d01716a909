"""Episodes as ATIF documents: nothing is lost on the way there and back, and strangers' documents become episodes."""

import json
import math
from collections import Counter

import numpy as np
import pytest

from agentgym.core.actions import Tool
from agentgym.episodes.episode import Episode, Turn
from agentgym.errors import BadData
from agentgym.evaluate.spending import total_cost, usage_of
from agentgym.logs.atif import file_name, from_atif, to_atif


def episode(**changes) -> Episode:
    made = Episode("rlvr/GuessNumber-v0", "train/0/3", "7/a", 5, 1, instruction="Guess.", split="train", horizon=9)
    made.labels, made.reward, made.final_rewards, made.success = {"difficulty": "0"}, 1.0, {"agent": 1.0}, True
    made.reason, made.final_observation, made.metrics = "success", "Right.", {"left": 0.5}
    system = [{"role": "system", "content": "You guess."}, {"role": "user", "content": "Guess."}]
    note = Turn("", prompt_ids=[1, 2], output_ids=[3], logprobs=[-0.25], text="a note")
    first = Turn("Guess.", "k0", 3, [1, 2], [3, 4], [-0.5, -1.0], system, "<think>\nhalf\n</think>\n\n5", "5", reward=0.0)
    first.extra, first.policy_version, first.seconds = {"advantage": -0.5, "entropy": np.array([0.1, 0.2])}, 4, 0.25
    second = Turn("Higher.", "k1", None, [1, 2, 3, 4, 9], [6], [math.nan], [], "7", "7", finish="stop", reward=1.0)
    second.rewards, second.notes, second.plain_ids = {"success": 1.0}, [note], [1, 9]
    third = Turn("\ud800 half", parsed=False, finish="silent", valid=False, error="no action")
    for turn in (first, second, third):
        made.add(turn)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_there_and_back_is_the_same():
    original = episode()
    document = json.loads(json.dumps(to_atif(original)))
    again = from_atif(document, "x.json")
    assert json.dumps(json.loads(again.to_json())) == json.dumps(json.loads(original.to_json()))


def test_the_formats_own_fields_hold_what_they_can():
    document = to_atif(episode())
    steps = document["steps"]
    assert [step["source"] for step in steps] == ["system", "user", "agent", "agent", "agent", "agent"]
    assert [step["step_id"] for step in steps] == [1, 2, 3, 4, 5, 6]
    first = steps[2]
    assert (first["message"], first["reasoning_content"], first["llm_call_count"]) == ("5", "half", 1)
    assert first["metrics"] == {
        "prompt_tokens": 2,
        "completion_tokens": 2,
        "prompt_token_ids": [1, 2],
        "completion_token_ids": [3, 4],
        "logprobs": [-0.5, -1.0],
    }
    assert first["observation"] == {"results": [{"content": "Higher."}]} and first["extra"]["advantage"] == -0.5
    assert "logprobs" not in steps[4]["metrics"] and steps[4]["extra"]["reward"] == 1.0
    assert steps[5]["llm_call_count"] == 0 and "metrics" not in steps[5]
    assert document["final_metrics"]["extra"] == {"reward": 1.0, "success": True, "reason": "success"}


def test_calls_have_their_place():
    text = {"type": "string"}
    tools = {"bash": Tool("bash", "Run it.", {"type": "object", "properties": {"command": text}, "required": ["command"]})}
    made = Episode("x", "t", "g", 0)
    made.add(Turn("Look.", text="bash[ls]", action="bash[ls]", prompt_ids=[1], output_ids=[2]))
    made.add(Turn("a", text="no call", action="no call"))
    document = to_atif(made, tools)
    first, second = document["steps"][1:]
    assert first["tool_calls"] == [{"tool_call_id": "call_1", "function_name": "bash", "arguments": {"command": "ls"}}]
    assert first["observation"]["results"] == [{"content": "a", "source_call_id": "call_1"}] and "tool_calls" not in second
    assert document["agent"]["tool_definitions"][0]["function"]["name"] == "bash"


def test_usage_of_a_chat_reply_has_the_formats_fields():
    """Replies without token ids, whose server counted 120 and 140 tokens in, 30 of them cached, and 12 out."""
    made = Episode("x", "t", "g", 0)
    usage = {"prompt_tokens": 120, "completion_tokens": 12, "cached_tokens": 30, "reasoning_tokens": 4, "cost": 0.25}
    made.add(Turn("Look.", text="a", action="a", reasoning="hm", extra=usage))
    made.add(Turn("b", text="", action="", parsed=False, extra={**usage, "prompt_tokens": 140, "cost": 0.5}))
    made.add(Turn("c", text="d", action="d"))  # a server that counts nothing
    document = to_atif(made)
    first, empty, uncounted = document["steps"][1:]
    assert first["metrics"] == {"prompt_tokens": 120, "completion_tokens": 12, "cached_tokens": 30, "cost_usd": 0.25}
    assert first["reasoning_content"] == "hm" and (empty["llm_call_count"], empty["metrics"]["prompt_tokens"]) == (1, 140)
    assert uncounted["metrics"] == {}
    totals = {name: value for name, value in document["final_metrics"].items() if name.startswith("total_")}
    assert totals == {
        "total_prompt_tokens": 260,
        "total_completion_tokens": 24,
        "total_cached_tokens": 60,
        "total_cost_usd": 0.75,
        "total_steps": 4,
    }
    assert from_atif(document, "x").to_json() == made.to_json()

    stranger = from_atif({**document, "extra": {}}, "x")
    assert total_cost([stranger], None) == 0.75
    assert [usage and (usage.input, usage.output, usage.cached) for usage in map(usage_of, stranger.turns)] == [
        (120, 12, 30),
        (140, 12, 30),
        None,
    ]


@pytest.mark.parametrize("value", [-1, 1.5, "7", True, 10**12, None])
def test_a_strangers_usage_is_a_count_or_nothing(value):
    step = {"source": "agent", "message": "x", "metrics": {"prompt_tokens": value, "completion_tokens": 3, "cost_usd": 1}}
    lost = Counter()
    assert usage_of(from_atif({**OTHERS, "steps": [step]}, "x", lost).turns[0]) is None
    assert lost["metrics.completion_tokens"] == lost["metrics.cost_usd"] == 1


OTHERS = {
    "schema_version": "ATIF-v1.6",
    "session_id": "s",
    "agent": {"name": "codex", "version": "1"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "Be good."},
        {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "Do it."}, {"type": "image", "source": {}}]},
        {"step_id": 3, "source": "agent", "message": "old", "is_copied_context": True},
        {
            "step_id": 4,
            "timestamp": "2026-01-01T00:00:00Z",
            "source": "agent",
            "message": "I look.",
            "reasoning_content": "hm",
            "tool_calls": [{"tool_call_id": "1", "function_name": "bash", "arguments": {"command": "ls"}}],
            "observation": {"results": [{"source_call_id": "1", "content": "a\nb"}]},
            "metrics": {"prompt_token_ids": [1], "completion_token_ids": [2, 3], "logprobs": [-1, -2], "cost_usd": 1.5},
        },
        {"step_id": 5, "source": "agent", "message": "Done.", "extra": {"reward": 0.5}},
    ],
}


def test_a_strangers_document_becomes_an_episode():
    lost = Counter()
    episode_read = from_atif(OTHERS, "x.json", lost)
    assert (episode_read.env, episode_read.task_id, episode_read.instruction, episode_read.success, episode_read.reward) == (
        "atif",
        "s",
        "Do it.",
        None,
        0.5,
    )
    first, second = episode_read.turns
    assert first.observation == "Be good.\n\nDo it." and first.text == "<think>\nhm\n</think>\n\nI look."
    assert json.loads(first.action) == {"name": "bash", "arguments": {"command": "ls"}}
    assert (list(first.prompt_ids), first.output_ids, first.logprobs) == ([1], [2, 3], [-1, -2])
    assert (second.observation, second.action, second.reward) == ("a\nb", "Done.", 0.5)
    assert {k: v for k, v in lost.items() if v} == {
        "images and sounds": 1,
        "steps copied from another trajectory": 1,
        "agent.version": 1,
        "step.timestamp": 1,
        "metrics.cost_usd": 1,  # of a request whose tokens nobody counted
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema_version": "2"}, "schema_version is '2'"),
        ({"steps": []}, "no steps"),
        ({"steps": [3]}, "step 1 is 3"),
        ({"extra": {"agentgym": {"env": 3, "task_id": "", "group_id": "", "seed": 0, "format": 1}}}, "must be texts"),
        ({"extra": {"agentgym": {"env": "x"}}}, "format is None"),
        ({"steps": [{"source": "agent", "message": "x", "metrics": {"completion_token_ids": "12"}}]}, "output_ids"),
        ({"steps": [{"source": "agent", "message": 3}]}, "a message is 3"),
    ],
)
def test_what_is_no_document_is_refused(changes, words):
    with pytest.raises(BadData, match=words):
        from_atif({**OTHERS, **changes}, "x.json")


def test_a_task_does_not_decide_where_its_file_lies():
    made = episode(task_id="../../etc/passwd\0ü")
    assert file_name(made, 3) == "00003-------etc-passwd---1.json"
