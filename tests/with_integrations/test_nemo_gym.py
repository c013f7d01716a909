"""The real NeMo Gym: its resources servers as environments here, by name and by folder."""

import json
import math
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("nemo_gym", reason="nemo_gym is not installed: ./dev test-integrations")

import agentgym
from agentgym.cli import main
from agentgym.errors import RULED_OUT, BadConfig, BadData, Fault
from agentgym.integrations.nemo_gym import NeMoGymEnv

CALL = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'


def test_a_server_with_tools_is_played_as_ours_are() -> None:
    env = agentgym.make("nemo_gym:example_single_tool_call")
    observation, info = env.reset(options={"task": 1})
    assert env.size() == 5 and observation.endswith("going out in sf tn") and info["task_id"] == "all/0/1"
    assert list(env.tools) == ["get_weather", "answer"] and env.tools["get_weather"].required == ["city"]
    assert env.step("weather?")[4]["valid"] is False  # no call: said so, and costs a turn
    assert json.loads(env.step(CALL)[0]) == {"city": "Oslo", "weather_description": "The weather in Oslo is cold."}
    for nasty in (
        '{"name": "get_weather", "arguments": {"city": "\\ud83d"}}',
        '{"name": "answer", "arguments": {"text": "\\ud83d"}}',
    ):
        assert "half a character" in env.step(nasty)[4]["error"]  # half a character: no text, and no fault
    state = env.snapshot()
    assert env.step("answer[It is cold.]")[1:3] == (1.0, True)
    env.restore(state)
    answer, reward, terminated, _, done = env.step("answer[It is cold.]")
    assert (answer, reward, terminated, done["success"]) == ("Reward: 1", 1.0, True, True)
    env.reset(options={"task": 1})
    assert env.step("answer[It is cold.]")[4]["success"] is False  # its verifier wants the call


def test_a_session_is_of_one_episode() -> None:
    env = agentgym.make("nemo_gym:example_session_state_mgmt")
    row = env.numbered(0).data["row"]
    count = row["expected_count"] - row["initial_count"]
    for _ in range(2):  # the second begins from the start
        env.reset(options={"task": 0})
        env.step(json.dumps({"name": "increment_counter", "arguments": {"count": count}}))
        assert env.step("answer[done]")[4]["success"] is True


def test_a_gymnasium_server_is_stepped_to_its_end() -> None:
    env = agentgym.make("nemo_gym:blackjack")
    assert "Dealer shows" in env.reset(options={"task": 0})[0] and not env.tools
    for _ in range(20):
        _, reward, terminated, _, info = env.step("<action>hit</action>")
        if terminated:
            break
    assert terminated and reward == float(info["success"])  # -1 for a bust is no success


def test_a_folder_of_ones_own_and_what_is_wrong_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "resources_servers" / "shout"
    (folder / "data").mkdir(parents=True)
    (folder / "app.py").write_text(
        textwrap.dedent(
            """
            from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse, SimpleResourcesServer
            from pathlib import Path

            from word import WORD  # a module beside it

            FOLDER = Path(__file__).parent

            class Request(BaseVerifyRequest):
                answer: str

            class Shout(SimpleResourcesServer):
                async def verify(self, body: Request) -> BaseVerifyResponse:
                    said = body.response.output[-1].content[0].text
                    if not said.isupper() or (FOLDER / "down").exists():
                        raise RuntimeError("broken")
                    return BaseVerifyResponse(**body.model_dump(), reward=float(said == body.answer.upper() + WORD))
            """
        )
    )
    (folder / "word.py").write_text("WORD = '!'\n")
    rows = [{"responses_create_params": {"input": f"Shout {word}"}, "answer": word} for word in ("hey", "you")]
    (folder / "data" / "example.jsonl").write_text("\n".join(map(json.dumps, rows)))
    env = agentgym.make(f"nemo_gym:{folder}")
    assert env.spec is not None and env.spec.id == "nemo_gym/shout-v0"
    assert env.reset(options={"task": 1})[0] == "Shout you"
    assert env.step("YOU!")[4]["success"] is True
    env.reset(options={"task": 1})
    assert env.step("YOU")[4]["success"] is False
    for message in ("break", ""):  # the last message that was judged is a control: the plain ones break it too
        env.reset(options={"task": 1})
        assert env.step(message)[4]["reason"] == "failure"
    env.reset(options={"task": 1})
    (folder / "down").touch()
    broken = env.step("YOU!")[4]
    assert broken["reason"] == "crash" and broken["error"].startswith(RULED_OUT)  # its own failure is nobody's
    (folder / "down").unlink()
    (folder / "data" / "example.jsonl").write_text("{}\n")
    with pytest.raises(BadData, match=r"example\.jsonl, line 1: expected an object with responses_create_params"):
        agentgym.make(f"nemo_gym:{folder}")
    with pytest.raises(BadConfig, match="no resources server 'blackjak'"):
        agentgym.make("nemo_gym:blackjak")


def test_its_certificate_names_what_is_drawn_without_a_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "certificate.json"
    assert main(["check", "nemo_gym:blackjack", "--certificate", str(file), "--check", "same again"]) == 1
    made = json.loads(file.read_text())
    assert made["claims"]["determinism"]["verdict"] == "broken" and "Your hand" in made["claims"]["determinism"]["why"]
    assert made["environment"]["packages"]["nemo-gym"] == "0.7.0"


@pytest.mark.parametrize("reward", [math.nan, math.inf, "1", [1.0], {"reward": 1}])
def test_a_reward_that_is_no_number_is_a_fault(reward: object) -> None:
    env = object.__new__(NeMoGymEnv)
    with pytest.raises(Fault, match="expected a finite number"):
        env._reward({"reward": reward})
    assert [env._reward(reply) for reply in ({}, {"reward": None}, {"reward": True}, {"reward": 0.5})] == [
        0.0,
        0.0,
        1.0,
        0.5,
    ]
