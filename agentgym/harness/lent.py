"""One attempt of a harness in a sandbox that belongs to the environment: start, model calls through the gateway, and end."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from agentgym.errors import BadConfig
from agentgym.harness.description import MEMORY, Harness
from agentgym.harness.gateway_agent import Access
from agentgym.sandbox.docker.changes import Changes
from agentgym.sandbox.docker.program_stream import ProgramStream
from agentgym.sandbox.docker.relay import Relay
from agentgym.sandbox.docker.sandbox import Docker
from agentgym.sandbox.env import ExternalAccess

TAIL = 4000
"""Number of bytes at the end of a harness's output that errors show."""
START = 60.0
_BEGIN = 'umask 077; mkdir -p -- "$1" && cd -- "$2" || exit 126; umask 022; shift 2; exec "$@" 2>&1'
_WRITE = 'umask 077; mkdir -p -- "${1%/*}" && cat > "$1"'


@dataclass
class Run:
    """One attempt of a harness: its inputs and its result."""

    harness: Harness
    access: Access
    instruction: str
    seconds: float
    turn_tokens: int
    context: int
    watched: Callable[["Changes | None"], None] = lambda changes: None
    """Callback that receives the container's `Changes`, from which the state key is computed, and None after the attempt."""
    printed: bytearray = field(default_factory=bytearray)
    """Last bytes of the harness's output."""
    reason: str = ""
    """Reason why the harness ended: that of a sandbox `Result`, or `budget`."""
    exit_code: int = 0
    _stream: Any = None
    _stopped: bool = False
    _killed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self, lent: ExternalAccess) -> None:
        """Run the harness in the sandbox of an environment, until it ends.

        Raises:
            BadConfig: the sandbox is not a container.
            SandboxFault: the sandbox fails.
        """
        sandbox = lent.sandbox
        if not isinstance(sandbox, Docker):
            raise BadConfig(f"a harness works in a container, and the sandbox is a {type(sandbox).__name__}")
        url = urlsplit(self.access.base_url)
        relay = Relay(sandbox, lent.user, (url.hostname or "", url.port or 0))
        try:
            own = _own_paths(self.harness, {**sandbox.variables, **lent.variables})
            self.watched(Changes(sandbox, own, lent.variables))
            try:
                self._start(sandbox, lent, relay.address)
                self._wait()
            finally:
                self.watched(None)
            _finished(sandbox.stream(lent.user, ["/bin/rm", "-rf", "--", *own], timeout=START))  # they are not judged
        finally:
            relay.close()

    def stop(self, why: str) -> None:
        """Kill the harness after its grace period, or as soon as it starts after that; record `why` as the reason."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        self.reason = why
        timer = threading.Timer(self.harness.grace, self._kill)
        timer.daemon = True
        timer.start()

    def _kill(self) -> None:
        with self._lock:
            self._killed, stream = True, self._stream
        if stream is not None:
            stream.close()

    def _start(self, sandbox: Docker, lent: ExternalAccess, address: str) -> None:
        harness = self.harness
        gaps = {
            "base_url": f"{address}/v1",
            "origin": address,
            "api_key": self.access.api_key,
            "model": self.access.model,
            "instruction": self.instruction,
            "folder": lent.folder,
            "memory": MEMORY,
            "turn_tokens": str(self.turn_tokens),
            "context": str(self.context),
        }
        own = {name: harness.filled(text, gaps) for name, text in harness.environment.items()}
        variables = {**sandbox.variables, **lent.variables, **own}
        for path, text in harness.files.items():
            self._write(sandbox, lent.user, f"{MEMORY}/{path}", harness.filled(text, gaps))
        words = [harness.filled(word, gaps) for word in harness.start]
        seconds = self.seconds if lent.seconds is None else min(self.seconds, lent.seconds)
        command = ["/bin/sh", "-c", _BEGIN, "sh", MEMORY, lent.folder, *words]
        stream = sandbox.stream(lent.user, command, most=1 << 30, env=variables, timeout=seconds)
        with self._lock:
            self._stream, killed = stream, self._killed
        if killed:
            stream.close()
        stream.write(harness.filled(harness.stdin, gaps).encode())
        stream.end_input()

    def _write(self, sandbox: Docker, user: str, path: str, text: str) -> None:
        stream = sandbox.stream(user, ["/bin/sh", "-c", _WRITE, "sh", path], timeout=START)
        stream.write(text.encode())
        _finished(stream)

    def _wait(self) -> None:
        while piece := self._stream.read():
            self.printed = (self.printed + piece)[-TAIL:]
        self.reason, self.exit_code = self.reason or self._stream.reason, self._stream.status

    @property
    def tail(self) -> str:
        """Last bytes of the harness's output, as text."""
        return bytes(self.printed).decode("utf-8", "backslashreplace").strip()


def _finished(stream: ProgramStream) -> None:
    """Wait until a program ends, and discard its output."""
    stream.end_input()
    while stream.read():
        pass


def _own_paths(harness: Harness, variables: Mapping[str, str]) -> list[str]:
    """Return the paths in the container of the harness's own files, which are not part of the task."""
    home = variables.get("HOME") or "/root"
    return [MEMORY, *(str(PurePosixPath(home, name)) for name in harness.own_files)]
