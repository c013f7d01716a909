"""Reads the output of a program in a sandbox, up to a limit."""

import ast
import contextlib
import os
import selectors
import socket
import time
from dataclasses import dataclass, field
from io import FileIO
from typing import Any

from agentgym.sandbox.protocol import SandboxFault

CHUNK = 1 << 16
NO_WORD = {"error": "it ended without a word"}
GRACE = 0.2
"""Maximum seconds to wait for the end of the output once the program has ended."""


@dataclass
class Execution:
    """A running program in a sandbox, seen from outside."""

    lifeline: socket.socket
    """Socket to the program's supervisor, which reports the outcome. Sending `i` interrupts the program; closing it or
    sending anything else kills the program."""
    out: FileIO
    err: FileIO
    report_bytes: bytearray = field(default_factory=bytearray)
    """Bytes from the lifeline: the report of the outcome, preceded by a blank if an interrupt was delivered."""

    def hear(self) -> bool:
        """Read from the lifeline once; return True if the program has ended."""
        piece = self.lifeline.recv(CHUNK)
        self.report_bytes += piece
        return not piece or self.report_bytes.endswith(b"\n")

    def report(self) -> dict[str, Any]:
        """Return the supervisor's report of the outcome, or `NO_WORD` if it is incomplete."""
        text = self.report_bytes.decode().strip()
        return ast.literal_eval(text) if self.report_bytes.endswith(b"\n") else NO_WORD

    def cut(self) -> None:
        """Kill the program."""
        self._send(b"x")

    def interrupt(self) -> None:
        """Send Ctrl-C to the program."""
        self._send(b"i")

    def _send(self, word: bytes) -> None:
        with contextlib.suppress(OSError):  # already ended
            self.lifeline.sendall(word)

    def close(self) -> None:
        """Close the streams, which kills a running program."""
        for file in (self.lifeline, self.out, self.err):
            file.close()

    def __enter__(self) -> "Execution":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Output:
    """Standard output and standard error of a program, each up to `cap` bytes; `overflow` is True if one had more."""

    def __init__(self, execution: Execution, cap: int) -> None:
        self.files = (execution.out.fileno(), execution.err.fileno())
        self.cap = cap
        self.contents = {file: bytearray() for file in self.files}
        self.overflow = False
        for file in self.files:
            os.set_blocking(file, False)

    def take(self, file: int) -> bool:
        """Read once from a stream, given by its file descriptor; return False at its end."""
        try:
            piece = os.read(file, CHUNK)
        except BlockingIOError:
            return True
        room = self.cap - len(self.contents[file])
        self.contents[file] += piece[:room]
        self.overflow |= len(piece) > room
        return bool(piece)

    def drain(self) -> None:
        """Read all content that is available now."""
        for file in self.files:
            before = -1
            while len(self.contents[file]) > before and not self.overflow:
                before = len(self.contents[file])
                self.take(file)

    def both(self) -> tuple[bytes, bytes]:
        """Return standard output and standard error."""
        return bytes(self.contents[self.files[0]]), bytes(self.contents[self.files[1]])


def collect(
    execution: Execution, feed: FileIO, stdin: bytes, cap: int, patience: float
) -> tuple[dict[str, object], tuple[bytes, bytes], bool]:
    """Write `stdin` to `feed`, and read the program's streams until its sandbox reports the outcome; close `feed`.

    Return the report, the two streams (at most `cap` bytes each), and True if a stream had more, which kills the program.

    Raises:
        SandboxFault: the sandbox reports nothing within `patience` seconds.
    """
    output, left = Output(execution, cap), memoryview(stdin)
    ended, deadline = False, time.monotonic() + patience
    with selectors.DefaultSelector() as selector, feed:
        os.set_blocking(feed.fileno(), False)
        selector.register(feed, selectors.EVENT_WRITE)
        for file in (execution.lifeline, *output.files):
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(GRACE if ended else max(deadline - time.monotonic(), 0))
            if not ready and ended:
                break
            if not ready:
                raise SandboxFault(f"the sandbox did not say within {patience:.0f} s how its program ended")
            for key, _ in ready:
                if key.fileobj is feed:
                    left = _fed(feed.fileno(), left)
                    if not left:
                        selector.unregister(feed)
                        feed.close()
                elif key.fileobj is execution.lifeline:
                    ended = execution.hear()
                    if ended:
                        selector.unregister(execution.lifeline)
                elif not output.take(key.fd):
                    selector.unregister(key.fd)
            if output.overflow and not ended:
                execution.cut()
    return execution.report(), output.both(), output.overflow


def _fed(feed: int, left: memoryview) -> memoryview:
    """Write as much as the pipe accepts; return the remaining bytes, empty if the program has closed its input."""
    try:
        return left[os.write(feed, left[:CHUNK]) :] if left else left
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[:0]
