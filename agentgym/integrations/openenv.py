"""OpenEnv (0.10): our environments behind its server, and its servers here as environments.

from agentgym.integrations.openenv import app, remote
uvicorn.run(app("rlvr/SQL-v0"))                 # its clients, and trainers that use them, play ours
env = remote("http://localhost:8000")           # a server of theirs as an environment of ours; so does
env = agentgym.make("openenv:http://localhost:8000")
"""

# openenv is typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportUntypedBaseClass=false
# pyright: reportUnknownParameterType=false, reportIncompatibleMethodOverride=false, reportUnknownLambdaType=false

import json
from collections.abc import Mapping
from typing import Any

from openenv.core import GenericEnvClient
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from agentgym import registry
from agentgym.core.declared import Declarations
from agentgym.core.env import TextEnv
from agentgym.core.outcome import Outcome
from agentgym.core.tasks import Task
from agentgym.core.verdicts import amount
from agentgym.errors import BadConfig, Fault
from agentgym.rollout.session import Session


class TextAction(Action):
    """What an agent says to the environment: a command, or a call in one of our spellings."""

    text: str


class TextObservation(Observation):
    """What is seen; `metadata` has our info."""

    text: str = ""
    tools: list[dict[str, Any]] = []  # noqa: RUF012  # pydantic copies it
    """After a reset: what may be called, as JSON Schemas; empty where commands are taken."""


class TextState(State):
    """Where the episode stands."""

    task_id: str = ""
    success: bool | None = None
    reason: str | None = None


class ServedEnv(Environment[TextAction, TextObservation, TextState]):
    """One of our environments as OpenEnv has them; `reset(task=…, seed=…)` takes a task's id or number."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env: str, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._session = Session(env, **options)
        self._episode: str | None = None

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, task: str | int | None = None, **others: Any
    ) -> TextObservation:
        """Start an episode; `split` and `index` name a task as OpenEnv's own do."""
        env, split, index = self._session.env, others.get("split"), others.get("index")
        named = env.numbered(int(index or 0), split) if split is not None or index is not None else task
        text = self._session.reset(named, seed=seed or 0)
        self._episode = episode_id
        return self._observation(text, None, [tool.schema() for tool in env.tools.values()])

    def step(self, action: TextAction, timeout_s: float | None = None, **_: object) -> TextObservation:
        """Carry out an action; after the end nothing is done, and `done` stays."""
        paid = self._session.reward
        text = self._session.act(action.text)
        return self._observation(text, self._session.reward - paid, [])

    def _observation(self, text: str, reward: float | None, tools: list[dict[str, Any]]) -> TextObservation:
        session = self._session
        info = {"reason": session.reason, "success": session.success, "error": session.error}
        told = json.loads(json.dumps({**session.info, **info}, default=str))
        return TextObservation(text=text, done=session.done, reward=reward, metadata=told, tools=tools)

    @property
    def state(self) -> TextState:
        """Where the episode stands."""
        session = self._session
        return TextState(
            episode_id=self._episode,
            step_count=session.turns,
            task_id=session.task.id,
            success=session.success,
            reason=session.reason,
        )

    def list_splits(self) -> list[str]:
        """Return the names of the splits."""
        return list(self._session.env.splits)

    def num_tasks(self, split: str) -> int:
        """Return how many tasks a split has; of generated ones there is no end."""
        size = self._session.env.size(split)
        if size is None:
            raise ValueError(f"split {split!r} is generated: tasks 0, 1, 2 … without end")
        return size

    def get_task(self, split: str, index: int) -> dict[str, object]:
        """Return what is told of a task: nothing of its answer."""
        task = self._session.env.numbered(index, split)
        return {"id": task.id, "index": index, "instruction": task.instruction}

    def close(self) -> None:
        """Free the environment."""
        self._session.close()


