"""The short way for whole text frames: the same messages as the general parser gives, however the bytes arrive."""

import asyncio
import contextlib
import itertools
import struct
import time

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve-env` is not installed")
pytest.importorskip("websockets", reason="the extra `serve-env` is not installed")
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import apply_mask

from agentgym.cli import serve_env
from agentgym.serving.asgi import ANSWER_AT_ONCE
from agentgym.serving.websocket import QuickWebSocket

REQUEST = b"\r\n".join(
    [
        b"GET /ws HTTP/1.1", b"Host: localhost", b"Upgrade: websocket", b"Connection: Upgrade",
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Version: 13", b"", b"",
    ]
)  # fmt: skip
MOST = 3000


class Wire(asyncio.Transport):
    """What is written, and whether reading is paused."""

    def __init__(self):
        super().__init__()
        self.written, self.closed, self.paused = b"", False, False

    def write(self, data):
        self.written += data

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False


def frame(first, payload, mask=b"\x01\x02\x03\x04"):
    size = len(payload)
    head = struct.pack("!BB", first, 0x80 | size) if size < 126 else struct.pack("!BBH", first, 0xFE, size)
    return head + mask + apply_mask(payload, mask)


def talk(kind, chunks, asleep=0, at_once=None):
    """Give a protocol a client's bytes; return the application's messages, what was written, and whether it was closed.

    The application answers each message with its length, after it has slept so many turns of the loop; what `at_once`
    answers does not come to it.
    """
    heard = []

    async def app(scope, receive, send):
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        if at_once:
            scope["extensions"][ANSWER_AT_ONCE](at_once)
        while (message := await receive())["type"] != "websocket.disconnect":
            heard.append(message.get("text", message.get("bytes")))
            for _ in range(asleep):
                await asyncio.sleep(0)
            with contextlib.suppress(OSError):  # closed meanwhile
                await send({"type": "websocket.send", "text": str(len(heard[-1]))})
        heard.append(message.get("code"))

    async def main():
        config = uvicorn.Config(app, lifespan="off", log_config=None, ws_max_size=MOST, ws_per_message_deflate=False)
        config.load()
        protocol, wire = kind(config, ServerState(), {}), Wire()
        protocol.connection_made(wire)
        protocol.data_received(REQUEST)
        await settled()
        wire.written = b""
        for chunk in chunks:
            if not wire.closed:
                protocol.data_received(chunk)
            await settled()
        protocol.connection_lost(None)
        await settled()
        return heard, wire.written, wire.closed

    return asyncio.run(main())


async def settled():
    for _ in range(40):
        await asyncio.sleep(0)


def pieces(text, cut):
    data = text.encode()
    return frame(0x01, data[: cut % (len(data) + 1)]) + frame(0x09, b"ping") + frame(0x80, data[cut % (len(data) + 1) :])


whole = st.text(max_size=300).map(lambda text: frame(0x81, text.encode()))
parts = st.builds(pieces, st.text(max_size=40), st.integers(0, 99))
others = st.sampled_from(
    [
        frame(0x82, b"bytes"), frame(0x89, b"ping"), frame(0x8A, b"pong"),
        frame(0x88, b"\x03\xe8"), frame(0x81, b"\xff"), frame(0x81, b"x" * (MOST + 1)), frame(0x81, b"y" * MOST),
        frame(0xC1, b"reserved"), frame(0x80, b"no beginning"), frame(0x01, b"no end"), b"\x81\x05plain",
        b"\x83\x80\0\0\0\0",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(whole, whole, whole, parts, others), max_size=8), st.lists(st.integers(1, 400), max_size=12))
def test_it_says_what_the_general_parser_says(frames, sizes):
    data = b"".join(frames)
    cuts = {min(place, len(data)) for place in itertools.accumulate(sizes)}
    ends = set(itertools.accumulate(map(len, frames)))  # the general parser forgets what came with what it refuses
    heard, written, closed = talk(QuickWebSocket, split(data, cuts))
    heard_there, written_there, closed_there = talk(WebSocketsSansIOProtocol, split(data, cuts | ends))
    assert (heard, closed) == (heard_there, closed_there)
    assert closed or written == written_there


def split(data, cuts):
    places = sorted({0, *cuts, len(data)})
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


@pytest.mark.parametrize("asleep", [0, 3])
def test_what_arrives_together_is_answered_in_order(asleep):
    texts = ["a" * size for size in (0, 1, 125, 126, 700, 3)]
    heard, written, _ = talk(QuickWebSocket, [b"".join(frame(0x81, text.encode()) for text in texts)], asleep)
    assert heard[:-1] == texts
    assert written == b"".join(b"\x81" + bytes([len(n)]) + n for n in (str(len(text)).encode() for text in texts))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text(max_size=200), max_size=12), st.lists(st.integers(1, 400), max_size=8), st.integers(0, 3))
def test_what_is_answered_at_once_keeps_its_place(texts, sizes, asleep):
    data = b"".join(frame(0x81, text.encode()) for text in texts)
    cuts = {min(place, len(data)) for place in itertools.accumulate(sizes)}
    heard, written, _ = talk(
        QuickWebSocket, split(data, cuts), asleep, lambda text: None if len(text) % 3 else str(len(text))
    )
    assert [text for text in heard[:-1] if len(text) % 3] == [text for text in texts if len(text) % 3]
    assert written == b"".join(b"\x81" + bytes([len(n)]) + n for n in (str(len(text)).encode() for text in texts))


def test_a_step_is_answered_where_it_arrives():
    heard, written, _ = talk(QuickWebSocket, [frame(0x81, b"abc"), frame(0x81, b"abc") * 2], at_once=lambda text: "3")
    assert heard[:-1] == [] and written == b"\x81\x013" * 3


def test_what_is_answered_at_once_lets_others_have_their_turn():
    """A client that sent a thousand messages ahead gets its answers in slices, and the rest goes to the application."""

    def slow(text):
        time.sleep(0.002)
        return "3"

    heard, written, _ = talk(QuickWebSocket, [frame(0x81, b"abc") * 100], at_once=slow)
    assert len(heard[:-1]) >= 90 and written == b"\x81\x013" * 100


def test_long_answers_have_the_right_head():
    for size, head in ((125, b"\x81\x7d"), (126, b"\x81\x7e\x00\x7e"), (70_000, b"\x81\x7f" + (70_000).to_bytes(8, "big"))):
        wire = asyncio.run(answered("x" * size))
        assert wire.written.endswith(head + b"x" * size)


async def answered(text):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": text})
        await receive()

    return (await opened(app))[1]


async def opened(app):
    """Return a connection to an application after its handshake, and its wire."""
    config = uvicorn.Config(app, lifespan="off", log_config=None)
    config.load()
    protocol, wire = QuickWebSocket(config, ServerState(), {}), Wire()
    protocol.connection_made(wire)
    protocol.data_received(REQUEST)
    await settled()
    return protocol, wire


def test_a_client_that_sends_faster_than_it_is_answered_has_to_wait():
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        while going.is_set():
            if (await receive())["type"] == "websocket.disconnect":
                return
        await asyncio.Event().wait()

    async def main():
        protocol, wire = await opened(app)
        protocol.data_received(frame(0x81, b"x" * 1000) * 20)
        assert not wire.paused
        protocol.data_received(frame(0x81, b"x" * 1000) * 60)
        assert wire.paused  # 80,000 bytes that nobody has read
        for _ in range(200):
            await asyncio.sleep(0)
        assert not wire.paused
        protocol.data_received(frame(0x81, b"") * 2000)
        assert wire.paused  # empty messages count too

    going = asyncio.Event()
    going.set()
    asyncio.run(main())


def test_a_release_of_uvicorn_that_was_not_tested_has_its_own_class(monkeypatch):
    """The short way builds on names that uvicorn may change: constraints.txt and `QUICK` are raised together."""
    assert serve_env.websocket() is QuickWebSocket
    for release in ("0.30.6", "0.55.0"):
        monkeypatch.setattr(serve_env, "version", lambda name, release=release: release)
        assert serve_env.websocket() == "auto"
