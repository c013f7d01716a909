"""A Python that keeps its variables, in a jail of this machine."""

import contextlib
import json
import os
import select
import signal
import socket
import struct
import time
from typing import Any, Protocol

from agentgym.errors import EpisodeOver
from agentgym.sandbox.protocol import Limits, Result, SandboxFault
from agentgym.sandbox.streams import Execution, Gathered

START = 30.0
"""Seconds that a kernel may take to be ready."""
PATIENCE = 0.5
"""Seconds between Ctrl-C and the end of a kernel that does not heed it."""


class Jail(Protocol):
    """What a kernel needs of its jail."""

    limits: Limits

    def launch(self, request: dict[str, Any], stdin: int, control: int | None = None) -> Execution: ...


class JailKernel:
    """A Python that keeps its variables; made by `Sandbox.kernel()`."""

    def __init__(self, jail: Jail) -> None:
        self.limits = jail.limits
        self._control, theirs = socket.socketpair()
        null = os.open(os.devnull, os.O_RDONLY)
        self._execution = jail.launch({"kind": "kernel", "timeout": 0}, null, theirs.detach())
        self.alive = True
        """Whether its variables are still there."""
        started = self.run("", START)
        if not self.alive:
            raise SandboxFault(f"the jail could not start a kernel ({started.reason}): {started.text}")

    def run(self, code: str, timeout: float | None = None) -> Result:
        """Run code; a last line that is an expression is displayed, as in an interactive session.

        A step that takes too long is interrupted as by Ctrl-C and its variables stay (`timeout`, and `alive`); where it
        heeds that not, or ends for any other reason than `exit`, the kernel is gone. EpisodeOver when it was gone before.
        """
        if not self.alive:
            raise EpisodeOver("the kernel has ended and its variables are lost: start another with sandbox.kernel()")
        body = code.encode("utf-8", "surrogatepass")
        started = time.monotonic()
        gathered = Gathered(self._execution, self.limits.output)
        deadline = started + (self.limits.timeout if timeout is None else timeout)
        with contextlib.suppress(OSError):  # it has ended, and the lifeline says how
            self._control.sendall(struct.pack("I", len(body)) + body)
        status = self._wait(gathered, deadline)
        reason = "exit"
        if status is None and time.monotonic() >= deadline:
            reason = "timeout"
            self._execution.interrupt()
            status = self._wait(gathered, time.monotonic() + PATIENCE)
        gathered.drain()
        if gathered.overflow or status is None:
            reason, status = self._end("output" if gathered.overflow else reason)
        return Result(status, *gathered.both(), reason, time.monotonic() - started)

    def _wait(self, gathered: Gathered, deadline: float) -> int | None:
        """Return the status of the step; None when time is up, a stream overflows or the kernel ends."""
        said = bytearray()
        lifeline = self._execution.lifeline.fileno()
        watched = [self._control.fileno(), lifeline, *gathered.files]
        while True:
            left = deadline - time.monotonic()
            ready = select.select(watched, [], [], max(left, 0.0))[0] if left > 0 else []
            if not ready or gathered.overflow:
                return None
            for file in gathered.files:
                if file in ready and not gathered.take(file):
                    watched.remove(file)
            if watched[0] in ready:
                try:
                    piece = self._control.recv(4096)
                except ConnectionError:  # it ended before it had read all that was sent
                    return None
                said += piece
                if len(said) >= 4 and len(said) >= 4 + struct.unpack("I", said[:4])[0]:
                    return _status(bytes(said[4:]))
                if not piece or len(said) > 4096:
                    return None
            if lifeline in ready and self._execution.hear():
                return None

    def _end(self, reason: str) -> tuple[str, int]:
        """End the kernel and return why and with what status it did."""
        self.alive = False
        if not self._execution.said:
            self._execution.cut()
        self._execution.lifeline.settimeout(10)
        try:
            while not self._execution.hear():
                pass
        except OSError as error:
            raise SandboxFault(f"the jail does not say how its kernel ended: {error}") from error
        told = self._execution.told()
        self.close()
        if told.get("error"):
            raise SandboxFault(f"the jail could not run the kernel: {told['error']}")
        if reason != "exit":
            return reason, -signal.SIGKILL
        ended = str(told["reason"])
        return ("killed" if ended in ("exit", "cancelled") else ended), int(told.get("status", -signal.SIGKILL))

    def close(self) -> None:
        """End it."""
        if self._control.fileno() >= 0:
            self.alive = False
            self._control.close()
            self._execution.close()


def _status(answer: bytes) -> int:
    """Return the status in an answer; the program next to the kernel may have written anything."""
    try:
        return int(json.loads(answer)["status"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return 1
