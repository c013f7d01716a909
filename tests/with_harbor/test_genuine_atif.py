"""ATIF documents beside harbor 0.26.0's own models: ours pass them, and what they write becomes an episode."""

import json
import math
import random
from collections import Counter

import pytest
from harbor.models.trajectories import Agent, Metrics, ObservationResult, Step, ToolCall, Trajectory

from agentgym.core.actions import Tool
from agentgym.episodes.episode import Episode, Turn
from agentgym.logs.atif import from_atif, to_atif

TEXT = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS = {"bash": Tool("bash", "Run a command.", TEXT)}


def drawn(seed: int) -> Episode:
    """Draw an episode: with and without tokens, notes, calls, thoughts, halves of characters and NaN."""
    rng = random.Random(seed)
    made = Episode("rlvr/Terminal-v0", f"train/0/{seed}", "g/0", seed, seed % 3, instruction="Do it.", split="train")
    made.success = rng.choice([True, False, None])
    made.reason = {True: "success", False: "failure", None: "crash"}[made.success]
    made.reward, made.final_observation = float(bool(made.success)), rng.choice(["", "done", "\udc80"])
    prompt: list[int] = []
    for number in range(rng.randrange(5)):
        prompt = [*prompt, number, number + 1]
        action = rng.choice(["bash[ls]", "bash[\ud800]", "nothing", ""])
        thought = rng.choice(["", "<think>\nhm\n</think>\n\n", "hm</think>"])
        turn = Turn(f"seen {number}", None, None, prompt, text=thought + action, action=action, reward=rng.random())
        if rng.random() < 0.7:
            turn.output_ids, turn.logprobs = [7, 8], [-0.5, rng.choice([-1.0, math.nan])]
        if rng.random() < 0.3:
            turn.notes = [Turn("", text="a note", prompt_ids=[1], output_ids=[2], logprobs=[-0.1])]
        turn.extra = {"advantage": rng.random()}
        made.add(turn)
        prompt = [*prompt, *turn.output_ids]
    return made


def test_documents_pass_harbors_models_and_come_back():
    for seed in range(200):
        original = drawn(seed)
        document = json.loads(json.dumps(to_atif(original, TOOLS)))
        genuine = Trajectory.model_validate(document)
        again = from_atif(genuine.to_json_dict(), "x")
        assert again.to_json() == original.to_json(), seed


IMAGE = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
CALL = {"tool_call_id": "1", "function_name": "bash", "arguments": {"command": "ls"}}
REF = {"trajectory_id": "sub"}
FIELDS = {  # a value for every field of the format, by the object that has it
    "document": {
        **{"session_id": "run", "trajectory_id": "t", "notes": "a note", "continued_trajectory_ref": "next.json"},
        **{"final_metrics": {"total_prompt_tokens": 9}, "extra": {"seed": 1}},
    },
    "agent": {"model_name": "m", "tool_definitions": [{"type": "function"}], "extra": {"a": 1}},
    "user": {"timestamp": "2026-01-01T00:00:00Z", "message": [{"type": "text", "text": "Look."}, IMAGE], "extra": {"a": 1}},
    "step": {
        **{"timestamp": "2026-01-01T00:00:00Z", "model_name": "m", "reasoning_effort": "high", "reasoning_content": "hm"},
        **{"message": "I look.", "tool_calls": [CALL], "llm_call_count": 2, "extra": {"reward": 0.5}},
        "observation": {"results": [{"content": "a"}]},
    },
    "metrics": {
        **{"prompt_tokens": 5, "completion_tokens": 2, "cached_tokens": 3, "cost_usd": 0.25, "extra": {"a": 1}},
        **{"prompt_token_ids": [1, 2], "completion_token_ids": [3], "logprobs": [-0.5]},
    },
    "call": {"extra": {"a": 1}},
    "result": {"content": "seen", "source_call_id": "1", "subagent_trajectory_ref": [REF], "extra": {"a": 1}},
}
FOLLOWS = {"final_metrics", "llm_call_count"}
"""Fields that follow from others, which an episode holds."""


