"""The HTTP side of the gateway: an ASGI application, run by uvicorn."""

import asyncio
import hmac
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from agentgym.gateway.gateway import Answer, Gateway
from agentgym.gateway.replies import event, events, whole
from agentgym.gateway.requests import Asked, Refusal, read_number, read_object, read_request
from agentgym.gateway.sessions import StillRunning
from agentgym.serving.asgi import Gone, Receive, Send, read_body, send_json

_log = logging.getLogger(__name__)
_PATIENCE = 10.0  # seconds; then a stream begins, so that clients and proxies see a sign of life
_BODY_SECONDS = 60.0
_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


class App:
    """Chat completions, completions, models and sessions over a Gateway.

    A request's session is named by what follows a colon in its API key (`KEY:NAME`), else by the header `X-Session-Id`,
    else by `user` in its body, else it is `default`. The key comes first: it is what whoever started the agent gave it,
    where the others are a client's own. With `key`, all but /health need it.
    """

    def __init__(self, gateway: Gateway, *, key: str | None = None, body_bytes: int = 16 << 20) -> None:
        self.gateway = gateway
        self._key, self._body_bytes = key, body_bytes
        self._numbers = itertools.count(1)

    async def __call__(self, scope: dict[str, object], receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI wants it; nothing that one client does raises here."""
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])  # how ASGI says that there is no such thing here
        try:
            await self._route(scope, receive, send)
        except Gone:
            return
        except Refusal as refusal:
            await send_json(send, refusal.status, refusal.body())
        except Exception:
            _log.exception("a request failed")
            await send_json(send, 500, Refusal(500, "the gateway failed; its log says how").body())

    async def _route(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        path, method = scope["path"].removeprefix("/v1").rstrip("/"), scope["method"]
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if path == "/health":
            return await send_json(send, 200, {"status": "ok"})
        named = self._authorize(headers)
        allowed = {"/models": "GET", "/sessions": "GET", "/chat/completions": "POST", "/completions": "POST"}
        finishing = path.startswith("/sessions/") and path.endswith("/finish")
        wanted = "POST" if finishing else allowed.get(path)
        if wanted is None:
            raise Refusal(404, f"there is no {scope['path'][:200]} here", "unknown_url")
        if method != wanted:
            raise Refusal(405, f"{scope['path'][:200]} takes {wanted}", "method_not_allowed")
        if path == "/models":
            return await send_json(send, 200, {"object": "list", "data": [self._model()]})
        if path == "/sessions":
            data = [{"id": name, **session.counts()} for name, session in self.gateway.sessions.open.items()]
            return await send_json(send, 200, {"object": "list", "data": data, "total": self.gateway.counts()})
        content = await self._body(headers, receive)
        if finishing:
            name = path.removeprefix("/sessions/").removesuffix("/finish")
            return await send_json(send, 200, self._finish(name, read_object(content)))
        asked = read_request(content, chat=path.startswith("/chat"), default_tokens=self.gateway.turn_tokens)
        name = named or headers.get("x-session-id") or asked.user or "default"
        if len(name) > 200 or not name.isprintable():
            raise Refusal(400, "a session's name has at most 200 printable characters", None, "user")
        return await self._complete(asked, name, receive, send)

    def _model(self) -> dict[str, object]:
        engine: object = self.gateway.engine
        root = getattr(engine.tokenizer, "name_or_path", "") or self.gateway.name
        own = {"id": self.gateway.name, "object": "model", "created": 0, "owned_by": "agentgym"}
        return {**own, "root": root, "max_model_len": engine.context, "policy_version": engine.policy_version}

    def _authorize(self, headers: dict[str, str]) -> str:
        """Return the session that the API key names, if it does."""
        given = headers.get("authorization", "").removeprefix("Bearer ").strip()
        if self._key is None:
            return given.partition(":")[2]
        same = hmac.compare_digest(given[: len(self._key)].encode(), self._key.encode())
        rest = given[len(self._key) :]
        if not same or not (rest == "" or rest.startswith(":")):
            raise Refusal(401, "Incorrect API key provided.", "invalid_api_key")
        return rest[1:]

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        if not headers.get("content-type", "").startswith("application/json"):
            raise Refusal(415, "the content type must be application/json")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self._body_bytes:
            raise Refusal(413, f"a body may have at most {self._body_bytes} bytes")
        return await read_body(receive, self._body_bytes, _BODY_SECONDS, Refusal)

    def _finish(self, name: str, raw: dict[str, Any]) -> dict[str, object]:
        reward, success = read_number(raw, "reward", 0.0, -1e9, 1e9), raw.get("success")
        success = reward > 0 if success is None else success
        labels = [raw.get("task_id") or "", raw.get("group_id") or ""]
        if not isinstance(success, bool) or not all(isinstance(label, str) for label in labels):
            raise Refusal(400, "success must be true or false, task_id and group_id strings")
        if name not in self.gateway.sessions.open:
            raise Refusal(404, f"there is no open session {name[:200]!r}", "unknown_session")
        try:
            episode = self.gateway.sessions.finish(name, reward, success, *labels)
        except StillRunning as error:
            why = f"{error}: wait for it, or close its connection, then finish the session again"
            raise Refusal(409, why[:500], "session_busy") from None
        return {"id": name, "reward": episode.reward, "success": episode.success, **episode.metrics}

    async def _complete(self, asked: Asked, name: str, receive: Receive, send: Send) -> None:
        id = f"{'chatcmpl' if asked.chat else 'cmpl'}-{next(self._numbers)}"
        work = self.gateway.answer(asked, name)
        if not asked.stream:
            answer = await _while_connected(receive, work)
            await send_json(send, 200, whole(self.gateway, asked, answer, id))
            return
        stream = _Stream(send)
        try:
            answer = await _while_connected(receive, work, stream.wait)
            body = b"".join(events(self.gateway, asked, answer, id))
        except Refusal as refusal:
            if not stream.begun:
                raise
            body = event(refusal.body())
        await stream.end(body)


class _Stream:
    """A response in events; it begins when the reply is there, or when it is late."""

    def __init__(self, send: Send) -> None:
        self._send, self.begun = send, False

    async def wait(self) -> None:
        await self._begin()
        await self._send({"type": "http.response.body", "body": b": waiting\n\n", "more_body": True})

    async def end(self, body: bytes) -> None:
        await self._begin()
        await self._send({"type": "http.response.body", "body": body})

    async def _begin(self) -> None:
        if not self.begun:
            self.begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": _STREAM})


async def _while_connected(
    receive: Receive, work: Coroutine[object, object, Answer], late: Callable[[], Awaitable[None]] | None = None
) -> Answer:
    """Return what `work` brings; cancel it when the client hangs up. `late` is called whenever it takes long."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(receive))
    try:
        while not task.done():
            await asyncio.wait([task, gone], timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not task.done():
                raise Gone
            if late is not None and not task.done():
                await late()
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
