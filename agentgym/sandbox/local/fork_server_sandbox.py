"""Base class of the backends `bubblewrap` and `process`, which run a fork server (`fork_server.py`)."""

import ast
import contextlib
import marshal
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any

from agentgym.errors import BadConfig
from agentgym.sandbox import working_folder as inside
from agentgym.sandbox.base import BaseSandbox
from agentgym.sandbox.inside import archive
from agentgym.sandbox.local.cgroup import ControlGroup
from agentgym.sandbox.local.sandbox_kernel import SandboxKernel
from agentgym.sandbox.local.starter import start
from agentgym.sandbox.local.streams import NO_WORD, Execution, collect
from agentgym.sandbox.protocol import Limits, Result, SandboxFault

START = 30.0
"""Time limit in seconds for starting a fork server, and for trusted code in a sandbox."""
STAGE = "agentgym-sandbox-"
"""Name prefix of a folder that a sandbox needs while it starts."""
STALE = 3600.0
"""Age in seconds from which a `STAGE` folder counts as left by a killed process."""
LOADED_WITH = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Environment variables that the interpreter and preloaded libraries read before a program starts."""
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    "USER": "agent",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "TERM": "dumb",
    "PYTHONDONTWRITEBYTECODE": "1",
    **LOADED_WITH,
}
"""All environment variables of a program except `HOME`, chosen to make its output repeatable."""


class ForkServerSandbox(BaseSandbox):
    """A sandbox whose programs a fork server starts; a backend defines the command and settings of the fork server.

    It closes itself when it is garbage collected, and at the end of the process.
    """

    work = "/home/agent"
    """Absolute path of the working folder, as programs see it."""

    def __init__(self, limits: Limits | None, packages: Sequence[str], temporary: Sequence[str] = ()) -> None:
        self.limits = limits or Limits()
        self._asking = threading.Lock()  # executions may be requested from several threads
        stack = contextlib.ExitStack()
        self._let_go = weakref.finalize(self, _free, os.getpid(), stack)
        for folder in temporary:
            stack.callback(_delete, folder)
        self.group = ControlGroup.make(self.limits.memory + self.limits.disk, self.limits.processes)
        """Control groups that limit the processes of the sandbox and their memory, including in-memory files."""
        stack.callback(self.group.close)
        try:
            self._host, self._process = self._start(list(packages), stack)
        except BaseException:
            self.close()
            raise

    def _command(self, packages: Sequence[str], stage: Path) -> list[str]:
        """Return the command that starts the fork server; `stage` is a temporary folder, deleted after the start."""
        raise NotImplementedError

    def _own_settings(self) -> dict[str, object]:
        """Return the backend's additional settings for the fork server."""
        raise NotImplementedError

    def _temporary(self) -> str | None:
        """Return the folder for temporary files; None for the default."""
        return None

    def _start(self, packages: list[str], stack: contextlib.ExitStack) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        host, sandbox = socket.socketpair()
        stack.callback(host.close)
        _sweep(self._temporary() or tempfile.gettempdir())
        staged = tempfile.TemporaryDirectory(prefix=STAGE, dir=self._temporary())
        with sandbox, tempfile.TemporaryFile() as errors, staged as stage:
            command = [*_ONCE_TOLD, *self._command(packages, Path(stage))]
            try:
                process = start(lambda: _popen(command, sandbox.fileno(), errors.fileno()))
                stack.callback(_end, host, process)
                sandbox.close()
                self.group.add(process.pid)
                host.settimeout(START)
                host.sendall(b"\n")
                self._send(host, {**self._settings(), "preload": packages, "work": self.work, **self._own_settings()})
                failed: dict[str, str] = ast.literal_eval(_line(host).decode())
            except OSError as error:
                errors.seek(0)
                message = errors.read(2000).decode("utf-8", "backslashreplace").strip()
                raise SandboxFault(f"the sandbox did not start ({error}): {message or 'it said nothing'}") from error
        for name, error in failed.items():
            raise BadConfig(
                f"package {name!r} cannot be imported in the sandbox: {error}. "
                "List its dependencies too, in the order of import: packages=(…)"
            )
        return host, process

    def _settings(self) -> dict[str, object]:
        limits = self.limits
        return {
            "disk": limits.disk,
            "files": limits.files,
            "memory": limits.memory,
            "memory_is_bounded": self.group.bounds_memory,
            "processes_are_bounded": self.group.bounds_processes,
            "limits": {
                "CORE": 0,
                "NOFILE": limits.open_files,
                "NPROC": limits.processes,
                "FSIZE": limits.disk,
                "MEMLOCK": 0,
                "STACK": 8 << 20,
            },
        }

    # The protocol

    def kernel(self, stdin: int | None = None) -> SandboxKernel:
        """Start a persistent Python with the sandbox's packages preloaded.

        Its standard input is a copy of the file descriptor `stdin`; None: empty.

        Two kernels with the two ends of a socket pair as `stdin` can communicate only with each other.
        """
        return SandboxKernel(self, stdin)

    def read(self, path: str) -> bytes:
        """Return a file's content; raise FileNotFoundError, IsADirectoryError, or OSError if it is too large."""
        return inside.read(self._trusted, path, self.limits.disk)

    def write(self, path: str, content: bytes) -> None:
        """Write a file, creating its folders; raise OSError if there is no space."""
        inside.write(self._trusted, path, content)

    def snapshot(self) -> bytes:
        """Return the working folder as a tar archive."""
        return inside.pack(self._trusted, self._most, self._state_bytes)

    def restore(self, state: bytes) -> None:
        """Replace the content of the working folder with that of a snapshot."""
        inside.unpack(self._trusted, state)

    def close(self) -> None:
        """Kill everything in the sandbox and free its resources."""
        self._let_go()

    # Executions

    @property
    def _state_bytes(self) -> int:
        return self.limits.disk

    def _trusted(self, code: str, stdin: bytes, cap: int) -> Result:
        """Run trusted Python code in the sandbox as the programs' user, so that no link in the folder leads outside."""
        return self._execute({"kind": "python", "code": code}, stdin, max(START, self.limits.timeout), cap)

    def _execute(self, request: dict[str, object], stdin: bytes, timeout: float | None, cap: int | None = None) -> Result:
        timeout = self.limits.seconds(timeout)
        before = self.group.kills()
        with contextlib.ExitStack() as ours:
            with contextlib.ExitStack() as theirs:
                reading, feed = _pipe(theirs, ours)
                execution = ours.enter_context(self.launch({**request, "timeout": timeout}, reading.fileno()))
            report, streams, overflow = collect(execution, feed, stdin, cap or self.limits.output, timeout + START)
        return self._result(report, streams, overflow, self.group.kills() > before)

    def launch(self, request: dict[str, object], stdin: int, control: int | None = None) -> Execution:
        """Start an execution, which gets copies of the file descriptors `stdin` and `control`.

        Raises:
            SandboxFault: the sandbox is gone.
        """
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            lifeline, end = socket.socketpair()
            ours.enter_context(lifeline)
            theirs.enter_context(end)
            out, err = _pipe(ours, theirs), _pipe(ours, theirs)
            files = [stdin, out[1].fileno(), err[1].fileno(), end.fileno(), *([] if control is None else [control])]
            try:
                self._send(self._host, {**request, "cwd": self.work, "env": {**ENVIRONMENT, "HOME": self.work}}, files)
            except OSError as error:
                self._host.close()  # a partial request may have been sent
                raise SandboxFault(f"the sandbox is gone: {error}") from error
            ours.pop_all()
        return Execution(lifeline, out[0], err[0])

    def _result(self, report: dict[str, Any], streams: tuple[bytes, bytes], overflow: bool, starved: bool) -> Result:
        if starved and report == NO_WORD:  # the kernel killed its supervisor as well
            report = {"reason": "killed", "seconds": 0.0}
        if report.get("error") or report.get("reason") not in ("exit", "timeout", "memory", "killed", "cancelled"):
            raise SandboxFault(f"the sandbox could not run the program: {report.get('error') or report}")
        reason = report["reason"]
        if overflow:
            reason = "output"
        elif starved:
            reason = "memory"  # even if the rest of the tree finished
        code = int(report.get("status", -signal.SIGKILL))
        if reason == "exit" and code < 0:
            reason = "killed"
        out, err = streams
        return Result(code, out, err + report.get("said", "").encode(), reason, float(report["seconds"]))

    def _send(self, host: socket.socket, request: dict[str, object], files: Sequence[int] = ()) -> None:
        body = marshal.dumps(request)
        with self._asking:
            socket.send_fds(host, [struct.pack("I", len(body))], list(files))
            host.sendall(body)


