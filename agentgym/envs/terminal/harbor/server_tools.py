"""Tools of a task's MCP servers, offered in addition to the environment's own tools during an episode."""

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from agentgym.core.actions import Call, parse_call, unreadable
from agentgym.core.env import MAX_ACTION, Outcome
from agentgym.envs.terminal.harbor.servers import Server, Servers
from agentgym.errors import BadConfig, Fault
from agentgym.sandbox.env import SandboxEnv
from agentgym.sandbox.protocol import SandboxFault

USED_UP = "[the seconds that this task has for commands are used up: submit]"


class ServerCall(NamedTuple):
    """A call of a server's tool."""

    name: str
    arguments: str
    """Arguments as JSON."""


class ServerTools(SandboxEnv, replaces=("_respond",)):
    """Base class of environments with MCP servers in their container; they call `serve` when the container is ready.

    A call is an invalid action if it takes too long, if the tool or its server refuses it, or if the server has exited,
    possibly because of the agent. After an exit or a time-out, the next call reconnects.
    """

    max_chars: float = 8000

    def setup(self) -> None:
        super().setup()
        self._own_tools = dict(self.tools)
        self._servers: Servers | None = None
        self._serving: tuple[Any, ...] = ()

    def serve(self, listed: tuple[Server, ...], sandbox: Any, user: str, work: str, file: Path) -> None:
        """Connect to the servers in a container and offer their tools.

        Raises:
            SandboxFault: a server does not answer.
            BadConfig: the backend is not docker.
        """
        self._unserve()
        if listed and self.backend != "docker":
            raise BadConfig(f"MCP servers in the container need backend='docker', not {self.backend!r}")
        self._serving = (listed, sandbox, user, work, file)
        self._connect()
        self.tools.clear()  # updated in place
        self.tools.update(self._own_tools | (self._servers.tools if self._servers else {}))

    def _connect(self) -> None:
        if not self._serving or not self._serving[0]:
            return
        try:
            self._servers = Servers(*self._serving, reserved=tuple(self._own_tools))
        except Fault as error:
            raise SandboxFault(str(error)) from error

    def _unserve(self) -> None:
        servers, self._servers = self._servers, None
        if servers is not None:
            servers.close()

    def _respond(self, action: str) -> Outcome:
        if not unreadable(action, MAX_ACTION):
            call = parse_call(action, self.tools)
            if isinstance(call, Call) and call.name not in self._own_tools:
                return self.call_server(ServerCall(call.name, json.dumps(call.arguments, sort_keys=True)))
        return super()._respond(action)

    def call_server(self, call: ServerCall) -> Outcome:
        """Call a server's tool and return its result."""
        started, seconds = time.monotonic(), self.seconds_left()
        if not seconds > 0:
            return self.invalid(USED_UP)
        try:
            if self._servers is None:
                self._connect()
            text, failed = self.called(call, seconds)
        except TimeoutError:
            self._unserve()
            text, failed = f"{call.name} took longer than {seconds:g} seconds and was broken off.", True
        except Fault as error:
            self._unserve()
            text, failed = f"{call.name} failed: {error}", True
        self.spent(call, time.monotonic() - started)
        half = int(self.max_chars) // 2
        if len(text) > 2 * half:
            text = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
        return self.invalid(text) if failed else Outcome(text)

    def called(self, call: ServerCall, seconds: float) -> tuple[str, bool]:
        """Call a tool; return its text, and True if the call failed."""
        if self._servers is None or call.name not in self._servers.tools:
            return f"{call.name} is not offered any more: its server has changed.", True
        return self._servers.call(call.name, json.loads(call.arguments), seconds)

    def seconds_left(self) -> float:
        """Return the time limit of the next command or call, in seconds."""
        raise NotImplementedError

    def spent(self, call: ServerCall, seconds: float) -> None:
        """Record a call and its duration in seconds."""
        raise NotImplementedError

    def _drop(self) -> None:
        self._unserve()
        super()._drop()
