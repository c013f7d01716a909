"""OpenEnv (0.10): serve our environments to its clients (`app`), and use its servers as environments here (`remote`).

`agentgym.make("openenv:http://localhost:8000")` is the same as `remote("http://localhost:8000")`.
"""

# openenv is typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportUntypedBaseClass=false
# pyright: reportUnknownParameterType=false, reportIncompatibleMethodOverride=false, reportUnknownLambdaType=false

import contextlib
import json
import re
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from openenv.core import GenericEnvClient
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State, WSErrorCode
from websockets.exceptions import ConnectionClosed

from agentgym import registry
from agentgym.core.declared import Declarations
from agentgym.core.env import TextEnv
from agentgym.core.harmless import controls
from agentgym.core.outcome import Outcome
from agentgym.core.tasks import Task
from agentgym.core.verdicts import amount
from agentgym.errors import RULED_OUT, BadConfig, Fault
from agentgym.rollout.session import Session

JsonMapping = Mapping[str, Any]
JsonObject = dict[str, Any]

LONGEST = 100_000
"""Maximum characters of an observation that is shown; the middle of a longer one is cut."""
LARGEST = 16 << 20  # maximum bytes of one message from a server
MOST = 2000  # maximum characters of a server's error in messages
REFUSED = ("invalid_args", "tool_not_found", "execution_error", "timeout")
"""Error types that count as the agent's, in an observation of a server with tools; `transport_error` is the server's."""
PATIENCE = 5.0  # seconds within which a server should notice that a session has ended


class TextAction(Action):
    """An agent's action: a command, or a tool call in one of our three spellings."""

    text: str


class TextObservation(Observation):
    """An observation for an agent; `metadata` contains our info."""

    text: str = ""
    tools: list[JsonObject] = []  # noqa: RUF012  # pydantic copies it
    """Tools as JSON Schemas, filled after a reset only; empty for an environment that takes commands."""


class TextState(State):
    """State of the episode: its task, and how it ended (None while it runs)."""

    task_id: str = ""
    success: bool | None = None
    reason: str | None = None


class ServedEnv(Environment[TextAction, TextObservation, TextState]):
    """One of our environments as an OpenEnv environment; `reset(task=…, seed=…)` takes a task's id or number."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env: str, options: JsonMapping) -> None:
        super().__init__()
        self._session = Session(env, **options)
        self._episode: str | None = None

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, task: str | int | None = None, **others: Any
    ) -> TextObservation:
        """Start an episode; `split` and `index` select a task as in OpenEnv's own environments.

        `injected_state={"task": ID, "actions": [TEXT, …]}` replays the actions; the first observation then has their reward.
        """
        env, split, index = self._session.env, others.get("split"), others.get("index")
        state = others.get("injected_state") or {}
        named = env.numbered(int(index or 0), split) if split is not None or index is not None else state.get("task", task)
        text = self._session.reset(named, seed=seed or 0)
        self._episode = episode_id
        for action in state.get("actions", ()):
            text = self._session.act(action)
        reward = self._session.reward if state else None
        return self._observation(text, reward, [tool.schema() for tool in env.tools.values()])

    def step(self, action: TextAction, timeout_s: float | None = None, **_: object) -> TextObservation:
        """Carry out an action; after the end of the episode, do nothing and return `done=True` again."""
        paid = self._session.reward
        text = self._session.act(action.text)
        return self._observation(text, self._session.reward - paid, [])

    def _observation(self, text: str, reward: float | None, tools: list[JsonObject]) -> TextObservation:
        session = self._session
        info = {"reason": session.reason, "success": session.success, "error": session.error}
        public = json.loads(json.dumps({**session.info, **info}, default=str))
        return TextObservation(text=text, done=session.done, reward=reward, metadata=public, tools=tools)

    @property
    def state(self) -> TextState:
        """State of the current episode."""
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
        """Return the number of tasks in a split.

        Raises:
            ValueError: the split's tasks are generated, so their number is unbounded.
        """
        size = self._session.env.size(split)
        if size is None:
            raise ValueError(f"split {split!r} is generated: tasks 0, 1, 2 … without end")
        return size

    def get_task(self, split: str, index: int) -> dict[str, object]:
        """Return the public data of a task, without its answer."""
        task = self._session.env.numbered(index, split)
        return {"id": task.id, "index": index, "instruction": task.instruction}

    def close(self) -> None:
        """Close the session and its environment."""
        self._session.close()


def app(env: str, *, sessions: int = 64, **options: object) -> Any:
    """Return OpenEnv's FastAPI application for an environment; `sessions` is the maximum number of concurrent clients."""
    return create_fastapi_app(
        partial(ServedEnv, env, options),
        TextAction,
        TextObservation,
        max_concurrent_envs=sessions,
        env_name=re.sub(r"[^\w.-]+", "-", env),
        state_cls=TextState,
    )


