"""A program in a container that another program here talks to: bytes in both directions while it runs."""

import contextlib
import json
import threading
import time

from agentgym.sandbox.docker import frames as frames
from agentgym.sandbox.docker.channel import Channel
from agentgym.sandbox.protocol import SandboxFault

MOST = 64 << 20
"""Bytes that a program may print in its life; it is ended where it prints more."""
MESSAGES = 4096
SECONDS = 30.0
"""For a container to take bytes in."""


class ProgramStream:
    """The streams of a program, which ends with its container at the latest. Reads block: each needs a thread."""

    def __init__(self, channel: Channel, request: dict[str, object], number: int) -> None:
        self._channel, self._number = channel, number
        self._one = threading.Lock()
        self.running = True
        channel.open(number, 2 * MOST + MESSAGES)
        channel.send(number, frames.START, json.dumps({**request, "cap": MOST}).encode(), time.monotonic() + SECONDS)

    def read(self) -> bytes:
        """Return what the program printed next on its standard output; empty once it has ended."""
        while self.running:
            try:
                kind, body = self._channel.receive(self._number, float("inf"))
            except SandboxFault:
                kind, body = frames.END, b""
            if kind == frames.END:
                self.running = False
                self._channel.forget(self._number)
            elif kind == frames.OUT:
                return body
        return b""

    def write(self, content: bytes) -> None:
        """Send bytes to the program's standard input; SandboxFault where the container is gone."""
        with self._one:
            for place in range(0, len(content), frames.CHUNK):
                piece = content[place : place + frames.CHUNK]
                self._channel.send(self._number, frames.INPUT, piece, time.monotonic() + SECONDS)

    def close(self) -> None:
        """End the program; whoever reads is told."""
        if self.running:
            with contextlib.suppress(SandboxFault):
                self._channel.send(self._number, frames.CUT, b"", time.monotonic() + SECONDS)
