"""Connections that say nothing, or half of something, or read nothing: each ends, and keeps nobody out."""

import asyncio
import contextlib
import socket
import threading

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve-env` is not installed")
pytest.importorskip("websockets", reason="the extra `serve-env` is not installed")
import httpx2
from websockets.sync.client import connect

from agentgym.serving.asgi import Refusal, read_body, send_json
from agentgym.serving.server import serve

HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
WHOLE = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


class App:
    """Answers with the size of the body, without an end at /much, after `release` at /wait; echoes over WebSockets."""

    def __init__(self):
        self.waiting, self.release, self.cut = threading.Event(), threading.Event(), threading.Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (message := await receive())["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": message["text"]})
            return
        try:
            body = await read_body(receive, 1 << 20, 0.5, Refusal) if scope["method"] == "POST" else b""
        except Refusal as refusal:
            await send_json(send, refusal.status, {"detail": refusal.detail})
            return
        if scope["path"] == "/much":
            await self.send_much(receive, send)
            return
        if scope["path"] == "/wait":
            self.waiting.set()
            await asyncio.to_thread(self.release.wait, 60)
        await send_json(send, 200, {"size": len(body)})

    async def send_much(self, receive, send):
        """Send as much as is read, until the connection is gone."""
        await receive()
        gone = asyncio.ensure_future(receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not gone.done():
            await send({"type": "http.response.body", "body": bytes(1 << 16), "more_body": True})
            await asyncio.sleep(0)
        self.cut.set()


@contextlib.contextmanager
def running(**options):
    app, found, there = App(), [], threading.Event()

    async def main():
        stop = asyncio.Event()

        def ready(address):
            found.extend((address, asyncio.get_running_loop(), stop))
            asyncio.get_running_loop().call_later(0.05, there.set)

        await serve(app, "127.0.0.1", 0, ready, stop, ws="websockets-sansio", **options)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert there.wait(60)
    try:
        yield int(found[0].rpartition(":")[2]), app
    finally:
        app.release.set()
        found[1].call_soon_threadsafe(found[2].set)
        thread.join(60)
        assert not thread.is_alive()


def opened(port, sent=b""):
    made = socket.create_connection(("127.0.0.1", port), timeout=60)
    made.sendall(sent)
    return made


def rest(connection):
    """Return what the server sends until it closes the connection."""
    content = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(1 << 16):
            content += piece
    return content


def healthy(port):
    return httpx2.get(f"http://127.0.0.1:{port}/health", timeout=60).json() == {"size": 0}


@pytest.mark.parametrize(
    "sent",
    [b"", b"G", HEAD, HEAD + b"Content-Length: 9\r\n\r\nabc", HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"],
    ids=["silent", "a letter", "half a head", "half a body", "half of the chunks"],
)
def test_a_connection_without_a_whole_request_ends(sent):
    with running(seconds=0.5) as (port, _), opened(port, sent) as connection:
        answer = rest(connection)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 408")
        assert healthy(port)


def test_a_byte_now_and_then_is_no_request():
    with running(seconds=0.5) as (port, _), opened(port, HEAD) as connection:
        connection.settimeout(0.05)
        with contextlib.suppress(ConnectionError):
            while True:
                with contextlib.suppress(TimeoutError):
                    if connection.recv(1) == b"":
                        break
                connection.sendall(b"X")
        assert healthy(port)


def test_a_second_request_has_no_more_time_than_the_first():
    with running(seconds=0.5) as (port, _), opened(port, WHOLE) as connection:
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET")
        assert not rest(connection).startswith(b"HTTP")


def test_a_connection_may_wait_between_requests_and_for_its_answer():
    """Longer than a request may take to come, as another that says nothing shows: neither is its doing."""
    with running(seconds=0.2) as (port, app), opened(port, WHOLE) as connection, opened(port) as silent:
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert rest(silent) == b""
        connection.sendall(WHOLE.replace(b"/health", b"/wait"))
        assert app.waiting.wait(60)
        with opened(port) as silent:
            assert rest(silent) == b""
        app.release.set()
        content = b""
        while b"200 OK" not in content:  # what is left of the first answer may come before it
            content += connection.recv(1 << 16)


def test_silent_connections_keep_nobody_out():
    with running(most=8, seconds=600) as (port, _), contextlib.ExitStack() as stack:
        silent = [stack.enter_context(opened(port)) for _ in range(100)]
        assert healthy(port)
        assert rest(silent[0]) == b""  # the first of them made room


def test_idle_connections_after_an_answer_keep_nobody_out():
    with running(most=8, seconds=600) as (port, _), contextlib.ExitStack() as stack:
        for _ in range(30):
            idle = stack.enter_context(opened(port, WHOLE))
            assert idle.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert healthy(port)


def test_silent_websockets_keep_nobody_out_and_one_in_use_stays():
    with running(most=8, seconds=600) as (port, _), contextlib.ExitStack() as stack:
        used = stack.enter_context(connect(f"ws://127.0.0.1:{port}/", close_timeout=1))
        used.send("a")
        assert used.recv(60) == "a"
        for _ in range(20):
            stack.callback(connect(f"ws://127.0.0.1:{port}/").socket.close)
        assert healthy(port)
        used.send("b")
        assert used.recv(60) == "b"


def test_requests_under_way_are_not_given_up_for_others():
    with running(most=4, seconds=600) as (port, app), contextlib.ExitStack() as stack:
        busy = []
        for _ in range(4):
            app.waiting.clear()
            busy.append(stack.enter_context(opened(port, WHOLE.replace(b"/health", b"/wait"))))
            assert app.waiting.wait(60)
        with opened(port, WHOLE) as one_more:
            assert rest(one_more).startswith(b"HTTP/1.1 503")
        app.release.set()
        assert all(connection.recv(1 << 16).startswith(b"HTTP/1.1 200") for connection in busy)


def test_a_client_that_reads_nothing_is_cut_off():
    with running(seconds=600, read_seconds=0.5) as (port, app), opened(port) as connection:
        connection.sendall(WHOLE.replace(b"/health", b"/much"))
        assert app.cut.wait(60)
        assert healthy(port)


def test_pipelined_requests_are_answered_in_turn():
    with running(seconds=600) as (port, _), opened(port, WHOLE * 300) as connection:
        assert healthy(port)
        content = b""
        while content.count(b"200 OK") < 300:
            content += connection.recv(1 << 16)


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\nX: " + b"x" * 10_000_000, b"GET /" + b"x" * 10_000_000])
def test_a_head_of_10_mb_is_refused(head):
    with running(seconds=600) as (port, _), opened(port) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(head)
        assert rest(connection)[:12] in (b"HTTP/1.1 400", b"")
        assert healthy(port)
