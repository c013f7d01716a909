"""HTTP and WebSocket side of served environments: an ASGI application, run by uvicorn."""

import asyncio
import logging
import time
from typing import Any, cast

from agentgym.env_server.connection import SLICE, answer_to, hold
from agentgym.env_server.requests import action_of, authorize, parsed, schema
from agentgym.env_server.sessions import Session, Sessions
from agentgym.rollout.limits import one_alarm
from agentgym.serving.asgi import ClientDisconnected, Receive, Refusal, Send, headers_of, read_body, send_json
from agentgym.serving.connections import REQUEST_SECONDS

_log = logging.getLogger(__name__)
_MOST_STEPS = 1024  # maximum steps of one batch
_ROUTES = {
    "/metadata": "GET",
    "/schema": "GET",
    "/state": "GET",
    "/reset": "POST",
    "/step": "POST",
    "/steps": "POST",
    "/snapshot": "POST",
    "/restore": "POST",
    "/close": "POST",
}


class App:
    """Serves sessions over HTTP, and over WebSocket at /ws, where each connection is a session (OpenEnv's protocol).

    With `token`, every path but /health requires it, as `Authorization: Bearer TOKEN` or as the password of the URL
    (`ws://agentgym:TOKEN@HOST`). Without a token, requests from web pages are refused, because any page could reach
    loopback.
    """

    def __init__(
        self,
        sessions: Sessions,
        *,
        name: str,
        version: str = "",
        token: str | None = None,
        body_bytes: int = 4 << 20,
        body_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self.sessions, self.name, self._version = sessions, name, version
        self._token, self._body_seconds = token, body_seconds
        self.body_bytes = body_bytes

    async def __call__(self, scope: dict[str, object], receive: Receive, send: Send) -> None:
        """Answer one ASGI request or serve one WebSocket connection; errors of a client become responses."""
        if scope["type"] == "websocket":
            await self._accept(scope, receive, send)
            return
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])  # as ASGI requires for an unsupported scope
        try:
            await send_json(send, 200, await self._route(scope, receive))
        except ClientDisconnected:
            pass
        except Refusal as refusal:
            await send_json(send, refusal.status, {"detail": refusal.detail, "code": refusal.code})
        except Exception:
            _log.exception("a request failed")
            await send_json(send, 500, {"detail": "the server failed; its log says how", "code": "EXECUTION_ERROR"})

    # HTTP

    async def _route(self, scope: dict[str, Any], receive: Receive) -> dict[str, object]:
        path, method = scope["path"].rstrip("/"), scope["method"]
        if path == "/health":
            return {"status": "healthy"}
        headers = headers_of(scope)
        authorize(self._token, headers)
        if path not in _ROUTES:
            raise Refusal(404, f"there is no {scope['path'][:200]} here; POST /reset starts a session", "UNKNOWN_TYPE")
        if method != _ROUTES[path]:
            raise Refusal(405, f"{path} takes {_ROUTES[path]}", "UNKNOWN_TYPE")
        if path == "/metadata":
            about = (type(self.sessions.probe).__doc__ or "").partition("\n")[0]
            return {"name": self.name, "description": about, "version": self._version}
        if path == "/schema":
            return schema(self.sessions.probe.tools)
        if path == "/state":
            return self.sessions.state(self.sessions.find(headers.get("x-session-id")))
        data = parsed(await self._body(headers, receive))
        if path == "/steps":
            return await self._steps(data)
        named = data.get("session") or headers.get("x-session-id")
        if path == "/reset" and named is None:
            return await self._begun(data)
        return await answer_to(self.sessions, path[1:], self.sessions.find(named), data)

    async def _begun(self, data: dict[str, object]) -> dict[str, object]:
        """Open a session and start its first episode; if the reset fails, the session is closed."""
        session = self.sessions.begin()
        try:
            return await self.sessions.reset(session, data)
        except BaseException:
            self.sessions.end(session)
            raise

    async def _steps(self, data: dict[str, object]) -> dict[str, object]:
        """Take one step in each of many sessions; the result of a refused step is the refusal.

        Raises:
            Refusal: the request itself is malformed.
        """
        listed = data.get("steps")
        steps: list[Any] = cast("list[Any]", listed) if isinstance(listed, list) else []
        if not 1 <= len(steps) <= _MOST_STEPS or not all(isinstance(step, dict) for step in steps):
            why = f'expected "steps", a list of 1 to {_MOST_STEPS} objects with "session" and "action"'
            raise Refusal(422, why, "VALIDATION_ERROR")
        brief = data.get("info", True) is False
        if self.sessions.probe.blocking:
            return {"results": await asyncio.gather(*(self._one(step, brief) for step in steps))}
        results: list[dict[str, object]] = []
        while len(results) < len(steps):  # one after another, because tasks would cost more than the steps
            with one_alarm():
                until = time.monotonic() + SLICE
                for step in steps[len(results) :]:
                    try:
                        result = self.sessions.step_here(*self._session_and_action(step), brief)
                        results.append(result if isinstance(result, dict) else await result)
                    except Refusal as refusal:
                        results.append(_refused(refusal))
                    if time.monotonic() > until:
                        break
            await asyncio.sleep(0)  # so that a long list does not block other clients
        return {"results": results}

    async def _one(self, step: dict[str, Any], brief: bool) -> dict[str, object]:
        try:
            return await self.sessions.step(*self._session_and_action(step), brief)
        except Refusal as refusal:
            return _refused(refusal)

    def _session_and_action(self, step: dict[str, object]) -> tuple[Session, str]:
        return self.sessions.find(step.get("session")), action_of(step.get("action"), self.sessions.probe.tools)

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        if not headers.get("content-type", "").startswith("application/json"):
            raise Refusal(415, "the content type must be application/json", "INVALID_JSON")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self.body_bytes:
            raise Refusal(413, f"a body may have at most {self.body_bytes} bytes", "VALIDATION_ERROR")
        return await read_body(receive, self.body_bytes, self._body_seconds, Refusal)

    # WebSocket

    async def _accept(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        try:
            authorize(self._token, headers_of(scope))
            if scope["path"].rstrip("/") != "/ws":
                raise Refusal(404, "", "UNKNOWN_TYPE")
        except Refusal:
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted, so the answer is 403
            return
        await send({"type": "websocket.accept"})
        await hold(self.sessions, receive, send)


def _refused(refusal: Refusal) -> dict[str, object]:
    return {"detail": refusal.detail, "code": refusal.code, "status": refusal.status}
