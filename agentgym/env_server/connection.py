"""A WebSocket connection as a session: OpenEnv's messages, answered in order."""

import asyncio
import contextlib
import json
import logging
from typing import Any, cast

from agentgym.env_server.requests import action_of, parsed
from agentgym.env_server.sessions import Session, Sessions
from agentgym.serving.asgi import ClientDisconnected, Receive, Refusal, Send

JsonObject = dict[str, Any]

_log = logging.getLogger(__name__)
SLICE = 0.005  # seconds that one client may use at a time before others get their turn
_SLACK = 0.01  # fraction of its idle time by which a connection may end too early; limits how often the deadline is moved
_PARTING = 5.0  # seconds that a refused connection stays open, so that its client can read the reason
_DUMPS = json.JSONEncoder().encode


async def hold(sessions: Sessions, receive: Receive, send: Send) -> None:
    """Serve an accepted connection until its client sends `close`, disconnects, or is idle for too long."""
    session: Session | None = None
    try:
        sessions.check_room()  # a session begins with the first message, so a silent client takes no place
        first = await _first(receive, sessions.limits.idle_seconds)
        session = sessions.begin(connected=True)
        await _Connection(sessions, session, send).talk(first, receive)
    except Refusal as refusal:
        with contextlib.suppress(ClientDisconnected, TimeoutError):
            await _tell(send, _error(refusal))
            async with asyncio.timeout(_PARTING):
                await receive()  # OpenEnv's client writes before it reads, and would miss the reason if closed at once
    except ClientDisconnected:
        return
    except Exception:
        _log.exception("a connection failed")
    finally:
        if session is not None:
            sessions.end(session)
    await send({"type": "websocket.close", "code": 1000})


async def answer_to(sessions: Sessions, kind: str, session: Session, data: JsonObject) -> dict[str, object]:
    """Carry out a request of kind `reset`, `step`, `snapshot`, `restore` or `close` in a session, and return the answer.

    Raises:
        Refusal: the session is busy.
    """
    if kind == "reset":
        return await sessions.reset(session, data)
    if kind == "step":
        return await sessions.step(session, action_of(data.get("action"), sessions.probe.tools))
    if kind == "snapshot":
        return await sessions.snapshot(session)
    if kind == "restore":
        return await sessions.restore(session, data)
    if session.busy:
        raise Refusal(409, "the session is busy with another request", "SESSION_BUSY")
    sessions.end(session)
    return {"closed": True}


def _heard(message: JsonObject) -> JsonObject:
    if message["type"] == "websocket.disconnect":
        raise ClientDisconnected
    return message


def _idle(seconds: float) -> tuple[int, str, str]:
    return 408, f"the session was idle for {seconds:g} seconds and has ended", "SESSION_ERROR"


async def _first(receive: Receive, seconds: float) -> JsonObject:
    """Return the first message of a connection.

    Raises:
        Refusal: no message arrives within `seconds`.
    """
    try:
        async with asyncio.timeout(seconds):
            return _heard(await receive())
    except TimeoutError:
        raise Refusal(*_idle(seconds)) from None


class _Connection:
    """Answers the messages of one client's connection."""

    def __init__(self, sessions: Sessions, session: Session, send: Send) -> None:
        self._sessions, self._session, self._send = sessions, session, send
        self._tools = sessions.probe.tools
        self._clock = asyncio.get_running_loop().time
        self._idle, self._wound = sessions.limits.idle_seconds, self._clock()
        """Seconds until an idle connection ends, and the time at which this deadline was last extended."""
        self._slack = self._idle * _SLACK

    async def talk(self, first: JsonObject, receive: Receive) -> None:
        """Answer messages, starting with `first`, until the client sends `close`.

        Raises:
            Refusal: the session was idle for too long.
            ClientDisconnected: the client disconnected.
        """
        busy = 0.0  # seconds of work since other clients had their turn
        message: JsonObject | None = first
        try:
            async with asyncio.timeout(self._idle) as self._ending:
                while True:
                    message = message or _heard(await receive())
                    if self._sessions.probe.blocking:
                        self._ending.reschedule(None)
                    started = self._clock()
                    if not await self._answered(message):
                        return
                    message = None
                    now = self._clock()
                    self._put_off(now)
                    if (busy := busy + now - started) > SLICE:
                        await asyncio.sleep(0)
                        busy = 0.0
        except TimeoutError:
            raise Refusal(*_idle(self._idle)) from None

    def _put_off(self, now: float) -> None:
        if now - self._wound > self._slack or self._ending.when() is None:
            self._ending.reschedule(now + self._idle)
            self._wound = now

    async def _answered(self, message: JsonObject) -> bool:
        """Answer one message; return False if it is `close`."""
        try:
            request = parsed(message.get("text") or message.get("bytes") or b"")
            if request.get("type") == "close":
                return False
            answer = await self._answer_to(request)
        except Refusal as refusal:
            answer = _error(refusal)
        await _tell(self._send, answer)
        return True

    async def _answer_to(self, message: dict[str, object]) -> str:
        kind, data = message.get("type"), cast("object", message.get("data") or {})
        if not isinstance(data, dict):
            raise Refusal(422, f"data is {str(data)[:40]}; expected an object", "VALIDATION_ERROR")
        data_sent = cast("JsonObject", data)
        if kind == "step":
            return _message("observation", await self._sessions.step(self._session, action_of(data_sent, self._tools)))
        if kind == "state":
            return _message("state", self._sessions.state(self._session))
        if kind not in ("reset", "snapshot", "restore"):
            raise Refusal(400, f"unknown message type: {str(kind)[:40]}", "UNKNOWN_TYPE")
        answer = await answer_to(self._sessions, str(kind), self._session, data_sent)
        return _message("snapshot" if kind == "snapshot" else "observation", answer)


def _message(kind: str, data: dict[str, object]) -> str:
    return _DUMPS({"type": kind, "data": data})


def _error(refusal: Refusal) -> str:
    return _message("error", {"message": refusal.detail, "code": refusal.code})


async def _tell(send: Send, text: str) -> None:
    try:
        await send({"type": "websocket.send", "text": text})
    except OSError:  # uvicorn raises this if the client has disconnected
        raise ClientDisconnected from None