def app(env: str, *, sessions: int = 64, **options: object) -> Any:
    """Return OpenEnv's FastAPI application over an environment of ours, for `sessions` clients at a time."""

    def made() -> ServedEnv:
        return ServedEnv(env, options)

    return create_fastapi_app(
        made, TextAction, TextObservation, max_concurrent_envs=sessions, env_name=env, state_cls=TextState
    )


def registered(url: str) -> str:
    """Return the id of a server, which is registered when it is first asked for."""
    return registry.register_foreign("openenv", url, f"{__name__}:RemoteTextEnv", url=url)


def remote(url: str, **options: Any) -> "RemoteTextEnv":
    """Return an OpenEnv server as an environment: see `RemoteTextEnv`."""
    return RemoteTextEnv(url=url, **options)


class RemoteTextEnv(TextEnv):
    """An environment behind an OpenEnv server (`url`).

    An observation is shown as the text of its field `text`, else as JSON, and an action is JSON of the server's action, or
    plain text where that has one required field. Tasks are numbers, which the server is given as `seed`. It says nothing of
    success: an episode whose rewards reach `success_at` has it. Snapshots, state keys and an oracle there are none of.
    """

    settings = ("url", "success_at", "reset_options")
    task_settings = ("success_at",)
    caller_settings = ("url", "reset_options")
    url: str = ""
    success_at: float = 1.0
    declared = Declarations(random_bound=1.0)  # nobody has declared one
    reset_options: Mapping[str, Any] = {}
    """More for the server's reset."""
    blocking = True
    snapshot_kind = "replay"

    def setup(self) -> None:
        """Connect, and learn what an action looks like."""
        if not self.url:
            raise BadConfig("say which server: url='http://localhost:8000'")
        import httpx

        self._client: Any = None
        try:
            schema = httpx.get(f"{self.url.rstrip('/')}/schema", timeout=30).raise_for_status().json()
        except httpx.HTTPError as error:
            raise BadConfig(f"no OpenEnv server answers at {self.url}: {error}") from error
        self._action: dict[str, Any] = schema["action"]

    @staticmethod
    def generate(rng: Any, difficulty: int) -> Task:
        """Draw a seed."""
        return Task(data={"seed": int(rng.integers(2**31))})

    def begin(self, task: Task) -> str:
        """Reset the server's environment."""
        self.paid = 0.0
        if self._client is None:
            self._client = self._asked(lambda: GenericEnvClient(base_url=self.url).sync())
            self._asked(lambda: self._client.connect())
        result = self._asked(lambda: self._client.reset(seed=task.data["seed"], **self.reset_options))
        return self._text(result.observation)

    def act(self, action: str) -> Outcome:
        """Take a step there."""
        payload = self._payload(action)
        if isinstance(payload, str):
            return self.invalid(payload)
        result = self._asked(lambda: self._client.step(payload))
        self.paid += self._asked(lambda: amount(0.0 if result.reward is None else result.reward, "its reward"))
        text = self._text(result.observation)
        if result.done:
            return self.win(text) if self.paid >= self.success_at else self.lose(text)
        return Outcome(text, measures={"reward": self.paid})

    def _payload(self, action: str) -> dict[str, object] | str:
        """Return an action as the server's object, or what is wrong with it."""
        required = [name for name in self._action.get("required", []) if name != "metadata"]
        try:
            read = json.loads(action)
        except (ValueError, RecursionError):
            read = action
        if isinstance(read, dict):
            return read
        if len(required) == 1:
            return {required[0]: read if isinstance(read, str) else action}
        return f"an action is a JSON object with {', '.join(required) or 'the fields of the server'}"

    def _text(self, observation: object) -> str:
        if isinstance(observation, dict) and isinstance(observation.get("text"), str):
            return observation["text"]
        return json.dumps(observation, ensure_ascii=False, default=str)

    def _asked(self, ask: Any) -> Any:
        try:
            return ask()
        except Exception as error:  # its client's own, the socket's, the server's
            raise Fault(f"the OpenEnv server at {self.url} failed: {str(error)[:300]}") from error

    def close(self) -> None:
        """End the connection."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
