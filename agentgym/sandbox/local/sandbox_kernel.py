"""A persistent Python in a `bubblewrap` or `process` sandbox."""

import contextlib
import json
import os
import select
import signal
import socket
import struct
import time
from pathlib import Path
from typing import Protocol

from agentgym.errors import EpisodeOver
from agentgym.sandbox.local.cgroup import ControlGroup
from agentgym.sandbox.local.streams import NO_WORD, Execution, Output
from agentgym.sandbox.protocol import Limits, Result, SandboxFault

START = 30.0
"""Time limit in seconds for a kernel to get ready, and for a sandbox to report its end."""
PATIENCE = 2.0
"""Seconds that a kernel has to obey Ctrl-C before it is killed, and that a dead kernel's report may take."""
ANSWER = 4096
"""Maximum bytes of the answer to a step, which the program may forge."""


class KernelSandbox(Protocol):
    """The part of a sandbox that a kernel needs."""

    limits: Limits

    @property
    def group(self) -> ControlGroup: ...

    def launch(self, request: dict[str, object], stdin: int, control: int | None = None) -> Execution: ...


class SandboxKernel:
    """A persistent Python process, returned by `Sandbox.kernel()`."""

    def __init__(self, sandbox: KernelSandbox, stdin: int | None = None) -> None:
        self._sandbox = sandbox  # keeps the sandbox alive
        self.limits = sandbox.limits
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        with theirs, Path(os.devnull).open("rb") as null:
            source = null.fileno() if stdin is None else stdin
            self._execution = sandbox.launch({"kind": "kernel", "timeout": None}, source, theirs.fileno())
        self.alive = True
        """True while the kernel runs and has its variables."""
        started = self.run("", START)
        if not self.alive:
            raise SandboxFault(f"the sandbox could not start a kernel ({started.reason}): {started.text}")

    def run(self, code: str, timeout: float | None = None) -> Result:
        """Run code; the value of a last line that is an expression is displayed, as in an interactive session.

        After `timeout` seconds the step gets Ctrl-C; if that ends it, the reason is `timeout` and the kernel keeps its
        variables. If the step ignores Ctrl-C, or ends in another way (memory, output, killed), the kernel is lost.

        Raises:
            EpisodeOver: the kernel was already lost.
            SandboxFault: the sandbox failed.
        """
        if not self.alive:
            raise EpisodeOver("the kernel has ended and its variables are lost: start another with sandbox.kernel()")
        started, self._starved = time.monotonic(), self._sandbox.group.kills()
        deadline = started + self.limits.seconds(timeout)
        body = code.encode("utf-8", "surrogatepass")
        output = Output(self._execution, self.limits.output)
        left = memoryview(struct.pack("I", len(body)) + body)
        left, status = self._wait(output, left, deadline)
        reason = "exit"
        if status is None and not output.overflow and time.monotonic() >= deadline:
            reason = "timeout"
            self._execution.interrupt()
            _, status = self._wait(output, left, time.monotonic() + PATIENCE)
            if status is not None and not self._interrupted():
                status = None
        output.drain()
        if output.overflow or status is None:
            reason, status = self._end("output" if output.overflow else reason)
            if reason == "killed" and self._sandbox.group.kills() > self._starved:
                reason = "memory"
        return Result(status, *output.both(), reason, time.monotonic() - started)

    def _wait(self, output: Output, left: memoryview, deadline: float) -> tuple[memoryview, int | None]:
        """Send the rest of a step; return the unsent bytes, and the step's status or None if it did not end regularly."""
        line = bytearray()
        control, lifeline = self._control.fileno(), self._execution.lifeline.fileno()
        poll = select.poll()  # not select, which fails on file descriptors above 1023
        for file in (lifeline, *output.files):
            poll.register(file, select.POLLIN)
        poll.register(control, select.POLLIN | (select.POLLOUT if left else 0))
        while not output.overflow and time.monotonic() < deadline:
            for file, events in poll.poll(1000 * min(deadline - time.monotonic(), 3600.0)):
                if file == lifeline and self._execution.hear():
                    return left, None
                if file in output.files and not output.take(file):
                    poll.unregister(file)
                if file == control and events & select.POLLOUT:
                    left = self._sent(left)
                    if not left:
                        poll.modify(control, select.POLLIN)
                if file == control and events & ~select.POLLOUT:
                    piece = self._heard()
                    line += piece
                    if len(line) >= 4 and len(line) >= 4 + struct.unpack("I", line[:4])[0]:
                        return left, _status(bytes(line[4:]))
                    if not piece or len(line) > ANSWER:
                        return left, None
        return left, None

    def _sent(self, left: memoryview) -> memoryview:
        try:
            return left[self._control.send(left) :]
        except BlockingIOError:
            return left
        except OSError:  # it has ended, and the lifeline reports how
            return left[:0]

    def _heard(self) -> bytes:
        try:
            return self._control.recv(ANSWER)
        except OSError:
            return b""

    def _interrupted(self) -> bool:
        """Wait for Ctrl-C to be delivered, since it must not reach the next step; return False if the kernel has ended.

        Raises:
            SandboxFault: the sandbox does not deliver the interrupt.
        """
        if self._hears(START, interrupt=True):
            return False
        if not self._execution.report_bytes:
            raise SandboxFault(f"the sandbox did not hand on an interrupt within {START:.0f} s")
        self._execution.report_bytes.clear()
        return True

    def _hears(self, patience: float, *, interrupt: bool = False) -> bool:
        """Wait for the kernel's end, or with `interrupt` for the delivery of Ctrl-C; return True if the kernel has ended."""
        execution, deadline = self._execution, time.monotonic() + patience
        poll = select.poll()
        poll.register(execution.lifeline, select.POLLIN)
        while not execution.report_bytes.endswith(b"\n"):
            if interrupt and execution.report_bytes:
                return False
            if not poll.poll(1000 * max(deadline - time.monotonic(), 0)):
                return False
            if execution.hear():
                break
        return True

    def _end(self, reason: str) -> tuple[str, int]:
        """Kill the kernel if it does not end by itself; return the `ExitReason` and exit status of its end.

        `reason` is the known reason for the end, or `exit` if the sandbox must report it.

        Raises:
            SandboxFault: the sandbox does not report them in time.
        """
        self.alive = False
        try:
            if reason != "exit" or not self._hears(PATIENCE):
                self._execution.cut()
                if not self._hears(START):
                    raise SandboxFault(f"the sandbox did not say within {START:.0f} s how its kernel ended")
        except OSError as error:
            raise SandboxFault(f"the sandbox does not say how its kernel ended: {error}") from error
        report = self._execution.report()
        self.close()
        if report == NO_WORD and self._sandbox.group.kills() > self._starved:
            return "killed", -signal.SIGKILL
        if report.get("error"):
            raise SandboxFault(f"the sandbox could not run the kernel: {report['error']}")
        if reason != "exit":
            return reason, -signal.SIGKILL
        ended = str(report["reason"])
        return ("killed" if ended in ("exit", "cancelled") else ended), int(report.get("status", -signal.SIGKILL))

    def close(self) -> None:
        """Stop the kernel."""
        self.alive = False
        self._control.close()
        self._execution.close()


def _status(answer: bytes) -> int:
    """Return the exit status in an answer, which the program may have forged; 1 if the answer is malformed."""
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return int(json.loads(answer)["status"]) & 255
    return 1
