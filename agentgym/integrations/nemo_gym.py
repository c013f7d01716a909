"""A NeMo Gym (0.7) resources server as an agentgym environment: `agentgym.make("nemo_gym:NAME_OR_FOLDER")`.

The server's own application runs in this process and receives the requests that NeMo Gym's agents send: `seed_session`,
tools and `verify`, or `reset` and `step` for a Gymnasium server. Tasks are the rows of its data file.
"""

# nemo_gym is typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportUnknownParameterType=false

import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, cast

from fastapi.testclient import TestClient
from nemo_gym.base_resources_server import SimpleResourcesServer
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf

from agentgym import registry
from agentgym.core.actions import Call, Tool, parse_call, spell
from agentgym.core.declared import Declarations
from agentgym.core.env import MAX_ACTION, TextEnv
from agentgym.core.harmless import TEXTS, controls
from agentgym.core.outcome import Outcome
from agentgym.core.tasks import Task
from agentgym.core.verdicts import amount
from agentgym.errors import RULED_OUT, BadConfig, BadData, Fault, Reason

Row = dict[str, Any]
"""A JSON object in NeMo Gym's format."""
SERVER = 500
"""Lowest HTTP status that means the server failed; lower error statuses mean the request was wrong."""
ANSWER = "answer"
"""Tool that ends an episode in an environment with tools; in NeMo Gym a message without a tool call does that."""


def registered(folder: str) -> str:
    """Return the environment id of a resources server, and register it on the first call."""
    place = Path(folder).expanduser()
    whole = str(place.resolve()) if (place / "app.py").is_file() else folder
    return registry.register_foreign("nemo_gym", whole, f"{__name__}:NeMoGymEnv", folder=whole)


