"""WebSocket clients on bare sockets, which cost two system calls a message, so that the server is what is measured."""

import asyncio
import base64
import json
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import cast

PING, PONG = 0x89, 0x8A
STAYS = 5.0  # seconds between two looks at what idle connections are asked


class RawSocket:
    """One connection, on a socket that blocks."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = ["GET /ws HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.socket.recv(4096)
        assert answer.startswith(b"HTTP/1.1 101"), answer
        self.left = answer.partition(b"\r\n\r\n")[2]

    def ask(self, frames: bytes) -> None:
        """Send frames that `framed` made."""
        self.socket.sendall(frames)

    def answers(self, wanted: int) -> list[bytes]:
        """Return the next so many data messages; the server's pings are answered."""
        found: list[bytes] = []
        data, place = self.left, 0
        while True:
            size, start = _header(data, place)
            if start is None or len(data) < start + size:
                if len(found) >= wanted:
                    break
                data, place = data[place:] + self._more(), 0
                continue
            if data[place] & 0x0F in (1, 2):
                found.append(data[start : start + size])
            elif data[place] == PING:
                self.ask(
                    bytes((PONG, 0x80 | size)) + bytes(4) + data[start : start + size]
                )  # a mask of zeros changes nothing
            place = start + size
        self.left = data[place:]
        return found

    def stay(self) -> None:
        """Answer what the server asked while nothing was expected of it: one that hears no answer hangs up."""
        while select.select([self.socket], [], [], 0)[0]:
            self.left += self._more()
        self.answers(0)

    def _more(self) -> bytes:
        more = self.socket.recv(1 << 18)
        assert more, "the server has hung up"
        return more


def _header(data: bytes, place: int) -> tuple[int, int | None]:
    """Return the length of the frame that begins there, and where its payload begins (None: not all is here)."""
    if len(data) < place + 4:
        return 0, None
    size = data[place + 1]
    if size < 126:
        return size, place + 2
    if size == 126:
        return int.from_bytes(data[place + 2 : place + 4], "big"), place + 4
    return int.from_bytes(data[place + 2 : place + 10], "big"), place + 10 if len(data) >= place + 10 else None


def framed(text: str) -> bytes:
    """Return a text message as clients send it, masked."""
    payload, mask = text.encode(), os.urandom(4)
    size = len(payload)
    head = struct.pack("!BB", 0x81, 0x80 | size) if size < 126 else struct.pack("!BBH", 0x81, 0xFE, size)
    return head + mask + bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))


def step_of(action: str) -> bytes:
    """Return the message of a step."""
    return framed(json.dumps({"type": "step", "data": {"text": action}}))


STEP = step_of("hello")
ANSWER = b'{"type": "observation", "data": {"observation": {"text": "hello"}, "reward": 0.0, "done": false}}'
SAID = struct.pack("!BB", 0x81, len(ANSWER)) + ANSWER


def steps(
    url: str, seconds: float, cpu: Callable[[], float], connections: int, ahead: int, info: bool, action: str = "hello"
) -> tuple[float, float]:
    """Return the steps a second, by the clock and by `cpu`, each connection with so many messages sent ahead.

    Answers to `hello` are to hold it; any other action's are to be an observation of a running episode.
    """
    port = int(url.rpartition(":")[2])
    sockets = [RawSocket(port) for _ in range(connections)]
    looked = time.perf_counter()
    for one in sockets:  # OpenEnv hands `info` to its environment
        one.ask(framed(json.dumps({"type": "reset", "data": {"info": info, "seed": 1}})))
        (answer,) = one.answers(1)
        assert b'"observation"' in answer, answer
        if time.perf_counter() - looked > STAYS:
            looked = time.perf_counter()
            for other in sockets:
                other.stay()
    wanted, unwanted = (b'"hello"', b"?") if action == "hello" else (b'"observation"', b'"done":true')
    many, found, started, before = step_of(action) * ahead, 0, time.perf_counter(), cpu()
    while (spent := time.perf_counter() - started) < seconds:
        for one in sockets:
            one.ask(many)
        for one in sockets:
            answers = one.answers(ahead)
            assert all(wanted in answer and unwanted not in answer.replace(b'": true', b'":true') for answer in answers), (
                answers
            )
            found += ahead
    used = cpu() - before
    for one in sockets:
        one.socket.close()
    return found / spent, found / max(used, 1e-6)


class Bare(asyncio.Protocol):
    """Says the same for every whole frame of a step's length: the least that a server of Python's event loop can do."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.calls, self.rest = 0, 0

    def data_received(self, data: bytes) -> None:
        self.calls += 1
        if self.calls <= 2:  # the handshake, and a reset
            answers = b"HTTP/1.1 101 Switching Protocols\r\n\r\n", SAID
            self.transport.write(answers[self.calls - 1])
            return
        frames, self.rest = divmod(self.rest + len(data), len(STEP))
        if frames:
            self.transport.write(SAID * frames)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
