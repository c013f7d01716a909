"""The real OpenEnv: its client plays ours through its own server, and its servers are environments here."""

import asyncio
import contextlib
import json
import math
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Literal

import pytest

pytest.importorskip("openenv", reason="openenv is not installed: ./dev test-integrations")
import uvicorn
from openenv.core import GenericEnvClient
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import model_validator

import agentgym
from agentgym.core.seeding import generator
from agentgym.errors import BadConfig, Fault
from agentgym.integrations import openenv as openenv_module
from agentgym.integrations.openenv import RemoteTextEnv, app, remote
from agentgym.rollout.session import Session


@contextlib.contextmanager
def served(application: Any) -> Iterator[str]:
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    bound.listen()  # so that whoever connects early waits
    server = uvicorn.Server(uvicorn.Config(application, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(app("rlvr/GuessNumber-v0", horizon=30)) as address:
        yield address


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
    result = env.step("not a number")
    assert "not a number" in result[0]
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


class Move(Action):
    steps: int
    word: str


class Seen(Observation):
    text: str = ""
    """No field of the action."""


class Walk(Environment[Move, Seen, State]):
    """A server of theirs: `boom` raises, `down` raises whatever is sent."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    down = torn = False
    _at = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Seen:
        self._at = 0
        return Seen(text="at 0")

    def step(self, action: Move, timeout_s: float | None = None, **_: Any) -> Seen:
        if action.word == "boom" or type(self).down:
            raise KeyError(f"no word {action.word}")
        if type(self).torn:
            return Seen(text=3)  # type: ignore[arg-type]
        self._at += action.steps
        return Seen(text=f"at {self._at}", done=self._at == 3, reward=float(self._at == 3))

    @property
    def state(self) -> State:
        return State()


def move(steps: object, word: str = "go", **more: object) -> str:
    return json.dumps({"steps": steps, "word": word, **more})


@pytest.fixture(params=[1, 8], ids=["one session", "many"])
def walk(request: pytest.FixtureRequest) -> Iterator[Any]:
    Walk.down = False
    with served(create_fastapi_app(Walk, Move, Seen, max_concurrent_envs=request.param)) as address:
        env = remote(address)
        env.reset(seed=0)
        yield env, request.param
        env.close()


def test_an_action_that_their_server_finds_invalid_is_one_here(walk: Any) -> None:  # openenv 0.10.0
    env, _ = walk
    assert env.step(move(1))[0] == "at 1"
    for action, words in (
        (move("far"), "steps: Input should be a valid integer"),
        (move(1, speed=2), "speed: Extra inputs are not permitted"),
        ("{}", "word: Field required"),
        ('{"steps": 1, "word": "\\ud83d"}', "cannot be sent"),
        ('{"steps": NaN, "word": "go"}', "cannot be sent"),
    ):
        text, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated, info["valid"]) == (0.0, False, False, False) and words in text
    assert env.step(move(2))[1:3] == (1.0, True)  # its session went on


def test_an_error_of_their_server_is_the_actions_unless_a_harmless_one_fails_too(walk: Any) -> None:
    env, sessions = walk
    text, _, terminated, truncated, info = env.step(move(1, "boom"))
    assert "no word boom" in text and not truncated
    if sessions > 1:
        assert (terminated, info["valid"]) == (False, False) and env.step(move(3))[2]
    else:
        assert (terminated, info["success"]) == (True, False)  # the control took the place of its session
    env.health_check()
    env.reset(seed=0)
    Walk.torn = True  # which it answers as it does a wrong action
    *_, truncated, info = env.step(move(1))
    Walk.torn = False
    assert (truncated, info["reason"]) == (True, "crash") and "text: Input should be a valid string" in info["error"]
    env.reset(seed=0)
    Walk.down = True
    *_, terminated, truncated, info = env.step(move(1))
    assert (terminated, truncated, info["success"], info["reason"]) == (False, True, None, "crash")
    with pytest.raises(Fault, match="no word"):
        env.health_check()


class Turn(Action):
    kind: Literal["turn", "look"]
    degrees: int | None = None
    times: float = 1.0

    @model_validator(mode="after")
    def complete(self) -> "Turn":
        if self.kind == "turn" and self.degrees is None:
            raise ValueError("turn needs degrees")
        return self


class Compass(Walk):
    """A server whose actions have a rule that no schema states: openenv 0.10.0 fails at writing what broke it."""

    def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Seen:
        if action.times == 13 or type(self).down:
            raise KeyError("thirteen")
        return Seen(text=f"{action.kind} {action.degrees}")


def test_harmless_actions_are_several_as_a_rule_may_refuse_the_plainest() -> None:
    Compass.down = False
    with served(create_fastapi_app(Compass, Turn, Seen, max_concurrent_envs=8)) as address:
        env = remote(address)
        for action, words in (
            ('{"kind": "turn"}', "ValueError"),  # also the plainest action of the schema
            ('{"kind": "look", "times": 13}', "thirteen"),
            ('{"kind": "fly"}', "kind: Input should be 'turn' or 'look'"),
        ):
            env.reset(seed=0)
            text, _, terminated, truncated, info = env.step(action)
            assert words in text and (terminated, truncated, info["valid"]) == (False, False, False)
        assert env.step('{"kind": "turn", "degrees": 90}')[0] == "turn 90"
        env.health_check()
        Compass.down = True
        assert env.step('{"kind": "look", "times": 13}')[4]["reason"] == "crash"
        env.close()


def test_the_last_action_that_was_carried_out_is_a_control_too() -> None:
    class Locked(Walk):
        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Seen:
            if action.word != "sesame":
                raise KeyError(f"no word {action.word}")
            return Seen(text="open")

    with served(create_fastapi_app(Locked, Move, Seen, max_concurrent_envs=8)) as address:
        env = remote(address)
        env.reset(seed=0)
        assert env.step(move(1, "hm"))[4]["reason"] == "crash"  # nothing is known to work
        env.reset(seed=0)
        assert env.step(move(1, "sesame"))[0] == "open"
        text, _, _, truncated, info = env.step(move(1, "hm"))
        assert "no word hm" in text and (truncated, info["valid"]) == (False, False)
        env.close()


def test_a_rollout_finds_out_whose_doing_an_error_was() -> None:
    Walk.down = False
    with served(create_fastapi_app(Walk, Move, Seen, max_concurrent_envs=1)) as address:
        env = remote(address)
        with Session(env) as session:
            session.reset(0)
            session.act(move(1, "boom"))
            assert (session.done, session.success, session.reason) == (True, False, "failure")
            session.reset(0)
            Walk.down = True
            session.act(move(1))
            assert (session.done, session.success, session.reason) == (True, None, "crash")
        env.close()


def test_what_a_server_says_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    class Long(Walk):
        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Seen:
            return Seen(text="x" * (action.steps << 20))

    with served(create_fastapi_app(Long, Move, Seen, max_concurrent_envs=8)) as address:
        monkeypatch.setattr(openenv_module, "LARGEST", 1 << 20)
        env = remote(address)
        env.reset(seed=0)
        assert len(env.step(move(0))[0]) == 0
        assert env.step(move(2))[4]["reason"] == "crash"
        env.close()
        monkeypatch.setattr(openenv_module, "LARGEST", 100)  # bytes of the schema
        with pytest.raises(BadConfig, match="no OpenEnv server answers"):
            remote(address)


@pytest.mark.parametrize("reward", [math.nan, math.inf, "1", [1.0], 1 + 0j])
def test_a_reward_that_is_no_number_is_a_fault(reward: Any) -> None:
    env = object.__new__(RemoteTextEnv)
    env.paid, answer = 0.0, SimpleNamespace(reward=reward, observation={"text": "seen"}, done=True)
    env._payload = lambda action: {}  # type: ignore[method-assign]
    env._client = SimpleNamespace(step=lambda payload: answer)
    with pytest.raises(Fault, match=r"its reward is .*expected a finite number"):
        env.act("{}")
    answer.reward = True
    assert env.act("{}").success is True