_ONCE_TOLD = ("/bin/sh", "-c", 'read -r line || exit; exec "$@"', "sh")
"""Command prefix that waits for a line, so that the process joins the control groups before it starts other processes."""


def _popen(command: Sequence[str], stdin: int, stdout: int) -> "subprocess.Popen[bytes]":
    environment = {"PATH": os.defpath, **LOADED_WITH}  # not the caller's, which a program might read
    return subprocess.Popen(command, env=environment, stdin=stdin, stdout=stdout, stderr=stdout, start_new_session=True)


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    """Return the reading and writing end of a new pipe, each closed by its stack."""
    reading, writing = os.pipe()
    return reader.enter_context(FileIO(reading)), writer.enter_context(FileIO(writing, "w"))


def _line(host: socket.socket) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = host.recv(4096)
        if not piece:
            raise ConnectionError("it ended")
        line += piece
    return bytes(line)


def _end(host: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    """Kill a fork server and all processes that it started."""
    with contextlib.suppress(OSError):
        host.shutdown(socket.SHUT_RDWR)  # a forked process may hold a copy
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@cache
def _sweep(folder: str) -> None:
    """Remove temporary folders of processes that were killed while starting a sandbox; runs once per process."""
    for path in Path(folder).glob(f"{STAGE}*"):
        with contextlib.suppress(OSError):
            facts = path.lstat()
            if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and time.time() - facts.st_mtime > STALE:
                shutil.rmtree(path)


def _delete(folder: str) -> None:
    with contextlib.suppress(OSError):
        archive.clear(folder)  # no program could have removed access to it
        Path(folder).rmdir()


def _free(owner: int, stack: contextlib.ExitStack) -> None:
    """Free the resources of a sandbox, unless this process is a fork of the owner."""
    if os.getpid() == owner:
        stack.close()
