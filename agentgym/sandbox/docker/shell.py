"""Runs programs in a container without Python. Each runs in a daemon exec, whose shell kills leftover processes."""

import contextlib
import select
import shlex
import signal
import socket
import threading
import time
from typing import Any

from agentgym.sandbox.docker.channel import ERRORS, STREAM, Channel
from agentgym.sandbox.docker.daemon import Daemon, faults
from agentgym.sandbox.protocol import Result, SandboxFault

CHUNK = 1 << 16
PATIENCE = 20.0
"""Maximum seconds to wait for killed processes to end."""
DONE = 42
KILL = "kill -9 -1"
"""Shell command that kills all of the user's processes except itself and process 1 at once, so that none can fork away."""
SCRIPT = f"""read -r size
if [ "$size" = 0 ]; then ({{}}) </dev/null; else head -c "$size" | ({{}}); fi
code=$?
{KILL} 2>/dev/null
exit $code"""
"""Script around a program. It first reads the length of the input, since output before the host listens would be lost.

`head` closes the pipe to the program at the end of the input. Finally all processes that the program left are killed.
"""


class Shell:
    """Runs programs in one container, one at a time."""

    def __init__(self, daemon: Daemon, container: str, user: str, channel: Channel) -> None:
        self._daemon, self._container, self._user, self._channel = daemon, container, user, channel
        self._one = threading.Lock()

    def run(self, request: dict[str, Any], stdin: bytes) -> Result:
        """Run the program of a request, then kill all processes that it left."""
        words = shlex.join(request["command"])
        script = SCRIPT.replace("{}", f"cd {shlex.quote(request['cwd'])} && exec {words}")
        with self._one:
            started = time.monotonic()
            execution, attached, stream = self._start(["/bin/sh", "-c", script], request)
            try:
                reading = _Reading(stream, request["cap"], f"{len(stdin)}\n".encode() + stdin)
                reason = reading.until(started + request["timeout"])
            finally:
                with contextlib.suppress(OSError):
                    attached.close()  # discards output buffered in the daemon, which may be endless
                    stream.close()
            if reason:
                self._kill()
            code = self._code(execution)
            if code is None or code > 128:
                self._kill()  # in case the shell itself was killed before cleaning up
            with contextlib.suppress(SandboxFault):
                self._channel.put(b"\n", time.monotonic() + PATIENCE)  # process 1 reaps its orphans
            return reading.result(code, reason, time.monotonic() - started)

    def _start(self, command: list[str], request: dict[str, Any]) -> tuple[str, Any, socket.socket]:
        api, user = self._daemon.client.api, request.get("user", self._user)
        with faults():
            execution = api.exec_create(self._container, command, stdin=True, user=user, environment=request["env"])
            attached = api.exec_start(execution["Id"], socket=True)
        stream: socket.socket = getattr(attached, "_sock", attached)
        stream.setblocking(False)
        return execution["Id"], attached, stream

    def _code(self, execution: str) -> int | None:
        """Wait for an exec to end and return its exit code; None if the daemon does not know the code.

        Raises:
            SandboxFault: the program does not end.
        """
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with faults():
                facts = self._daemon.client.api.exec_inspect(execution)
            if not facts["Running"]:
                return facts["ExitCode"]
            time.sleep(0.01)
        raise SandboxFault("the container does not end a killed program")

    def _kill(self) -> None:
        """Kill all programs; retry if they use up all processes, so that the command to kill them cannot start.

        Raises:
            SandboxFault: no retry succeeds.
        """
        api = self._daemon.client.api
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(SandboxFault), faults():
                execution = api.exec_create(self._container, ["/bin/sh", "-c", f"{KILL}; exit {DONE}"], user=self._user)
                api.exec_start(execution["Id"])
                if api.exec_inspect(execution["Id"])["ExitCode"] == DONE:
                    return
            time.sleep(0.1)
        raise SandboxFault("the container lets nothing end its programs")


class _Reading:
    """Stream of an exec: writes the input, and stores up to `cap` bytes of each output."""

    def __init__(self, stream: socket.socket, cap: int, feed: bytes) -> None:
        self._stream, self._cap, self._feed = stream, cap, memoryview(feed)
        self._raw = bytearray()
        self._buffers = {1: bytearray(), ERRORS: bytearray()}

    def until(self, deadline: float) -> str:
        """Read to the end of the stream; return an empty string, or the reason for stopping early: `timeout` or `output`."""
        poll = select.poll()
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return "timeout"
            poll.register(self._stream, select.POLLIN | (select.POLLOUT if self._feed else 0))
            try:
                for _, events in poll.poll(1000 * left):
                    if events & select.POLLOUT:
                        self._feed = self._feed[self._stream.send(self._feed[:CHUNK]) :]
                    if events & ~select.POLLOUT:
                        piece = self._stream.recv(CHUNK)
                        if not piece:
                            return ""
                        self._raw += piece
            except BlockingIOError:
                continue
            except OSError:
                if not self._feed:
                    return ""
                self._feed = self._feed[:0]  # it has closed its input
            if self._overflowed():
                return "output"

    def _overflowed(self) -> bool:
        while len(self._raw) >= STREAM.size:
            kind, length = STREAM.unpack_from(self._raw)
            end = STREAM.size + length
            if len(self._raw) < end:
                break
            buffer = self._buffers[ERRORS if kind == ERRORS else 1]
            room = self._cap - len(buffer)
            buffer += self._raw[STREAM.size : min(end, STREAM.size + room)]
            del self._raw[:end]
            if length > room:
                return True
        return False

    def result(self, code: int | None, reason: str, seconds: float) -> Result:
        """Return the program's result, from its exit code, the reason for stopping early, and its duration."""
        status = -signal.SIGKILL if code is None or reason else code
        if 128 < status <= 128 + signal.NSIG:
            status = 128 - status
        ended = reason or ("killed" if status < 0 else "exit")
        return Result(status, bytes(self._buffers[1]), bytes(self._buffers[ERRORS]), ended, seconds)
