"""The HTTP side of the gateway: an ASGI application, run by uvicorn."""

import asyncio
import hmac
import itertools
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from agentgym.errors import BadConfig
from agentgym.gateway.gateway import Gateway
from agentgym.gateway.requests import GenerationRequest, Refusal, read_number, read_object, read_request
from agentgym.gateway.sessions import FOR_ROOM, Session, SessionBusy
from agentgym.gateway.telling import FirstToken, Piece
from agentgym.gateway.wires import WIRES, Writer
from agentgym.serving.asgi import ClientDisconnected, Receive, Send, headers_of, read_body, send_json
from agentgym.serving.connections import REQUEST_SECONDS
from agentgym.serving.server import named_here, other_name

JsonObject = dict[str, Any]

T = TypeVar("T")
_log = logging.getLogger(__name__)
_PATIENCE = 10.0  # seconds until a stream begins anyway, as a sign of life for clients and proxies
_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


@dataclass(frozen=True, slots=True)
class _Caller:
    """The session that a request's API key names (empty: none), and the rights of the key."""

    name: str = ""
    alone: bool = False
    """True for a key from `session_key`, which can only call the model in its session."""


class App:
    """ASGI application over a Gateway: Chat Completions, Completions, Anthropic messages, Responses, models and sessions.

    A request's session is, in this order: the part of its API key after a colon (`KEY:NAME`), the header `X-Session-Id`,
    `user` in its body, or `default`. The key comes first because the operator sets it; clients set the others. With `key`,
    every path but /health requires this key, or a key from `session_key`.
    Without `key`, requests must address this machine as loopback, because a web page could reach it under another name.
    """

    def __init__(self, gateway: Gateway, *, key: str | None = None, body_bytes: int = 16 << 20) -> None:
        self.gateway = gateway
        self._key, self._body_bytes = key, body_bytes
        self._numbers = itertools.count(1)

    def session_key(self, name: str) -> str:
        """Return an API key for an untrusted agent, which can send requests in this session but cannot finish it.

        Raises:
            BadConfig: the gateway has no key, so anybody may finish any session.
        """
        if self._key is None:
            raise BadConfig("this gateway has no key, so session keys would protect nothing: expected App(…, key=…)")
        return f"{_derived(self._key, name)}:{name}"

    async def __call__(self, scope: JsonObject, receive: Receive, send: Send) -> None:
        """Answer one ASGI request; errors become responses, so no client can make this raise."""
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])  # as ASGI requires for an unsupported scope
        path = str(scope["path"]).removeprefix("/v1").rstrip("/")
        error = WIRES[path].error if path in WIRES else Refusal.body
        try:
            await self._route(path, scope, receive, send)
        except ClientDisconnected:
            return
        except Exception as raised:
            refusal = _refusal(raised)
            await send_json(send, refusal.status, error(refusal))

    async def _route(self, path: str, scope: JsonObject, receive: Receive, send: Send) -> None:
        method = scope["method"]
        headers = headers_of(scope)
        if path == "/health":
            return await send_json(send, 200, {"status": "ok"})
        caller = self._authorize(headers)
        of_session = path.startswith("/sessions/") and path.endswith(("/finish", "/key"))
        method_of_path = "GET" if path in ("/models", "/sessions") else "POST" if path in WIRES or of_session else None
        if method_of_path is None:
            raise Refusal(404, f"there is no {scope['path'][:200]} here", "unknown_url")
        if method != method_of_path:
            raise Refusal(405, f"{scope['path'][:200]} takes {method_of_path}", "method_not_allowed")
        if path == "/models":
            return await send_json(send, 200, {"object": "list", "data": [self._model()]})
        if path == "/sessions":
            return await send_json(send, 200, self._sessions(caller))
        content = await self._body(headers, receive)
        if of_session:
            name, _, what = path.removeprefix("/sessions/").rpartition("/")
            return await send_json(send, 200, self._of_session(what, name, caller, read_object(content)))
        await self._ask(path, content, caller, headers, receive, send)
        return None

    async def _ask(
        self, path: str, content: bytes, caller: _Caller, headers: dict[str, str], receive: Receive, send: Send
    ) -> None:
        """Answer a request to one of the model APIs."""
        raw = read_object(content)
        name = self._name(caller, headers, raw)
        session, wire = self.gateway.sessions.open.get(name) or Session(name), WIRES[path]
        request = read_request(
            wire.read(raw, session), chat=wire.chat, default_tokens=self.gateway.turn_tokens, size=len(content)
        )
        if path.endswith("/count_tokens"):
            await send_json(send, 200, {"input_tokens": await self.gateway.count(request, name)})
            return
        id = f"{wire.prefix}{next(self._numbers)}"
        if wire.keeps:
            request.id, request.instructed = "" if raw.get("store") is False else id, bool(raw.get("instructions"))
        await self._complete(wire.writer(self.gateway, request, raw, id), request, name, receive, send)

    def _name(self, caller: _Caller, headers: dict[str, str], raw: dict[str, object]) -> str:
        user = raw.get("user")
        if user is not None and not isinstance(user, str):
            raise Refusal(400, "user must be a string", None, "user")
        name = caller.name or headers.get("x-session-id") or user or "default"
        if len(name) > 200 or not name.isprintable():
            raise Refusal(400, "a session's name has at most 200 printable characters", None, "user")
        return name

    def _sessions(self, caller: _Caller) -> dict[str, object]:
        """List the open sessions with their counts and the total; a key with a session name sees only that session."""
        sessions = self.gateway.sessions.open.items()
        data = [{"id": name, **session.counts()} for name, session in sessions if caller.name in ("", name)]
        return {"object": "list", "data": data, **({} if caller.name else {"total": self.gateway.counts()})}

    def _model(self) -> dict[str, object]:
        engine: object = self.gateway.engine
        root = getattr(engine.tokenizer, "name_or_path", "") or self.gateway.name
        own = {"id": self.gateway.name, "object": "model", "created": 0, "owned_by": "agentgym"}
        return {**own, "root": root, "max_model_len": engine.context, "policy_version": engine.policy_version}

    def _authorize(self, headers: dict[str, str]) -> _Caller:
        """Return the caller, identified by the API key in the header `Authorization` or `X-Api-Key`.

        Raises:
            Refusal: the key is wrong, or there is no key and the Host header does not name this machine.
        """
        key_sent = headers.get("authorization", "").removeprefix("Bearer ").strip() or headers.get("x-api-key", "").strip()
        if self._key is None:
            if not named_here(headers):
                raise Refusal(403, f"without a key {other_name(headers)}: start it with one", "forbidden")
            return _Caller(key_sent.partition(":")[2])
        same = hmac.compare_digest(key_sent[: len(self._key)].encode(), self._key.encode())
        rest = key_sent[len(self._key) :]
        if same and (rest == "" or rest.startswith(":")):
            return _Caller(rest[1:])
        derived, _, name = key_sent.partition(":")
        if name and hmac.compare_digest(derived.encode(), _derived(self._key, name).encode()):
            return _Caller(name, alone=True)
        raise Refusal(401, "Incorrect API key provided.", "invalid_api_key")

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        if not headers.get("content-type", "").startswith("application/json"):
            raise Refusal(415, "the content type must be application/json")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self._body_bytes:
            raise Refusal(413, f"a body may have at most {self._body_bytes} bytes")
        return await read_body(receive, self._body_bytes, REQUEST_SECONDS, Refusal)

    def _of_session(self, what: str, name: str, caller: _Caller, raw: JsonObject) -> dict[str, object]:
        """Finish a session if `what` is "finish"; otherwise return an API key for it.

        Raises:
            Refusal: the caller's key is limited to one session (an agent must not report its own result), or the gateway has
                no key.
        """
        if caller.alone or caller.name not in ("", name):
            why = "this key is valid for one session" + (" and cannot end it" if caller.alone else f": {caller.name!r:.80}")
            raise Refusal(
                403, f"{why}; the program that started the agent must do that, with a key that names no session", "forbidden"
            )
        if what == "finish":
            return self._finish(name, raw)
        if self._key is None:
            why = "this gateway has no key (AGENTGYM_KEY), so a session key would protect nothing"
            raise Refusal(400, why, "no_key")
        return {"api_key": self.session_key(name)}

    def _finish(self, name: str, raw: JsonObject) -> dict[str, object]:
        reward, success = read_number(raw, "reward", 0.0, -1e9, 1e9), raw.get("success")
        success = reward > 0 if success is None else success
        labels = [raw.get("task_id") or "", raw.get("group_id") or ""]
        if not isinstance(success, bool) or not all(isinstance(label, str) for label in labels):
            raise Refusal(400, "success must be true or false, task_id and group_id strings")
        if name not in self.gateway.sessions.open:
            why = f": {FOR_ROOM}" if name in self.gateway.sessions.gave_way else ""
            raise Refusal(404, f"there is no open session {name[:200]!r}{why}", "unknown_session")
        try:
            episode = self.gateway.sessions.finish(name, reward, success, *labels)
        except SessionBusy as error:
            why = f"{error}: wait for it, or close its connection, then finish the session again"
            raise Refusal(409, why[:500], "session_busy") from None
        error = {"error": episode.error} if episode.error else {}
        return {"id": name, "reward": episode.reward, "success": episode.success, **error, **episode.metrics}

    async def _complete(self, writer: Writer, request: GenerationRequest, name: str, receive: Receive, send: Send) -> None:
        if request.stream:
            await _while_connected(receive, self._stream(writer, request, name, _Stream(send)))
        else:
            answer = await _while_connected(receive, self.gateway.answer(request, name))
            await send_json(send, 200, writer.whole(answer))

    async def _stream(self, writer: Writer, request: GenerationRequest, name: str, stream: "_Stream") -> None:
        """Send events as tokens are sampled; an error before the first event becomes an ordinary error response."""
        heard: asyncio.Queue[FirstToken | Piece | None] = asyncio.Queue()
        answering = asyncio.ensure_future(self.gateway.answer(request, name, heard.put_nowait))
        answering.add_done_callback(lambda _: heard.put_nowait(None))
        try:
            while True:
                try:
                    async with asyncio.timeout(_PATIENCE):  # wait_for may swallow the cancellation when a client disconnects
                        piece = await heard.get()
                except TimeoutError:
                    await stream.wait()
                    continue
                if piece is None:
                    break
                began = isinstance(piece, FirstToken)
                await stream.send(writer.began(piece.prompt_tokens) if began else writer.piece(piece))
            body = writer.end(answering.result())
        except Exception as raised:
            if not stream.begun:
                raise
            body = writer.failed(_refusal(raised))
        finally:
            answering.cancel()
        await stream.end(body)


