"""The options of agents that `train` and `eval` share: by value, before anything is loaded; and that they do something."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import agentgym
from agentgym import BadConfig, Sampling, UnknownName
from agentgym.agents.spec import AgentSpec
from agentgym.engines.scripted import ScriptedEngine
from agentgym.trainers.config.recipe_files import read_config, recipes, to_toml
from agentgym.trainers.config.train_config import TrainConfig

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"agent": "chta"}, "Did you mean 'chat'"),
    ({"prompt": "raect"}, "Did you mean 'react'"),
    ({"prompt": "/nowhere/p.txt"}, "No such file"),
    ({"tools": "natve"}, "Did you mean 'native'"),
    ({"history": "keeps"}, "Did you mean 'keep'"),
    ({"window_turns": 3}, "window_turns has no effect with agent 'chat'"),
    ({"agent": "window", "window_turns": -1}, "window_turns is -1; expected at least 0"),
    ({"agent": "window", "history": "template"}, "history 'template' has no effect with agent 'window'"),
    ({"agent": "window", "tools": "native"}, "tools is 'native': agent 'window' writes the past as text"),
    ({"history": "template", "tools": "native"}, "native calls need history 'keep'"),
    ({"observation_tokens": 10}, "observation_tokens is 10; expected at least 64"),
    ({"turn_tokens": 0}, "turn_tokens is 0; expected at least 1"),
    ({"agent": "completion", "prompt": "react"}, r"agent 'completion' needs \[reply\] until"),
    ({"tools": "native", "prompt": "react"}, r"tools 'native' needs \[reply\] call"),
]
BEHIND_CHAT: list[tuple[dict[str, Any], str]] = [
    ({"agent": "summary"}, "needs a model's tokens"),
    ({"agent": "completion"}, "needs a model's tokens"),
    ({"history": "template"}, "has no effect with plain chat"),
    ({"tools": "hermes"}, "over plain chat the server writes the calls"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_a_value_that_cannot_be_is_refused_in_both(options: dict[str, Any], message: str) -> None:
    with pytest.raises((BadConfig, UnknownName), match=message):
        AgentSpec(**options)
    with pytest.raises((BadConfig, UnknownName), match=message):
        TrainConfig(**options)


@pytest.mark.parametrize(("options", "message"), BEHIND_CHAT)
def test_what_plain_chat_cannot_do(options: dict[str, Any], message: str) -> None:
    AgentSpec(**options)
    with pytest.raises(BadConfig, match=message):
        AgentSpec(**options, messages=True)


def test_the_commands_refuse_before_torch_is_imported(tmp_path: Path) -> None:
    """One fresh process: what each command printed, what it returned, and whether torch was imported."""
    model = tmp_path / "m"
    model.mkdir()
    (model / "config.json").write_text("{}")
    evaluation = ["eval", "sql", "--quiet", "--out", str(tmp_path / "e"), "--model"]
    training = ["train", "household", "--out", str(tmp_path / "t")]
    commands = [
        [*training, "--prompt", "raect"],
        [*training, "--tools", "natve"],
        [*training, "--window-turns", "3"],
        [*training, "--observation-tokens", "1"],
        [*training, "--history", "keeps"],
        ["train", "--env", "rlvr/GuessNumber-v0", "--agent", "my:agent", "--window-turns", "3"],
        [*evaluation, str(model), "--prompt", "raect"],
        [*evaluation, str(model), "--tools", "natve"],
        [*evaluation, str(model), "--tools", "native", "--agent", "window"],
        [*evaluation, str(model), "--agent", "completion"],
        [*evaluation, "chat:http://127.0.0.1:1/v1#m", "--agent", "summary"],
    ]
    program = (
        "import json, sys\nfrom agentgym.cli import main\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    print(main(command), 'torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(commands)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    lines = done.stderr.splitlines()
    assert [line for line in lines if not line.startswith("error: ")] == ["2 False"] * len(commands), done.stderr
    assert len(lines) == 2 * len(commands)
    assert "CompletionAgent has no prompt that shows the tools" in done.stderr
    assert "window_turns has no effect with agent 'my:agent', which has its own window turns" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"m"}


def test_the_fields_of_a_run_reach_the_agent() -> None:
    from agentgym.engines import Sampling

    def agent(**options: Any) -> Any:
        config = TrainConfig(model="some/model", **options)
        return config.spec.make(ScriptedEngine([]), Sampling(temperature=0.7))

    assert agent(agent="window", window_turns=5).turns == 5
    assert agent(history="template").history == "template"
    made = agent(observation_tokens=99, turn_tokens=7, tools="text")
    assert (made.observation_tokens, made.sampling.max_tokens, made.sampling.temperature, made.way) == (99, 7, 0.7, "text")
    assert (made.prompt.name, made.fitted(agentgym.make("rlvr/SQL-v0").tools).prompt.name) == ("react", "react-tools")


def test_policies_made_from_nothing_ask_for_their_prompt_by_name(tmp_path: Path) -> None:
    for name, path in recipes().items():
        config = read_config(path)
        if config.model == "init":
            assert config.prompt == "bare", name
    assert TrainConfig().spec.prompt == "bare" and TrainConfig(model="some/model").spec.prompt is None
    path = tmp_path / "config.toml"
    before = TrainConfig(agent="window", window_turns=4, observation_tokens=100, tools="text", prompt="window")
    path.write_text(to_toml(before))
    assert read_config(path).spec == before.spec


def test_a_window_that_the_prompt_does_not_show_is_refused() -> None:
    for turns, prompt in ((3, ""), (1, "act")):
        with pytest.raises(BadConfig, match=rf"window_turns has no effect with prompt '{prompt or 'bare'}', which has no"):
            TrainConfig(agent="window", window_turns=turns, prompt=prompt)
    for right in (3, 0):
        assert TrainConfig(agent="window", window_turns=right, prompt="window").spec.window_turns == right
    assert TrainConfig(agent="window", window_turns=0).spec.prompt == "bare"  # the last observation alone


def test_a_spec_makes_the_same_agent_over_messages_and_over_tokens() -> None:
    class Chat:
        pass

    over_tokens = AgentSpec(agent="window", window_turns=3).make(ScriptedEngine([]), Sampling())
    over_chat: Any = AgentSpec(agent="window", window_turns=3, observation_tokens=100, messages=True).make(
        Chat(), Sampling()
    )
    assert over_tokens.prompt == over_chat.prompt and over_chat.window == 3 and over_chat.observation_characters == 400
    tools = agentgym.make("rlvr/Search-v0").tools
    assert over_tokens.fitted(tools).prompt == over_chat.fitted(tools).prompt
