"""An environment as an MCP server with its tools (or one tool `act`) and `reset`; the package `mcp` does the protocol."""

import importlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym.core.actions import Tool
from agentgym.env_server.requests import action_of, authorize
from agentgym.env_server.sessions import DECIDED, Session, Sessions
from agentgym.errors import BadConfig, MissingExtra, how_to_install
from agentgym.serving.asgi import Receive, Refusal, Send, headers_of, send_json

JsonObject = dict[str, Any]

_NAME = 16
"""Minimum characters of a session's name in an address, so that others cannot guess it."""
_TEXT = {"type": "object", "properties": {"action": {"type": "string"}}, "required": ["action"]}
_TASK = {"seed": {"type": "integer", "minimum": 0}, "task": {"type": "string", "description": "id of a task"}}


class McpServer:
    """Serves an environment's tools to MCP clients; `fixed` is a `seed` or `task` that clients cannot choose themselves.

    Over stdio, a process is one session. Over HTTP, the session is named in the address (`/mcp?session=NAME`) or, for
    clients of protocols before 2026-07-28, in the header `Mcp-Session-Id`. Results contain the observation and whether
    the episode is over, and with `rewards` the reward. Every finished episode is a line of the file `out`, which
    numbers the tries at a task. With `fixed`, all sessions together may start at most `tries` episodes, because an
    agent that has learned the answer must not play again.
    """

    def __init__(
        self,
        sessions: Sessions,
        name: str,
        *,
        rewards: bool = False,
        fixed: Mapping[str, object] | None = None,
        out: str | Path | None = None,
        tries: int | None = None,
    ) -> None:
        if tries is not None and not (fixed and tries >= 1):
            raise BadConfig(f"--tries is {tries}; expected at least 1, and --task or --seed, whose episodes it counts")
        self.sessions, self.name, self.rewards = sessions, name, rewards
        self._fixed, self._out = dict(fixed or {}), out
        self._named: dict[str, Session] = {}
        self._totals: dict[str, float] = {}
        self._tries = Counter[str]()
        """Number of episodes started by task id, without those that ended with an infrastructure error."""
        self._number: dict[str, int] = {}
        """Number of the current try at its task, by session id."""
        self._left = (tries or 1) if fixed else math.inf
        self._granted = self._left
        tools = sessions.probe.tools
        self.reset_name = "reset" if "reset" not in tools else "reset_episode"

    def server(self) -> Any:
        """Return the server object of the package `mcp`.

        Raises:
            MissingExtra: the package mcp is not installed.
        """
        try:
            lowlevel: object = importlib.import_module("mcp.server.lowlevel")
            types: object = importlib.import_module("mcp_types")
        except ImportError as error:
            raise MissingExtra(f"an MCP server needs the package mcp: {how_to_install('mcp')}") from error

        async def list_tools(context: Any, _: object) -> Any:
            return types.ListToolsResult(tools=[types.Tool(**tool) for tool in self.tools(_session_name(context))])

        async def call_tool(context: Any, params: Any) -> Any:
            text, facts, failed = await self.call(_session_name(context), params.name, params.arguments or {})
            content = [types.TextContent(text=text.encode("utf-8", "replace").decode())]
            return types.CallToolResult(content=content, structured_content=facts, is_error=failed)

        how = f"Call {self.reset_name} first: it returns the task. Then use the other tools until the episode is over."
        return lowlevel.Server(self.name, instructions=how, on_list_tools=list_tools, on_call_tool=call_tool)

    def tools(self, name: str = "") -> list[JsonObject]:
        """Return the tools as MCP descriptions; in a session with an episode, those of its task."""
        choices = {name: schema for name, schema in _TASK.items() if not self._fixed}
        starts = {
            "name": self.reset_name,
            "description": "Start an episode, and return its task and first observation.",
            "input_schema": {"type": "object", "properties": choices},
        }
        offered = self._offered(name).values()
        if not offered:
            act = {"name": "act", "description": "Carry out one action, and return what is observed.", "input_schema": _TEXT}
            return [starts, act]
        return [
            starts,
            *({"name": t.name, "description": t.description, "input_schema": dict(t.parameters)} for t in offered),
        ]

    async def call(self, name: str, tool: str, arguments: dict[str, object]) -> tuple[str, dict[str, object] | None, bool]:
        """Carry out a tool call; return its text, its structured content (None after a failure), and True if it failed.

        Raises:
            Refusal: internally only; the caller gets a failed result with the reason as text.
        """
        try:
            if len(name) < _NAME:
                raise Refusal(400, f"name a session of at least {_NAME} random characters in the address: /mcp?session=NAME")
            if tool == self.reset_name:
                return self._content(await self._begun(name, arguments), name)
            self._running(name)
            action: object = {"name": tool, "arguments": arguments}
            tools = self._offered(name)
            if not tools:
                if tool != "act":
                    raise Refusal(404, f"there is no tool {tool[:40]!r}; the tools are {self.reset_name} and act")
                action = arguments.get("action")
            return await self._stepped(name, action_of(action, tools))
        except Refusal as refusal:
            return refusal.detail, None, True

    async def act(self, name: str, action: str) -> tuple[str, dict[str, object] | None, bool]:
        """Carry out an action in the environment's own syntax; the result is like that of `call`."""
        try:
            return await self._stepped(name, action)
        except Refusal as refusal:
            return refusal.detail, None, True

    async def _stepped(self, name: str, action: str) -> tuple[str, dict[str, object], bool]:
        return self._content(await self.sessions.step(self._running(name), action), name)

    def _running(self, name: str) -> Session:
        """Return the open session with this name.

        Raises:
            Refusal: no episode is running.
        """
        session = self._named.get(name)
        if session is None or session.id not in self.sessions.open:
            raise Refusal(409, f"no episode is running: call {self.reset_name} first")
        return session

    def _offered(self, name: str) -> Mapping[str, Tool]:
        """Return the tools of a session's task; before its first episode, those of the environment."""
        session = self._named.get(name)
        return (session.env.status.tools if session and session.env else {}) or self.sessions.probe.tools

    async def _begun(self, name: str, arguments: dict[str, object]) -> dict[str, object]:
        if refused := arguments.keys() - ({} if self._fixed else _TASK).keys():
            raise Refusal(422, f"{self.reset_name} takes no {sorted(map(str, refused))[0][:40]!r} here")
        if self._left < 1:
            times = (
                "one episode of its task, which was" if self._granted == 1 else f"{self._granted} episodes, which were all"
            )
            raise Refusal(403, f"this server plays {times} started already: there is no other try")
        session = self._named.get(name)
        if session is None or session.id not in self.sessions.open:
            self._forget_ended()
            session = self._named[name] = self.sessions.begin()
        episode, abandoned = session.episode, self._row(session, {"reason": "reset", "success": False})
        was_running = session.running
        self._left -= 1  # before the first await, because other sessions may reset too
        try:
            return await self.sessions.reset(session, {**arguments, **self._fixed})
        finally:
            if not session.running or session.episode != episode:  # otherwise refused: the episode continues
                self._totals[session.id] = 0.0
                if was_running:  # given up by the agent: it counts as a failure
                    self._append(abandoned)
            if session.running and session.episode != episode:
                self._tries[session.task_id] += 1
                self._number[session.id] = self._tries[session.task_id]
            else:
                self._left += 1

    def _forget_ended(self, reason: str = "idle", success: bool | None = False) -> None:
        """Forget ended sessions; by default their unfinished episodes are written as failures: the agent gave up."""
        for name, session in list(self._named.items()):
            if session.id not in self.sessions.open:
                del self._named[name]
                if session.running:
                    self._write(session, {"reason": reason, "success": success})

    def close(self) -> None:
        """End all sessions; running episodes are written as unfinished, because the cause of the shutdown is unknown."""
        self._forget_ended()
        self.sessions.close()
        self._forget_ended("unfinished", None)

    def _content(self, answer: JsonObject, name: str) -> tuple[str, dict[str, object], bool]:
        observation, session = answer["observation"], self._named[name]
        info, reward = observation["info"], answer["reward"]
        self._totals[session.id] = self._totals.get(session.id, 0.0) + (reward or 0.0)
        facts: dict[str, object] = {"done": answer["done"]}
        text = str(observation["text"])
        if answer["done"]:
            text += "\n\nThe episode is over."
            if info["reason"] not in DECIDED:  # an infrastructure error, so the try does not count
                self._left += 1
                self._tries[session.task_id] -= 1
            self._write(session, info)
        if self.rewards:
            facts |= {"reward": reward, "success": info["success"], "reason": info["reason"]}
        return text, facts, info["valid"] is False

    def _write(self, session: Session, info: JsonObject) -> None:
        self._append(self._row(session, info))
        self._totals.pop(session.id, None)
        self._number.pop(session.id, None)

    def _row(self, session: Session, info: JsonObject) -> dict[str, object]:
        """Return the line of `out` for a session's episode."""
        return {
            "session": session.id[:8],
            "episode": session.episode,
            "turns": session.turn,
            "task_id": session.task_id,
            "try": self._number.get(session.id, 0),
            "reward": self._totals.get(session.id, 0.0),
            "success": info["success"],
            "reason": info["reason"],
        }

    def _append(self, row: dict[str, object]) -> None:
        if self._out is None:
            return
        with Path(self._out).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def app(self, host: str, token: str | None, body_bytes: int) -> object:
        """Return an ASGI application that serves streamable HTTP at /mcp."""
        limits = self.sessions.limits
        inside = self.server().streamable_http_app(
            host=host,
            max_request_body_size=body_bytes,
            session_idle_timeout=limits.idle_seconds,
            max_sessions=4 * limits.sessions,
        )

        async def guarded(scope: JsonObject, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                try:
                    authorize(token, headers_of(scope))
                except Refusal as refusal:
                    return await send_json(send, refusal.status, {"detail": refusal.detail})
            return await inside(scope, receive, send)

        return guarded


def _session_name(context: Any) -> str:
    """Return the name of a request's session: over HTTP from the address or the header, over stdio a constant."""
    if context.request is None:
        return "the client of stdio"
    return context.request.query_params.get("session") or context.request.headers.get("mcp-session-id") or ""
