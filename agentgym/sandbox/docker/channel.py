"""The stream to a container's process 1, which carries the frames of many executions in both directions."""

import json
import select
import socket
import struct
import threading
import time
from collections import deque
from typing import Any

from agentgym.sandbox.docker import frames as frames
from agentgym.sandbox.protocol import SandboxFault

STREAM = struct.Struct("!BxxxI")
"""Header that the daemon puts before each piece: the stream (standard output or error) and the piece's length."""
ERRORS = 2
HEARD = 4000
"""Maximum bytes of process 1's standard error that are stored for an error message."""


class Channel:
    """A container's attached stream. One of the threads that wait for frames reads for all of them."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        stream.setblocking(False)
        self._turn = threading.Condition()
        self._sending = threading.Lock()
        self._reading = False
        self._raw, self._framed = bytearray(), bytearray()
        self._mail: dict[int, deque[tuple[int, bytes]]] = {}
        self._room: dict[int, int] = {}
        self.stderr = bytearray()
        """Last part of the standard error of process 1, or of the container runtime that starts it."""
        self.broken = ""
        """Reason why the stream has ended; empty while it works."""

    def open(self, number: int, most: int) -> None:
        """Accept frames of an execution, at most `most` bytes until the next call of `allow`."""
        self._mail[number], self._room[number] = deque(), most

    def allow(self, number: int, most: int) -> None:
        """Set the number of bytes that an execution may still send."""
        self._room[number] = most

    def give_back(self, number: int, size: int) -> None:
        """Let an execution send `size` more bytes, since its reader has consumed as many."""
        if number in self._room:
            self._room[number] += size

    def forget(self, number: int) -> None:
        """Drop all further frames of an execution."""
        self._mail.pop(number, None)
        self._room.pop(number, None)

    def send(self, number: int, kind: int, body: bytes | memoryview, deadline: float) -> None:
        """Send a frame of an execution before a deadline (`time.monotonic`)."""
        self.put(frames.HEAD.pack(number, kind, len(body)) + bytes(body), deadline)

    def put(self, content: bytes, deadline: float) -> None:
        """Send bytes and receive incoming bytes meanwhile, so that neither side blocks the other.

        Raises:
            SandboxFault: the container is gone, or does not accept the bytes before the deadline.
        """
        left = memoryview(content)
        with self._sending:
            while left:
                if self.broken:
                    raise SandboxFault(self.broken)
                try:
                    left = left[self._stream.send(left) :]
                    continue
                except BlockingIOError:
                    pass
                except OSError as error:
                    raise SandboxFault(self._break(f"the container is gone: {error}")) from error
                if time.monotonic() > deadline:
                    raise SandboxFault(self._break("the container takes nothing in"))
                with self._turn:
                    mine = not self._reading
                    self._reading = True
                if mine:
                    try:
                        self._pump(0.05, writing=True)
                    finally:
                        self._pass_on()
                else:
                    self._ready(0.05, select.POLLOUT)

    def receive(self, number: int, deadline: float) -> tuple[int, bytes]:
        """Return the next frame of an execution: its kind and content.

        Raises:
            SandboxFault: the stream has ended, or no frame comes before the deadline.
        """
        while True:
            with self._turn:
                while self._reading and not self._mail[number] and not self.broken:
                    self._turn.wait(1.0)
                if self._mail[number]:
                    return self._mail[number].popleft()
                if self.broken:
                    raise SandboxFault(self.broken)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise SandboxFault(self._break("the container does not answer"))
                self._reading = True
            try:
                self._pump(left)
            finally:
                self._pass_on()

    def _pass_on(self) -> None:
        with self._turn:
            self._reading = False
            self._turn.notify_all()

    def _pump(self, wait: float, *, writing: bool = False) -> None:
        """Read from the stream once, waiting up to `wait` seconds, and dispatch the frames to their executions."""
        try:
            if not self._ready(wait, select.POLLIN | (select.POLLOUT if writing else 0)) & ~select.POLLOUT:
                return
            piece = self._stream.recv(4 * frames.CHUNK)
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            self._break(f"the container is gone: {error}")
            return
        if not piece:
            message = self.stderr.decode("utf-8", "backslashreplace").strip()
            self._break(f"the container ended: {message[-500:] or 'it printed nothing'}")
            return
        self._raw += piece
        self._unwrap()
        self._hand_out()

    def _ready(self, wait: float, events: int) -> int:
        """Return the `poll` events of the stream that occur within `wait` seconds; 0 for none."""
        poll = select.poll()  # not select, which fails on file descriptors above 1023
        poll.register(self._stream, events)
        return next((event for _, event in poll.poll(1000 * min(wait, 3600.0))), 0)

    def _unwrap(self) -> None:
        """Remove the daemon's headers from the bytes read, and separate standard error."""
        place = 0
        while len(self._raw) - place >= STREAM.size:
            kind, length = STREAM.unpack_from(self._raw, place)
            start = place + STREAM.size
            if len(self._raw) < start + length:
                break
            body = self._raw[start : start + length]
            if kind == ERRORS:
                self.stderr = (self.stderr + body)[-HEARD:]
            else:
                self._framed += body
            place = start + length
        del self._raw[:place]

    def _hand_out(self) -> None:
        place, size = 0, frames.HEAD.size
        while len(self._framed) - place >= size:
            number, kind, length = frames.HEAD.unpack_from(self._framed, place)
            if length > 2 * frames.CHUNK:
                self._break(f"the container broke the protocol: {bytes(self._framed[place : place + 80])!r}")
                return
            if len(self._framed) - place < size + length:
                break
            body = bytes(self._framed[place + size : place + size + length])
            place += size + length
            if number in self._mail:
                self._room[number] -= length
                if self._room[number] < 0:
                    self._break("the container sends more than was agreed")
                    return
                self._mail[number].append((kind, body))
        del self._framed[:place]

    def _break(self, why: str) -> str:
        self.broken = self.broken or why
        return self.broken

    def close(self) -> None:
        """Close the stream, which ends process 1 and with it the container."""
        self._break("the sandbox is closed")
        self._stream.close()


def told_in(body: bytes) -> dict[str, Any]:
    """Return a report of process 1, parsed from JSON.

    Raises:
        SandboxFault: the report is malformed.
    """
    try:
        report = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise SandboxFault(f"the container reports {body[:100]!r}") from error
    if not isinstance(report, dict):
        raise SandboxFault(f"the container reports {body[:100]!r}")
    return dict[str, object](report)  # pyright: ignore[reportUnknownArgumentType]  checked above
