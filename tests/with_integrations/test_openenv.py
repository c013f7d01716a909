"""The real OpenEnv: its client plays ours through its own server, and its servers are environments here."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("openenv", reason="openenv is not installed: ./dev test-integrations")
import uvicorn
from openenv.core import GenericEnvClient

import agentgym
from agentgym.core.seeding import generator
from agentgym.errors import BadConfig
from agentgym.integrations.openenv import app, remote
from agentgym.rollout.session import Session


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    bound.listen()  # so that whoever connects early waits
    server = uvicorn.Server(uvicorn.Config(app("rlvr/GuessNumber-v0", horizon=30), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


def test_its_client_plays_ours(url: str) -> None:
    here: Any = agentgym.make("rlvr/GuessNumber-v0", horizon=30)
    with GenericEnvClient(base_url=url).sync() as one, GenericEnvClient(base_url=url).sync() as two:
        first = one.reset(seed=5, task="train/0/3")
        assert first.observation["text"] == here.reset(seed=5, options={"task": "train/0/3"})[0]
        two.reset(task="train/0/4")  # a session of its own
        bad = one.step({"text": "hm"})
        assert bad.observation["text"] == here.step("hm")[0] and not bad.done
        secret = here.unwrapped.task.data["secret"]
        won = one.step({"text": str(secret)})
        assert (won.done, won.reward) == (True, 1.0)
        state = one.state()
        assert (state["task_id"], state["success"], state["reason"], state["step_count"]) == (
            "train/0/3",
            True,
            "success",
            2,
        )
        late = one.step({"text": "1"})
        assert late.done and not late.reward and "over" in late.observation["text"]
        assert one.state()["step_count"] == 2 and two.state()["success"] is None


def test_a_server_of_theirs_is_an_environment_here(url: str) -> None:
    env = remote(url)
    answers = agentgym.make("rlvr/GuessNumber-v0", horizon=30)
    observation, info = env.reset(seed=0, options={"task": 2})
    secret = answers.named_task(None, generator("reset", env.task.data["seed"]))
    assert "Guess it" in observation and info["valid"]
    told = env.step("not a number")
    assert "not a number" in told[0]
    observation, reward, terminated, _, info = env.step(str(secret.data["secret"]))
    assert (reward, terminated, info["success"], info["reason"]) == (1.0, True, True, "success")
    env.close()


def test_episodes_are_played_there_and_a_server_that_dies_is_a_fault(url: str) -> None:
    env = remote(url)
    episode = asyncio.run(agentgym.play(env, agentgym.RandomAgent(), task=1, horizon=3))
    assert len(episode.turns) == 3 and episode.reason == "horizon"
    with Session(env) as session:
        session.reset(1)
        env._client.close()
        env._client._async._ws_url = "ws://127.0.0.1:9"
        session.act("7")
        assert session.done and session.success is None and session.reason in ("crash", "timeout")
    with pytest.raises(BadConfig, match="no OpenEnv server"):
        remote("http://127.0.0.1:9")
