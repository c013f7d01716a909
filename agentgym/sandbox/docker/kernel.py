"""A persistent Python in a container."""

import json
import time
from typing import Protocol

from agentgym.errors import EpisodeOver
from agentgym.sandbox.docker import frames as frames
from agentgym.sandbox.docker.channel import Channel, told_in
from agentgym.sandbox.protocol import ExitReason, Limits, Result, SandboxFault

START = 30.0
"""Time limit in seconds for a kernel to get ready."""
GRACE = 30.0
"""Seconds to wait for a report beyond the time limit that process 1 enforces; then the container counts as dead."""
MESSAGES = 4096


class KernelSandbox(Protocol):
    """The part of a sandbox that a kernel needs."""

    limits: Limits

    @property
    def channel(self) -> Channel: ...


class DockerKernel:
    """A persistent Python process, returned by `Sandbox.kernel()`."""

    def __init__(self, sandbox: KernelSandbox, request: dict[str, object], number: int) -> None:
        self._sandbox = sandbox  # keeps the sandbox alive
        self._channel, self._number, self.limits = sandbox.channel, number, sandbox.limits
        self.alive = True
        """True while the kernel runs and has its variables."""
        self._channel.open(number, 2 * self.limits.output + MESSAGES)
        self._channel.send(number, frames.START, json.dumps(request).encode(), time.monotonic() + START)
        started = self.run("", START)
        if not self.alive and started.reason != ExitReason.KILLED:
            raise SandboxFault(f"the sandbox could not start a kernel ({started.reason}): {started.text}")

    def run(self, code: str, timeout: float | None = None) -> Result:
        """Run code; the value of a last line that is an expression is displayed, as in an interactive session.

        After `timeout` seconds the step gets Ctrl-C; if that ends it, the reason is `timeout` and the kernel keeps its
        variables. If the step ignores Ctrl-C, or ends in another way (memory, output, killed), the kernel is lost.

        Raises:
            BadConfig: `timeout` is not a finite number above 0.
            EpisodeOver: the kernel was already lost.
            SandboxFault: the container failed.
        """
        if not self.alive:
            raise EpisodeOver("the kernel has ended and its variables are lost: start another with sandbox.kernel()")
        timeout = self.limits.seconds(timeout)
        started = time.monotonic()
        deadline = started + timeout + GRACE
        self._channel.allow(self._number, 2 * self.limits.output + MESSAGES)
        body = frames.TIMEOUT.pack(timeout) + code.encode("utf-8", "surrogatepass")
        streams = {frames.OUT: bytearray(), frames.ERR: bytearray()}
        try:
            self._channel.send(self._number, frames.STEP, body, deadline)
            while True:
                kind, body = self._channel.receive(self._number, deadline)
                if kind not in streams:
                    break
                streams[kind] += body
        except SandboxFault:
            self.alive = False
            raise
        report = told_in(body)
        if kind == frames.END:
            self.alive = False
            self._channel.forget(self._number)
        out, err = (bytes(streams[stream]) for stream in (frames.OUT, frames.ERR))
        return Result(int(report["status"]), out, err, str(report["reason"]), time.monotonic() - started)

    def close(self) -> None:
        """Stop the kernel."""
        if not self.alive:
            return
        self.alive = False
        deadline = time.monotonic() + GRACE
        try:
            self._channel.send(self._number, frames.CUT, b"", deadline)
            while self._channel.receive(self._number, deadline)[0] != frames.END:
                pass
        except SandboxFault:
            pass  # it ended with its container
        self._channel.forget(self._number)
