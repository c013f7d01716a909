"""Streams of an interactive program in a container, which are open in both directions while the program runs."""

import contextlib
import json
import threading
import time

from agentgym.sandbox.docker import frames as frames
from agentgym.sandbox.docker.channel import Channel, told_in
from agentgym.sandbox.protocol import SandboxFault

MOST = 64 << 20
"""Default limit in bytes on standard output and on standard error; a program that writes more is killed."""
MESSAGES = 4096
SECONDS = 30.0
"""Time limit in seconds for the container to accept bytes."""


class ProgramStream:
    """Streams of a program, which ends with its container at the latest. `read` blocks, so it needs a separate thread."""

    def __init__(self, channel: Channel, request: dict[str, object], number: int, most: int = MOST) -> None:
        self._channel, self._number = channel, number
        self._one = threading.Lock()
        self._room = min(most, MOST)
        self.running = True
        self.status, self.reason, self.seconds = 0, "", 0.0
        """Exit status, reason and seconds, as in `Result`; the reason is empty until the program ends."""
        channel.open(number, 2 * self._room + MESSAGES)
        channel.send(number, frames.START, json.dumps({**request, "cap": most}).encode(), time.monotonic() + SECONDS)

    def read(self) -> bytes:
        """Wait for the next piece of standard output and return it; empty once the program has ended."""
        while self.running:
            try:
                kind, body = self._channel.receive(self._number, float("inf"))
            except SandboxFault:
                kind, body = frames.END, b""
            if kind == frames.END:
                self._ended(body)
            else:
                self._channel.give_back(self._number, len(body))
            if kind == frames.OUT:
                return body
        return b""

    def _ended(self, body: bytes) -> None:
        """Record the end of the program from the report in `body`, which is empty if the container is gone."""
        self.running = False
        self._channel.forget(self._number)
        report = told_in(body) if body else {}
        self.status, self.seconds = int(report.get("status", 0)), float(report.get("seconds", 0.0))
        self.reason = str(report.get("reason", "gone"))

    def write(self, content: bytes) -> None:
        """Send bytes to the program's standard input; raise SandboxFault if the container is gone."""
        with self._one:
            for place in range(0, len(content), frames.CHUNK):
                piece = content[place : place + frames.CHUNK]
                self._channel.send(self._number, frames.INPUT, piece, time.monotonic() + SECONDS)

    def end_input(self) -> None:
        """Close the program's standard input."""
        with self._one:
            self._channel.send(self._number, frames.INPUT, b"", time.monotonic() + SECONDS)

    def close(self) -> None:
        """Kill the program, which ends a blocked `read`."""
        if self.running:
            with contextlib.suppress(SandboxFault):
                self._channel.send(self._number, frames.CUT, b"", time.monotonic() + SECONDS)
