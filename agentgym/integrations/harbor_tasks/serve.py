"""Service next to an agent's container: one episode of one task, shared by MCP and plain HTTP.

`/mcp?session=NAME` speaks streamable HTTP. `POST /act` takes an action as plain text and answers
`{"observation": …, "done": …}`; `GET /` answers with the first observation. When the episode ends, its row is written to a
file that the verifier reads.
"""

import asyncio
import contextlib
import sys
from typing import Any

from agentgym.core.env import MAX_ACTION
from agentgym.env_server.mcp_server import McpServer
from agentgym.env_server.requests import authorize
from agentgym.env_server.sessions import Limits, Sessions
from agentgym.integrations.harbor_tasks import task_file
from agentgym.registry import Maker
from agentgym.serving.asgi import Receive, Refusal, Send, headers_of, read_body, send_json
from agentgym.serving.server import serve, terminated_as_interrupted

HOST, PORT = "127.0.0.1", 8000
SESSION = "the-episode-of-this-task"
_BODY = 4 * MAX_ACTION + 1000
_LONG = 10 * 365 * 86_400.0


class OneEpisode(McpServer):
    """An environment as a service for a single episode, which clients cannot restart."""

    first = ""

    async def begin(self) -> None:
        """Start the episode.

        Raises:
            RuntimeError: the episode does not start.
        """
        self.first, _, failed = await self.call(SESSION, self.reset_name, {})
        if failed:
            raise RuntimeError(f"the episode did not begin: {self.first}")

    def tools(self, name: str = "") -> list[dict[str, Any]]:
        """Return the tools as MCP descriptions, without the tool that starts an episode."""
        return super().tools(SESSION)[1:]

    async def call(self, name: str, tool: str, arguments: dict[str, object]) -> tuple[str, dict[str, object] | None, bool]:
        """Call a tool in the only episode and return the result; the client's session name is ignored."""
        return await super().call(SESSION, tool, arguments)

    def app(self, host: str, token: str | None, body_bytes: int) -> Any:
        """Return the ASGI application that serves both MCP and plain HTTP."""
        protocol: Any = super().app(host, token, body_bytes)

        async def both(scope: dict[str, Any], receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["path"] not in ("/", "/act"):
                return await protocol(scope, receive, send)
            try:
                authorize(token, headers_of(scope))
                if scope["path"] == "/":
                    return await send_json(send, 200, {"observation": self.first})
                action = (await read_body(receive, _BODY, 60, Refusal)).decode("utf-8", "replace")
                text, facts, _ = await self.act(SESSION, action)
                return await send_json(send, 200, {"observation": text, "done": bool(facts is None or facts["done"])})
            except Refusal as refusal:
                return await send_json(send, refusal.status, {"observation": refusal.detail, "done": True})

        return both


async def _serve() -> None:
    facts = task_file.read()
    sessions = Sessions(Maker(facts.env, dict(facts.options)), Limits(sessions=4, idle_seconds=_LONG))
    fixed = {"task": facts.task, "seed": facts.seed}
    server = OneEpisode(sessions, facts.env, fixed=fixed, out=task_file.RESULTS)
    await server.begin()
    try:
        await serve(server.app(HOST, None, _BODY), HOST, PORT, print, lifespan="on")
    finally:
        server.sessions.close()  # an unfinished episode is not written


def main() -> int:
    """Serve until the container stops; return 0."""
    task_file.RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with terminated_as_interrupted(), contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
