"""Agents for repositories: the bash-only one in mini-swe-agent's protocol, and the one with four tools."""

import functools
import json

import pytest
import swe_files

import agentgym
from agentgym.engines.scripted import ScriptedEngine
from agentgym.envs.swe import SWE
from agentgym.envs.swe.predictions import predictions
from agentgym.envs.swe.scoring import score

BASH = [
    "THOUGHT: Look first.\n\n```mswea_bash_command\ncat purse.py\n```",
    "I would rather talk.",
    "Two at once.\n```mswea_bash_command\nls\n```\n```mswea_bash_command\npwd\n```",
    "THOUGHT: It is the sign.\n\n```mswea_bash_command\ncat > fix.py <<'EOF'\ntext = open('purse.py').read()\n"
    "open('purse.py', 'w').write(text.replace('whole + whole', 'whole - whole'))\nEOF\n"
    "python fix.py && rm fix.py && git diff\n```",
    "```mswea_bash_command\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```",
]
EDIT = {"path": "purse.py", "old": "whole + whole", "new": "whole - whole"}
FILES = [
    "<think>Where is it?</think>\n<bash>grep -n discount purse.py &&\necho '[done]'</bash>",
    '<think>Look.</think>{"name": "view", "arguments": {"path": "purse.py", "lines": "4-7"}}',
    "<think>The sign.</think>" + json.dumps({"name": "edit", "arguments": EDIT}),
    "<think>Done.</think><submit></submit>",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(swe_files.make(tmp_path_factory.mktemp("swe")))


def play(replies, prompt, data, **options):
    agent = agentgym.ChatAgent(ScriptedEngine(replies), prompt=prompt)
    (episode,) = agentgym.collect(agent, functools.partial(SWE, data=data, **options), tasks=["purse-discount"])
    assert episode.error is None, episode.error
    return episode


def test_one_bash_block_a_reply(data):
    episode = play(BASH, "mini-swe", data, toolset="bash")
    assert [turn.parsed for turn in episode.turns] == [True, False, False, True, True]
    assert [turn.valid for turn in episode.turns] == [True, False, False, True, True]
    assert episode.turns[3].action.startswith("bash[cat > fix.py <<'EOF'\n")
    assert "exactly one bash command" in episode.turns[2].observation
    assert "+    return whole - whole" in episode.turns[4].observation
    assert (episode.reward, episode.success) == (1.0, True)
    first = episode.turns[0].messages[1]["content"]
    assert first.startswith("Please solve this issue: Something is wrong with discount.")
    assert "The repository is in /home/agent/repository" in first


@pytest.mark.long
def test_four_tools(data, tmp_path):
    episode = play(FILES, "swe", data)
    assert all(turn.parsed and turn.valid for turn in episode.turns), [turn.error for turn in episode.turns]
    assert "[done]" in episode.turns[1].observation
    assert "- edit(path: string, old: string, new: string)" in episode.turns[0].messages[0]["content"]
    assert episode.success and episode.metrics["fail_to_pass"] == 1.0
    made = predictions([episode], "scripted")
    assert "-    return whole + whole * discount // 100\n+    return whole - whole" in made[0]["model_patch"]
    worse = made[0]["model_patch"].replace("+    return whole -", "+    return whole *")
    report = score(data, {"purse-discount": made[0]["model_patch"], "purse-nobody": worse, "purse-largest": ""})
    assert report["resolved_ids"] == ["purse-discount"]
    assert (report["unresolved_ids"], report["empty_patch_ids"]) == (["purse-nobody"], ["purse-largest"])