class _Stream:
    """An HTTP response of server-sent events; it begins with the first token, or with a keep-alive if that token is late."""

    def __init__(self, send: Send) -> None:
        self._send, self.begun = send, False

    async def wait(self) -> None:
        """Send a keep-alive comment."""
        await self.send(b": waiting\n\n")

    async def send(self, body: bytes, *, more: bool = True) -> None:
        """Send the bytes of some events, preceded by the response's head if it was not sent yet."""
        if not self.begun:
            self.begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": _STREAM})
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def end(self, body: bytes) -> None:
        """Send the last events and end the response."""
        await self.send(body, more=False)


async def _while_connected(receive: Receive, work: Coroutine[object, object, T]) -> T:
    """Return the result of `work`; cancel it if the client disconnects.

    Raises:
        ClientDisconnected: the client disconnected.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnected
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


def _refusal(raised: Exception) -> Refusal:
    """Return an exception as an error response; one that the request did not cause is logged, and its text stays private."""
    if isinstance(raised, Refusal):
        return raised
    if isinstance(raised, RecursionError):
        return Refusal(400, "the body is nested too deeply")
    _log.error("a request failed", exc_info=raised)
    return Refusal(500, "the gateway failed; its log says how")


def _derived(key: str, name: str) -> str:
    return hmac.new(key.encode(), name.encode(), "sha256").hexdigest()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
