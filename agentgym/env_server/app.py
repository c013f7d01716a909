"""The HTTP and WebSocket side of environments that are served: an ASGI application, run by uvicorn."""

import asyncio
import contextlib
import json
import logging
import time
from typing import Any, cast

from agentgym.env_server.requests import action_of, authorize, parsed, schema
from agentgym.env_server.sessions import Session, Sessions
from agentgym.rollout.limits import one_alarm
from agentgym.serving.asgi import Gone, Receive, Refusal, Send, headers_of, read_body, send_json

_log = logging.getLogger(__name__)
_MOST_STEPS = 1024  # of one batch
_SLICE = 0.005  # seconds that a batch takes at a time, until others get their turn
_SLACK = 0.01  # of its idle time a connection may end too early: its end is put off no oftener than that
_PARTING = 5.0  # seconds that a refused connection is kept for its client to read why
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
    """Sessions over HTTP, and over WebSocket at /ws, where a connection is a session: OpenEnv's wire.

    With `token`, all but /health need it, as `Authorization: Bearer TOKEN` or as the password of the URL
    (`ws://agentgym:TOKEN@HOST`). Without one, requests of web pages are refused: any page could reach loopback.
    """

    def __init__(
        self,
        sessions: Sessions,
        *,
        name: str,
        version: str = "",
        token: str | None = None,
        body_bytes: int = 4 << 20,
        body_seconds: float = 30.0,
    ) -> None:
        self.sessions, self.name, self._version = sessions, name, version
        self._token, self._body_seconds = token, body_seconds
        self.body_bytes = body_bytes

    async def __call__(self, scope: dict[str, object], receive: Receive, send: Send) -> None:
        """Answer one request or hold one connection, as ASGI wants it; nothing that one client does raises here."""
        if scope["type"] == "websocket":
            await self._connection(scope, receive, send)
            return
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])  # how ASGI says that there is no such thing here
        try:
            await send_json(send, 200, await self._route(scope, receive))
        except Gone:
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
        return await self._told(path[1:], self.sessions.find(named), data)

    async def _begun(self, data: dict[str, object]) -> dict[str, object]:
        """Begin a session with its first episode; where that fails there is no session."""
        session = self.sessions.begin()
        try:
            return await self.sessions.reset(session, data)
        except BaseException:
            self.sessions.end(session)
            raise

    async def _told(self, kind: str, session: Session, data: dict[str, Any]) -> dict[str, object]:
        if kind == "reset":
            return await self.sessions.reset(session, data)
        if kind == "step":
            return await self.sessions.step(session, action_of(data.get("action"), self.sessions.probe.tools))
        if kind == "snapshot":
            return await self.sessions.snapshot(session)
        if kind == "restore":
            return await self.sessions.restore(session, data)
        if session.busy:
            raise Refusal(409, "the session is busy with another request", "SESSION_BUSY")
        self.sessions.end(session)
        return {"closed": True}

    async def _steps(self, data: dict[str, object]) -> dict[str, object]:
        """Take one step in each of many sessions; what one refuses stands in its place."""
        listed = data.get("steps")
        steps: list[Any] = cast("list[Any]", listed) if isinstance(listed, list) else []
        if not 1 <= len(steps) <= _MOST_STEPS or not all(isinstance(step, dict) for step in steps):
            why = f'expected "steps", a list of 1 to {_MOST_STEPS} objects with "session" and "action"'
            raise Refusal(422, why, "VALIDATION_ERROR")
        brief = data.get("info", True) is False
        if self.sessions.probe.blocking:
            return {"results": await asyncio.gather(*(self._one(step, brief) for step in steps))}
        results: list[dict[str, object]] = []
        while len(results) < len(steps):  # one after another, for tasks would cost more than the steps
            with one_alarm():
                until = time.monotonic() + _SLICE
                for step in steps[len(results) :]:
                    results.append(await self._one(step, brief))
                    if time.monotonic() > until:
                        break
            await asyncio.sleep(0)  # so that a long list holds nobody else up
        return {"results": results}

    async def _one(self, step: dict[str, Any], brief: bool) -> dict[str, object]:
        try:
            session = self.sessions.find(step.get("session"))
            return await self.sessions.step(session, action_of(step.get("action"), self.sessions.probe.tools), brief)
        except Refusal as refusal:
            return {"detail": refusal.detail, "code": refusal.code, "status": refusal.status}

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        if not headers.get("content-type", "").startswith("application/json"):
            raise Refusal(415, "the content type must be application/json", "INVALID_JSON")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self.body_bytes:
            raise Refusal(413, f"a body may have at most {self.body_bytes} bytes", "VALIDATION_ERROR")
        return await read_body(receive, self.body_bytes, self._body_seconds, Refusal)

    # WebSocket

    async def _connection(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        try:
            authorize(self._token, headers_of(scope))
            if scope["path"].rstrip("/") != "/ws":
                raise Refusal(404, "", "UNKNOWN_TYPE")
        except Refusal:
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted: the answer is 403
            return
        await send({"type": "websocket.accept"})
        session: Session | None = None
        try:
            session = self.sessions.begin(connected=True)
            await self._talk(session, receive, send)
        except Refusal as refusal:
            with contextlib.suppress(Gone, TimeoutError):
                await _tell(send, "error", {"message": refusal.detail, "code": refusal.code})
                async with asyncio.timeout(_PARTING):
                    await receive()  # OpenEnv's client writes before it reads: closed at once, it would not see why
        except Gone:
            return
        except Exception:
            _log.exception("a connection failed")
        finally:
            if session is not None:
                self.sessions.end(session)
        await send({"type": "websocket.close", "code": 1000})

    async def _talk(self, session: Session, receive: Receive, send: Send) -> None:
        """Answer a connection's messages until it says `close`; Gone where it hangs up."""
        idle = self.sessions.limits.idle_seconds
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(None) as ending:
                wound, busy = clock(), 0.0  # when the end was last put off; seconds of work since others had their turn
                while True:
                    if (now := clock()) - wound > idle * _SLACK or ending.when() is None:
                        ending.reschedule(now + idle)
                        wound = now
                    message = await receive()
                    if message["type"] == "websocket.disconnect":
                        raise Gone
                    if self.sessions.probe.blocking:
                        ending.reschedule(None)
                    now = clock()
                    if not await self._answered(session, message, send):
                        return
                    if (busy := busy + clock() - now) > _SLICE:
                        await asyncio.sleep(0)
                        busy = 0.0
        except TimeoutError:
            raise Refusal(408, f"the session was idle for {idle:g} seconds and has ended", "SESSION_ERROR") from None

    async def _answered(self, session: Session, message: dict[str, Any], send: Send) -> bool:
        """Answer one message; False where it says `close`."""
        try:
            said = parsed(message.get("text") or message.get("bytes") or b"")
            kind, data = said.get("type"), cast("object", said.get("data") or {})
            if kind == "close":
                return False
            await _tell(send, *await self._said(session, kind, data))
        except Refusal as refusal:
            await _tell(send, "error", {"message": refusal.detail, "code": refusal.code})
        return True

    async def _said(self, session: Session, kind: object, data: object) -> tuple[str, dict[str, object]]:
        if not isinstance(data, dict):
            raise Refusal(422, f"data is {str(data)[:40]}; expected an object", "VALIDATION_ERROR")
        given = cast("dict[str, object]", data)
        if kind == "state":
            return "state", self.sessions.state(session)
        if kind not in ("reset", "step", "snapshot", "restore"):
            raise Refusal(400, f"unknown message type: {str(kind)[:40]}", "UNKNOWN_TYPE")
        given = {"action": given} if kind == "step" else given
        return "snapshot" if kind == "snapshot" else "observation", await self._told(str(kind), session, given)


async def _tell(send: Send, kind: str, data: dict[str, object]) -> None:
    try:
        await send({"type": "websocket.send", "text": json.dumps({"type": kind, "data": data})})
    except OSError:  # how uvicorn says that the client has hung up
        raise Gone from None
