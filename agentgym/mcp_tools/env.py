"""Base class of environments whose tools come from an MCP server."""

import hashlib
import importlib.util
import json
import time
import weakref
from contextlib import ExitStack, closing
from typing import Any, ClassVar, NamedTuple

from agentgym.core.actions import Call, parse_call, tool
from agentgym.core.env import MAX_ACTION, Outcome, TextEnv
from agentgym.core.harmless import controls
from agentgym.core.tasks import Task
from agentgym.core.verdicts import ended
from agentgym.errors import RULED_OUT, BadConfig, Fault, MissingExtra, Reason, how_to_install
from agentgym.mcp_tools.connection import PREFIX, TOO_LONG, Connection, ServerError


class CompletedCall(NamedTuple):
    """A tool call that was carried out, with its arguments as JSON."""

    name: str
    arguments: str
    digest: str
    """Hash of the result's text."""


class McpEnv(TextEnv, replaces=("_respond",)):
    """An environment with the tools of an MCP server, and the tool `answer`, which ends the episode.

    A subclass defines `judge(answer)` and where tasks come from. Every episode has its own server process, or its own
    session of a server at an address. A call that takes longer than `call_seconds`, or that the tool or the server
    refuses, is an invalid action. So is an error of the server, unless harmless calls of the tool fail too: plain
    arguments that fit its schema, and the last call that succeeded. In that case, or if the server dies, the episode ends
    as a fault. A snapshot is the log of calls; restoring it repeats them and compares their results.
    """

    blocking = True
    snapshot_kind = "replay"
    task_settings: ClassVar[tuple[str, ...]] = ("max_chars",)
    caller_settings: ClassVar[tuple[str, ...]] = ("tool_server", "call_seconds")
    settings: ClassVar[tuple[str, ...]] = (*caller_settings, *task_settings)
    tool_server: str = ""
    """The server: `mcp:COMMAND`, or `mcp:http://HOST/mcp`."""
    call_seconds: float = 20.0
    """Maximum seconds for a call."""
    max_chars: int = 16_000
    """Maximum characters of a result; the middle of a longer one is cut."""

    def judge(self, answer: str) -> bool:
        """Return True if an answer to the current task is right; subclasses must define this."""
        raise NotImplementedError(f"{type(self).__name__} must define judge(answer)")

    def opening(self, task: Task) -> str:
        """Return the first observation of a task, by default its instruction."""
        return task.instruction

    @tool
    def answer(self, text: str) -> Outcome:
        """Give the final answer, which ends the episode."""
        right = ended(self.judge(text), f"judge of {type(self).__name__}")
        return self.win("Right.") if right else self.lose("Wrong.")

    def requires(self) -> None:
        """Check that the package `mcp` is installed.

        Raises:
            MissingExtra: the package is not installed.
        """
        super().requires()
        if importlib.util.find_spec("mcp") is None:
            raise MissingExtra(f"tools of MCP servers need the package mcp: {how_to_install('mcp')}")

    def check_options(self) -> None:
        super().check_options()
        if not self.tool_server.startswith(PREFIX) or not self.call_seconds > 0 or self.max_chars < 100:
            raise BadConfig(
                f"tool_server is {self.tool_server!r:.80}, call_seconds {self.call_seconds}, max_chars {self.max_chars}; "
                "expected 'mcp:COMMAND' or 'mcp:http://HOST/mcp', seconds above 0, and at least 100 characters"
            )

    def setup(self) -> None:
        """Start the server and read its tools; an override must call this method.

        Raises:
            BadConfig: a tool has the same name as one of the environment's own tools.
        """
        self._connections: list[tuple[Connection, tuple[CompletedCall, ...]]] = []
        """The running episode's server with the calls made on it; at most one entry."""
        weakref.finalize(self, _drop, self._connections)
        first = Connection(self.tool_server)
        self._remote = dict(first.tools)
        self._connections.append((first, ()))
        self._accepted: dict[str, dict[str, object]] = {}  # arguments of each tool's last successful call
        if clashing := self._remote.keys() & self.tools.keys():
            _drop(self._connections)
            raise BadConfig(f"{self.tool_server} offers {sorted(clashing)}, which the environment has itself")
        self.tools |= self._remote

    def begin(self, task: Task) -> str:
        self.log: tuple[CompletedCall, ...] = ()
        self._alive()
        return self.opening(task)

    def state(self) -> object:
        return self.log

    def close(self) -> None:
        """Close the server."""
        _drop(self._connections)

    def _respond(self, action: str) -> Outcome:
        call = parse_call(action, self.tools) if isinstance(action, str) and len(action) <= MAX_ACTION else ""  # pyright: ignore[reportUnnecessaryIsInstance]
        if isinstance(call, Call) and call.name in self._remote:
            return self._called(call.name, json.dumps(call.arguments, sort_keys=True))
        return super()._respond(action)

    def _called(self, name: str, arguments: str) -> Outcome:
        connection = self._alive()
        _, log = self._connections.pop()
        try:
            text, failed = connection.call(name, json.loads(arguments), self.call_seconds)
        except TimeoutError:  # its effect is unknown: the server is replaced, and the log is replayed
            connection.close()
            return self.invalid(f"{name} took longer than {self.call_seconds:g} seconds and was broken off.")
        except ServerError as error:
            connection.close()
            self._judge_error(name, error)
            return self.invalid(str(error))
        except Fault:
            connection.close()
            raise
        done = CompletedCall(name, arguments, hashlib.blake2b(text.encode(), digest_size=8).hexdigest())
        self.log = (*self.log, done)
        self._connections.append((connection, (*log, done)))
        if not failed:
            self._accepted[name] = json.loads(arguments)
        shortened = self._cut(text)
        return self.invalid(shortened) if failed else Outcome(shortened)

    def _judge_error(self, name: str, error: ServerError) -> None:
        """After an error, make harmless calls on new servers to find out if the agent or the server caused it.

        Raises:
            Fault: every harmless call fails as well.
        """
        plain = controls(self._remote[name].parameters)
        last = [self._accepted[name]] if name in self._accepted else []
        deadline = time.monotonic() + 2 * self.call_seconds
        with ExitStack() as servers:
            fresh: Connection | None = None
            for arguments in [*last, *plain]:
                fresh = fresh or servers.enter_context(closing(Connection(self.tool_server)))
                try:
                    fresh.call(name, arguments, self.call_seconds)
                    return
                except (Fault, TimeoutError) as failure:
                    if not isinstance(failure, ServerError) or TOO_LONG in str(failure):
                        fresh = None  # its connection has ended
                if time.monotonic() > deadline:
                    break
        raise Fault(f"{RULED_OUT}{error}", reason=Reason.CRASH) from error

    def _cut(self, text: str) -> str:
        if len(text) <= self.max_chars:
            return text
        half = self.max_chars // 2
        return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"

    def _alive(self) -> Connection:
        """Return a server on which exactly this episode's calls were made; if necessary, start one and replay them.

        Raises:
            Fault: the replay took too long or returned different results.
        """
        if self._connections and self._connections[0][1] == self.log:
            return self._connections[0][0]
        _drop(self._connections)
        connection = Connection(self.tool_server)
        try:
            for done in self.log:
                text, _ = connection.call(done.name, json.loads(done.arguments), self.call_seconds)
                if hashlib.blake2b(text.encode(), digest_size=8).hexdigest() != done.digest:
                    raise Fault(
                        f"the episode could not be brought back: {done.name} returned something else", reason=Reason.CRASH
                    )
        except TimeoutError:
            connection.close()
            raise Fault("the episode could not be brought back: a call took too long", reason=Reason.TIMEOUT) from None
        except Fault:
            connection.close()
            raise
        self._connections.append((connection, self.log))
        return connection


def _drop(servers: list[tuple[Connection, Any]]) -> None:
    while servers:
        servers.pop()[0].close()