class NeMoGymEnv(TextEnv, replaces=("_respond",)):
    """A resources server of NeMo Gym. An episode succeeds if its total reward reaches `success_at` (default: 1)."""

    task_settings: ClassVar[tuple[str, ...]] = ("success_at",)
    caller_settings: ClassVar[tuple[str, ...]] = ("folder", "data", "config")
    settings: ClassVar[tuple[str, ...]] = (*caller_settings, *task_settings)
    folder: str = ""
    """Name of a resources server that NeMo Gym ships, or a folder with `app.py`."""
    data: str = ""
    """Path of the tasks as JSON lines; if empty, `data/example.jsonl` of the server's folder."""
    config: Mapping[str, object] = {}
    """Fields of the server's configuration; they override those in its `configs/NAME.yaml`."""
    success_at: float = 1.0
    declared = Declarations(random_bound=1.0)  # nobody has declared one
    blocking = True
    snapshot_kind = "replay"
    splits: ClassVar[Mapping[str, float]] = {"all": 1.0}  # pyright: ignore[reportIncompatibleVariableOverride]
    split = "all"

    def setup(self) -> None:
        """Start the server's application in this process and read the tasks."""
        module, place = _module(self.folder)
        kind = _server(module, self.folder)
        self._steps = any("gymnasium" in base.__module__ for base in kind.__mro__)
        self._rows = _read(Path(self.data).expanduser() if self.data else place / "data" / "example.jsonl")
        self._app: Any = _made(kind, place, self.config).setup_webserver()
        self._client: Any = None
        self._accepted: dict[str, Row] = {}  # the last arguments that each tool accepted
        self._judgeable: list[str] = []  # the last message that the server judged or answered

    def size(self, split: str | None = None) -> int | None:
        """Return the number of rows in the data file."""
        return len(self._rows)

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return row `number` of the data file as a task, modulo the number of rows."""
        self._split_for(number, split)
        place = number % len(self._rows)
        row = self._rows[place]
        return Task(_instruction(row), {"row": row}, f"all/0/{place}", "all")

    def begin(self, task: Task) -> str:
        """Open a new session on the server and return the model's input."""
        self.actions: list[str] = []
        self.output: list[Row] = []
        self.paid = 0.0
        self.close()
        self._client = TestClient(self._app, raise_server_exceptions=False)
        row = task.data["row"]
        self.tools.clear()
        self.tools |= {tool.name: tool for tool in _tools(row)}
        opening = self._post("reset" if self._steps else "seed_session", row)
        seen = opening.get("observation") if self._steps else None
        return "\n\n".join(text for text in (_instruction(row), seen) if text)

    def _respond(self, action: str) -> Outcome:
        call = parse_call(action, self.tools) if self.tools and isinstance(action, str) and len(action) <= MAX_ACTION else ""  # pyright: ignore[reportUnnecessaryIsInstance]
        if not isinstance(call, Call):
            return super()._respond(action)  # reports what is wrong, or treats it as a message
        self.actions.append(action)
        return self.act(str(call.arguments["text"])) if call.name == ANSWER else self._called(call)

    def act(self, action: str) -> Outcome:
        """Send the agent's message: `verify` judges it, or `step` of a Gymnasium server answers it."""
        if not self.tools:
            self.actions.append(action)
        self._out({"type": "message", "role": "assistant", "status": "completed", "content": [_output_text(action)]})
        row = self.task.data["row"]
        if not self._steps:
            answer = self._answered("verify", row | {"response": self._response(self.output)})
            if answer is None:
                return self.lose("The verifier fails on this, and on no harmless answer.")
            return self._judged(answer, "")
        answer = self._answered("step", row | {"response": self._response(self.output[-1:])})
        if answer is None:
            return self.lose("The server fails on this message, and on no harmless one.")
        self.paid += self._reward(answer)
        seen = str(answer.get("observation") or "")
        if answer.get("terminated") or answer.get("truncated"):
            return self._judged({"reward": self.paid}, seen)
        return Outcome(seen, measures={"reward": self.paid})

    def _called(self, call: Call) -> Outcome:
        number = f"call_{len(self.output)}"
        arguments = json.dumps(call.arguments)
        self._out({"type": "function_call", "call_id": number, "name": call.name, "arguments": arguments})
        answer = self._client.post(f"/{call.name}", json=call.arguments)
        if answer.status_code >= SERVER:
            last = [self._accepted[call.name]] if call.name in self._accepted else []
            self._judge(call.name, [*last, *controls(self.tools[call.name].parameters)])
        self.output.append({"type": "function_call_output", "call_id": number, "output": answer.text})
        if not answer.is_success:
            return self.invalid(answer.text or f"{call.name} failed.")
        self._accepted[call.name] = call.arguments
        return Outcome(answer.text)

    def _judged(self, answer: Row, text: str) -> Outcome:
        if answer.get("mask_sample"):  # the server says that the reward is meaningless
            raise Fault(
                f"the server could not judge: {answer.get('failure_reason') or answer.get('failure_kind')}",
                reason=Reason.CRASH,
            )
        reward = self._reward(answer)
        text = text or f"Reward: {reward:g}"
        return self.win(text) if reward >= self.success_at else self.lose(text)

    def _reward(self, answer: Row) -> float:
        try:
            return 0.0 if answer.get("reward") is None else amount(answer["reward"], f"the reward of {self.folder}")
        except TypeError as error:
            raise Fault(str(error), reason=Reason.CRASH) from None

    def _out(self, item: Row) -> None:
        self.output.append({"id": f"item_{len(self.output)}", **item})

    def _response(self, output: list[Row]) -> Row:
        """Return the conversation as a response object of OpenAI's Responses API."""
        params = self.task.data["row"]["responses_create_params"]
        fixed = {"id": "resp_0", "created_at": 0.0, "model": "agentgym", "object": "response", "status": "completed"}
        settings = {
            name: params.get(name, other) for name, other in (("parallel_tool_calls", True), ("tool_choice", "auto"))
        }
        return {**fixed, **settings, "tools": params.get("tools") or [], "output": output}

    def _answered(self, where: str, body: Row) -> Row | None:
        """Send the conversation to the server and return its answer; None if only this conversation makes it fail."""
        answer = self._client.post(f"/{where}", json=body)
        if answer.is_success:
            self._judgeable = [body["response"]["output"][-1]["content"][0]["text"]]
            return _object(answer)
        plain = [
            {"type": "message", "role": "assistant", "status": "completed", "id": "item_0", "content": [_output_text(text)]}
            for text in (*TEXTS, *self._judgeable)
        ]
        self._judge(where, [self.task.data["row"] | {"response": self._response([item])} for item in plain])
        return None

    def _judge(self, where: str, bodies: Iterable[Row]) -> None:
        """After an error, send harmless requests in new sessions to find out if the agent or the server caused the error.

        Raises:
            Fault: every harmless request fails too.
        """
        why = ""
        for body in bodies:
            with TestClient(self._app, raise_server_exceptions=False) as client:
                opened = client.post("/reset" if self._steps else "/seed_session", json=self.task.data["row"])
                answer = client.post(f"/{where}", json=body) if opened.is_success else opened
            refused = where in self.tools and answer.status_code < SERVER  # a tool may refuse plain arguments
            if answer.is_success or (refused and opened.is_success):
                return
            why = why or f"{where} of {self.folder} answered {answer.status_code}: {answer.text[:300]}"
        raise Fault(f"{RULED_OUT}{why}", reason=Reason.CRASH)

    def _post(self, where: str, body: Row) -> Row:
        answer = self._client.post(f"/{where}", json=body)
        if not answer.is_success:
            raise Fault(f"{where} of {self.folder} answered {answer.status_code}: {answer.text[:300]}", reason=Reason.CRASH)
        return _object(answer)

    def save(self) -> list[str]:
        """Return the actions so far."""
        return list(self.actions)

    def load(self, payload: object) -> None:
        """Replay saved actions in a new session."""
        self.forget()
        self.begin(self.task)
        for action in cast("list[str]", payload):
            self._respond(action)

    def close(self) -> None:
        """End the session."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _output_text(text: str) -> Row:
    return {"type": "output_text", "text": text, "annotations": []}


def _object(answer: Any) -> Row:
    value = answer.json()
    return cast("Row", value) if isinstance(value, dict) else {}


def _module(folder: str) -> tuple[ModuleType, Path]:
    """Return the module of a server's `app.py`, and its folder.

    Raises:
        BadConfig: the folder or a package that it needs is missing.
    """
    place = Path(folder)
    if (place / "app.py").is_file():
        # NeMo Gym finds modules in these places too: the folder, and the root from which its imports are spelled.
        sys.path[:0] = [str(entry) for entry in (place, place.parent.parent) if str(entry) not in sys.path]
        spec = importlib.util.spec_from_file_location(f"nemo_gym_{place.name}_app", place / "app.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module, place
    try:
        module = importlib.import_module(f"resources_servers.{folder}.app")
    except ModuleNotFoundError as error:
        if not f"resources_servers.{folder}.app".startswith(str(error.name)):
            raise BadConfig(f"{folder} of NeMo Gym needs the module {error.name}: see its requirements.txt") from error
        raise BadConfig(
            f"no resources server {folder!r}: expected a folder with app.py, or a name of `gym list environments`"
        ) from None
    return module, Path(str(module.__file__)).parent


def _server(module: ModuleType, folder: str) -> type[Any]:
    """Return the server class that a module defines.

    Raises:
        BadConfig: the module does not define exactly one.
    """
    kinds = [
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, SimpleResourcesServer) and kind.__module__ == module.__name__
    ]
    kinds = [kind for kind in kinds if not any(kind is not other and issubclass(other, kind) for other in kinds)]
    if len(kinds) != 1:
        raise BadConfig(f"app.py of {folder} defines {len(kinds)} resources servers; expected one")
    return kinds[0]


def _made(kind: type[Any], place: Path, values: Mapping[str, object]) -> Any:
    """Return a server configured from its own YAML file, without values that are placeholders (`${…}`, `???`).

    `values` override the file.

    Raises:
        BadConfig: a required value is missing.
    """
    file = place / "configs" / f"{place.name}.yaml"
    written: dict[str, object] = {}
    if file.is_file():
        tables: Any = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
        servers = [table["resources_servers"] for table in tables.values() if "resources_servers" in (table or {})]
        written = {key: value for table in servers[:1] for entry in table.values() for key, value in entry.items()}
    usable = {key: value for key, value in written.items() if not any(mark in json.dumps(value) for mark in ("${", "???"))}
    fixed = {"name": place.name, "host": "127.0.0.1", "port": 1, "entrypoint": "app.py"}
    head = BaseServerConfig(host="127.0.0.1", port=1)
    try:
        config = kind.model_fields["config"].annotation(**{**usable, **fixed, **values})
        return kind(
            config=config, server_client=ServerClient(head_server_config=head, global_config_dict=OmegaConf.create({}))
        )
    except ValueError as error:  # from pydantic
        raise BadConfig(f"{place.name} cannot be configured: {error}; put the missing values into `config`") from error


def _read(file: Path) -> list[Row]:
    """Return the rows of a data file.

    Raises:
        BadData: the file cannot be read or is empty, or a row is malformed; the message names the line.
    """
    try:
        lines = file.read_bytes().split(b"\n")  # str.splitlines would also split inside texts
    except OSError as error:
        raise BadData(f"{file} cannot be read ({error.strerror}); give the tasks as data=FILE.jsonl") from None
    rows = list[Row]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8"))
            assert isinstance(row["responses_create_params"]["input"], str | list)
        except (ValueError, RecursionError, KeyError, TypeError, AssertionError):
            raise BadData(f"{file}, line {number}: expected an object with responses_create_params.input") from None
        rows.append(row)
    if not rows:
        raise BadData(f"{file} has no rows: expected a task a line")
    return rows


def _instruction(row: Row) -> str:
    """Return the messages at the start of a row as one text."""
    messages = row["responses_create_params"]["input"]
    if isinstance(messages, str):
        return messages
    texts = list[str]()
    for message in messages:
        content = message.get("content") or ""
        parts = [content] if isinstance(content, str) else [part.get("text") or "" for part in content]
        texts.append("".join(parts) if message.get("role") != "assistant" else "You said: " + "".join(parts))
    return "\n\n".join(text for text in texts if text)


def _tools(row: Row) -> list[Tool]:
    """Return the functions that a row offers, plus `answer`; empty if the row offers no functions."""
    offered = [tool for tool in row["responses_create_params"].get("tools") or [] if tool.get("type") == "function"]
    if not offered:
        return []
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    last = Tool(ANSWER, f"Say something to the user, which ends the episode: {spell(ANSWER, 'TEXT')}.", text)
    nothing: dict[str, object] = {"type": "object", "properties": {}, "required": []}
    return [
        *(Tool(tool["name"], tool.get("description") or "", tool.get("parameters") or nothing) for tool in offered),
        last,
    ]
