"""Why replies, executions and episodes end: one enumeration each, whose values are those of the files."""

import ast
import json
from pathlib import Path

import pytest
from sources import parsed

import agentgym
from agentgym.core.outcome import Finish
from agentgym.errors import Reason
from agentgym.sandbox.protocol import ExitReason

ROOT = Path(__file__).parents[2] / "agentgym"


@pytest.mark.parametrize("kind", [Finish, Reason, ExitReason])
def test_members_are_their_strings_everywhere(kind):
    for member in kind:
        assert json.dumps({member: member}) == f'{{"{member.value}": "{member.value}"}}'
        assert f"{member} {member!r}" == f"{member.value} {member.value!r}" and {member.value: 1}[member] == 1


def test_episodes_hold_the_same_strings():
    for episode in agentgym.collect(agentgym.RandomAgent(), "guessnumber", tasks=3, horizon=2):
        assert json.loads(episode.to_json())["reason"] == episode.reason == Reason.HORIZON
        assert {json.dumps(turn["finish"]) for turn in json.loads(episode.to_json())["turns"]} == {'"stop"'}


def test_finish_is_compared_with_members():
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(ROOT / "envs/swe/packages") or "finish" not in text:
            continue
        for node in ast.walk(parsed(text)):
            compared = isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "finish"
            if compared and any(isinstance(one, ast.Constant) for one in node.comparators):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong
