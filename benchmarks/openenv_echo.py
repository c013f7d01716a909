"""OpenEnv's own server around an environment that echoes, or one of ours; run by a Python that has openenv.

python openenv_echo.py PORT SESSIONS asyncio|uvloop [ENV]
"""

import sys

import uvicorn
from openenv.core.env_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class EchoAction(Action):
    """What to say."""

    text: str


class EchoObservation(Observation):
    """What was said."""

    text: str = ""


class Echo(Environment):
    """As their echo environment: the observation is the message."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State(episode_id="", step_count=0)

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._state = State(episode_id=episode_id or "", step_count=0)
        return EchoObservation(text="ready", reward=0.0, done=False)

    def step(self, action, timeout_s=None, **kwargs):
        self._state.step_count += 1
        return EchoObservation(text=action.text, reward=0.0, done=False)

    @property
    def state(self):
        return self._state


class Ours(Environment):
    """An environment of ours with as little around it as there can be."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        import agentgym

        self.env = agentgym.make(sys.argv[4], horizon=10**9)

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._state = State(episode_id=episode_id or "", step_count=0)
        return EchoObservation(text=self.env.reset(seed=seed)[0], reward=0.0, done=False)

    def step(self, action, timeout_s=None, **kwargs):
        self._state.step_count += 1
        text, reward, terminated, truncated, _ = self.env.step(action.text)
        return EchoObservation(text=text, reward=reward, done=terminated or truncated)

    @property
    def state(self):
        return self._state


if __name__ == "__main__":
    kind = Ours if len(sys.argv) > 4 else Echo
    app = create_fastapi_app(kind, EchoAction, EchoObservation, max_concurrent_envs=int(sys.argv[2]))
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), loop=sys.argv[3], log_level="critical")