def registered(url: str) -> str:
    """Return the environment id of a server, and register it on the first call."""
    return registry.register_foreign("openenv", url, f"{__name__}:RemoteTextEnv", url=url)


def remote(url: str, **options: Any) -> "RemoteTextEnv":
    """Return an OpenEnv server as an environment; the options are those of `RemoteTextEnv`."""
    return RemoteTextEnv(url=url, **options)


class ServerError(Exception):
    """Error message that a server sent instead of an observation."""

    def __init__(self, data: JsonMapping) -> None:
        self.code = str(data.get("code", "UNKNOWN"))
        wrong: list[JsonObject] = data.get("errors") or []
        fields = [f"{'.'.join(map(str, each.get('loc', ())))}: {each.get('msg')}" for each in wrong]
        self.fields = {str(each["loc"][0]) for each in wrong if each.get("loc")}
        """Names of the action's fields that the server found invalid."""
        super().__init__("; ".join([str(data.get("message", "unknown error")), *fields])[:MOST])


class _Client(GenericEnvClient):
    """OpenEnv's client, with errors that preserve the server's code and the names of invalid fields."""

    async def _send_and_receive(self, message: JsonObject) -> JsonObject:
        with contextlib.suppress(ConnectionClosed):  # a refused connection still has an answer to read
            await self._send(message)
        response = await self._receive()
        if response.get("type") == "error":
            raise ServerError(response.get("data") or {})
        return response


