"""WebSocket clients on bare sockets, which cost two system calls a message, so that the server is what is measured."""

import base64
import os
import socket
import struct
import time


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
        """Return the next so many data messages; the server's pings are passed over."""
        found: list[bytes] = []
        data, place = self.left, 0
        while len(found) < wanted:
            size, start = _header(data, place)
            if start is None or len(data) < start + size:
                data, place = data[place:] + self._more(), 0
                continue
            if data[place] & 0x0F in (1, 2):
                found.append(data[start : start + size])
            place = start + size
        self.left = data[place:]
        return found

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


RESET = framed('{"type": "reset", "data": {"info": false}}')  # OpenEnv passes it on to the environment
STEP = framed('{"type": "step", "data": {"text": "hello"}}')


def steps_a_second(port: int, seconds: float, connections: int, ahead: int) -> float:
    """Return the steps answered in a second, over so many connections, each with so many messages sent ahead."""
    sockets = [RawSocket(port) for _ in range(connections)]
    for one in sockets:
        one.ask(RESET)
        assert b'"observation"' in one.answers(1)[0]
    many, steps, started = STEP * ahead, 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        for one in sockets:
            one.ask(many)
        for one in sockets:
            answers = one.answers(ahead)
            assert all(b'"hello"' in answer for answer in answers), answers
            steps += ahead
    for one in sockets:
        one.socket.close()
    return steps / spent