def document(kind: str, name: str) -> dict:
    """Return a document that has a field beside what none lacks."""
    field = {name: FIELDS[kind][name]}
    counts = {"prompt_tokens": 5, "completion_tokens": 2} if name in ("cached_tokens", "cost_usd") else {}
    counts = {"completion_tokens": 2} if name == "prompt_tokens" else counts
    step = {"step_id": 2, "source": "agent", "message": "x", **(field if kind == "step" else {})}
    if kind == "metrics":
        step["metrics"] = {**field, **counts}
        if name == "completion_tokens":
            step["metrics"]["prompt_tokens"] = 5
        if name in ("logprobs", "prompt_token_ids"):
            step["metrics"]["completion_token_ids"] = [3]
    if kind in ("call", "result"):
        step["tool_calls"] = [{**CALL, **(field if kind == "call" else {})}]
        step["observation"] = {"results": [{"content": "seen", **(field if kind == "result" else {})}]}
    user = {"step_id": 1, "source": "user", "message": "Do it.", **(field if kind == "user" else {})}
    agent = {"name": "x", "version": "1", **(field if kind == "agent" else {})}
    made = {"schema_version": "ATIF-v1.8", "agent": agent, "steps": [user, step], **(field if kind == "document" else {})}
    if name == "subagent_trajectory_ref":
        made["subagent_trajectories"] = [{**made, "trajectory_id": "sub", "steps": [user]}]
    return made


def places(raw: dict) -> dict[str, dict]:
    """Return the objects of a document by kind."""
    user, step = raw["steps"][:2]
    return {
        **{"document": raw, "agent": raw["agent"], "user": user, "step": step, "metrics": step.get("metrics") or {}},
        **{"call": (step.get("tool_calls") or [{}])[0]},
        **{"result": ((step.get("observation") or {}).get("results") or [{}])[0]},
    }


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, fields in FIELDS.items() for name in fields])
def test_a_field_of_the_format_comes_back_or_is_listed(kind, name):
    """Each field by itself: what harbor's models take is in the episode's own document, or counted as left out."""
    raw = document(kind, name)
    genuine = Trajectory.model_validate(raw)
    nothing, lost = Counter(), Counter()
    from_atif({**document("step", "message"), "trajectory_id": "t"}, "x", nothing)
    again = to_atif(from_atif(genuine.to_json_dict(), "x", lost))
    Trajectory.model_validate(again)
    came_back = places(again)[kind].get(name) == FIELDS[kind][name]
    if name == "extra" and kind == "step":
        came_back = places(again)[kind]["extra"]["reward"] == 0.5
    if (kind, name) == ("result", "source_call_id"):
        came_back = places(again)["result"]["source_call_id"] == places(again)["call"]["tool_call_id"]
    if (kind, name) in (("document", "trajectory_id"), ("document", "session_id")):
        came_back = again["extra"]["agentgym"]["task_id"] == FIELDS[kind][name]
    if (kind, name) == ("step", "tool_calls"):
        came_back = [{**call, "tool_call_id": "1"} for call in places(again)[kind][name]] == FIELDS[kind][name]
    listed = +lost - +nothing
    assert came_back or listed or name in FOLLOWS, (again, lost)
    assert not (came_back and listed), listed


def test_every_field_of_the_format_is_tried():
    kinds = {"document": Trajectory, "agent": Agent, "step": Step, "metrics": Metrics, "call": ToolCall}
    kinds["result"] = ObservationResult
    needed = {"schema_version", "agent", "steps", "name", "version", "step_id", "source", "metrics", "tool_call_id"}
    needed |= {"function_name", "arguments", "subagent_trajectories", "is_copied_context"}  # the last two: test_atif.py
    for kind, model in kinds.items():
        assert set(model.model_fields) - needed <= set(FIELDS[kind]), kind