class RemoteTextEnv(TextEnv):
    """An environment behind an OpenEnv server at `url`.

    An observation is the text in the server's field `text`, otherwise the whole observation as JSON. An action is a JSON
    object, or plain text if only one field is required. Tasks are numbers, sent to the server as `seed`. Servers report no
    success: an episode succeeds if the sum of its rewards reaches `success_at`. There are no snapshots, state keys or
    oracle.

    An action that the server finds invalid is an invalid action here. After any other error, harmless actions are tried in
    new sessions: `harmless_action`, and the last action that the server carried out. If all of them fail too, the episode
    ends as an infrastructure error.
    """

    task_settings = ("success_at",)
    caller_settings = ("url", "reset_options", "harmless_action")
    settings = (*caller_settings, *task_settings)
    url: str = ""
    success_at: float = 1.0
    declared = Declarations(random_bound=1.0)  # nobody has declared one
    reset_options: Mapping[str, Any] = {}
    """More options for the server's reset."""
    harmless_action: JsonMapping | None = None
    """Action that a working server always carries out; None: plain actions made from the server's schema."""
    blocking = True
    snapshot_kind = "replay"

    def setup(self) -> None:
        """Read the schema of an action from the server.

        Raises:
            BadConfig: the address is missing, or no server answers there.
        """
        if not self.url:
            raise BadConfig("say which server: url='http://localhost:8000'")
        import httpx

        self._client: Any = None
        try:
            with httpx.stream("GET", f"{self.url.rstrip('/')}/schema", timeout=30) as answer:
                content = next(answer.raise_for_status().iter_bytes(LARGEST), b"")  # a longer one is cut: invalid JSON
            self._action: JsonObject = dict(json.loads(content)["action"])
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError, KeyError, RecursionError) as error:
            raise BadConfig(f"no OpenEnv server answers at {self.url}: {error!r:.300}") from error
        self._accepted: list[JsonMapping] = []  # the last action that the server carried out, in any episode

    def _connection(self) -> Any:
        return _Client(base_url=self.url, max_message_size_mb=LARGEST >> 20).sync()

    @staticmethod
    def generate(rng: Any, difficulty: int) -> Task:
        """Draw a task: a seed for the server."""
        return Task(data={"seed": int(rng.integers(2**31))})

    def begin(self, task: Task) -> str:
        """Reset the server's environment with the task's seed and return the first observation."""
        self.paid = 0.0
        if self._client is not None:
            with contextlib.suppress(Exception):  # the server may have ended the session
                return self._reset(task)
            self.close()
        self._client = self._call(self._connection)
        self._call(lambda: self._client.connect())
        return self._call(lambda: self._reset(task))

    def _reset(self, task: Task) -> str:
        return self._text(self._client.reset(seed=task.data["seed"], **self.reset_options).observation)

    def act(self, action: str) -> Outcome:
        """Send an action to the server and return the outcome of its step."""
        payload = self._payload(action)
        if isinstance(payload, str):
            return self.invalid(payload)
        try:
            json.dumps(payload, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError) as error:
            return self.invalid(f"the action cannot be sent: {error}")
        try:
            result = self._client.step(payload)
        except ServerError as error:
            return self._judged(error, payload)
        except Exception as error:  # the connection is lost: the rollout finds out the cause
            raise self._fault(error) from error
        if wrong := _refused(result.observation):
            return self._judged(ServerError({"code": wrong[0], "message": wrong[1]}), payload)
        self._accepted = [payload]
        self.paid += self._call(lambda: amount(0.0 if result.reward is None else result.reward, "its reward"))
        text = self._text(result.observation)
        if result.done:
            return self.win(text) if self.paid >= self.success_at else self.lose(text)
        return Outcome(text, measures={"reward": self.paid})

    def _payload(self, action: str) -> dict[str, object] | str:
        """Return an action as a JSON object for the server, or a description of what is wrong with it."""
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
        plain = observation.get("text") if isinstance(observation, dict) else None
        text = plain if isinstance(plain, str) else json.dumps(observation, ensure_ascii=False, default=str)
        half = LONGEST // 2
        if len(text) <= LONGEST:
            return text
        return f"{text[:half]}\n[{len(text) - LONGEST} characters left out]\n{text[-half:]}"

    def _invalid(self, error: ServerError, action: JsonMapping) -> bool:
        """Return True if a validation error is about the action and not about an observation that the server made."""
        known = {*action, *self._action.get("properties", {})}
        return error.code == WSErrorCode.VALIDATION_ERROR and (not error.fields or not known.isdisjoint(error.fields))

    def _judged(self, error: ServerError, action: JsonMapping) -> Outcome:
        """Return the outcome of an error that the action caused: invalid, or lost if the server has a single session.

        Raises:
            Fault: every harmless action fails as well.
        """
        if self._invalid(error, action) or error.code in REFUSED:
            return self.invalid(str(error))
        try:
            self._control(0.0)
        except ServerError as refusal:
            if refusal.code != WSErrorCode.CAPACITY_REACHED:
                raise Fault(f"{RULED_OUT}{self._fault(refusal)}") from error
            self.health_check()  # it closes this episode's session
            return self.lose(f"{error} The server holds one session, which ended here.")
        return self.invalid(str(error))

    def health_check(self) -> None:
        """Close the episode's session and carry out a harmless action in a new session.

        Raises:
            Fault: every harmless action fails.
        """
        self.close()
        try:
            self._control(PATIENCE)
        except ServerError as error:
            raise Fault(f"{RULED_OUT}{self._fault(error)}") from error

    def _control(self, patience: float) -> None:
        """Carry out harmless actions, each in a new session, until one succeeds; wait `patience` seconds for a free session.

        Raises:
            ServerError: every action failed, the last one with an error from the server.
            Fault: every action failed, the last one without an answer from the server.
        """
        plain = controls(self._action) if self.harmless_action is None else [self.harmless_action]
        *others, last = [*plain, *self._accepted]
        for action in others:
            with contextlib.suppress(ServerError, Fault):
                self._carried_out(action, patience)
                return
        self._carried_out(last, patience)

    def _carried_out(self, action: JsonMapping, patience: float) -> None:
        """Carry out one action in a new session; wait up to `patience` seconds while the server has none free.

        Raises:
            ServerError: the server answers with an error that is not about the action.
            Fault: the server does not answer.
        """
        deadline = time.monotonic() + patience
        while True:
            try:
                with self._connection() as client:
                    client.reset(seed=self.task.data.get("seed", 0), **self.reset_options)
                    observation = client.step(cast("JsonObject", action)).observation
                break
            except ServerError as error:
                if self._invalid(error, action):
                    return
                if error.code != WSErrorCode.CAPACITY_REACHED or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            except Exception as error:  # of the client or the socket
                raise self._fault(error) from error
        if (wrong := _refused(observation)) and wrong[0] not in REFUSED:
            raise ServerError({"code": wrong[0], "message": wrong[1]})

    def _call(self, ask: Any) -> Any:
        try:
            return ask()
        except Exception as error:  # of the client, the socket or the server
            raise self._fault(error) from error

    def _fault(self, error: Exception) -> Fault:
        return Fault(f"the OpenEnv server at {self.url} failed: {str(error)[:300]}")

    def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):  # the server may have ended it
                client.close()


def _refused(observation: object) -> tuple[str, str] | None:
    """Return type and message of a tool call's error in an observation; None if there is no error."""
    error = observation.get("error") if isinstance(observation, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("error_type"), str):
        return None
    return error["error_type"], str(error.get("message", ""))
