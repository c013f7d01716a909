"""One program in a container. Runs inside the container: standard library only, from Python 3.8 on."""

import contextlib
import grp
import io
import json
import os
import pwd
import signal
import sys
import time
from typing import Any

from agentgym.sandbox.docker import frames as frames
from agentgym.sandbox.docker import processes as processes
from agentgym.sandbox.inside import kernel, system


class Program:
    """One execution: its process, streams and limits."""

    def __init__(
        self, number: int, pid: int, request: dict[str, Any], streams: dict[int, int], control: int, files: int
    ) -> None:
        self.number, self.pid, self.kind = number, pid, request["kind"]
        self.started = time.monotonic()
        self.cap = request["cap"]
        self.room = {frames.OUT: self.cap, frames.ERR: self.cap}
        self.streams = streams
        """Open pipe ends by kind of frame: `OUT` and `ERR` to read from, `INPUT` to write to."""
        self.control = control
        self.pending = bytearray()
        """Input that is not yet written to the program; for a kernel, its steps."""
        self.last = False
        """True once the host has sent the end of the input."""
        self.answer = bytearray()
        self.stepping = self.overflow = False
        self.reason = "exit"
        self.status = 0
        self.deadline = self.started + request["timeout"] if request["timeout"] else float("inf")
        self.starved = processes.kills()
        self.files = files
        """Number of files in the in-memory folders when the program started."""

    @property
    def listening(self) -> bool:
        """True if the host currently reads the program's output; for a kernel, only during a step."""
        return self.kind != "kernel" or self.stepping

    @property
    def feed(self) -> int:
        """File descriptor for the pending input; -1 if it is closed."""
        return self.control if self.kind == "kernel" else self.streams.get(frames.INPUT, -1)

    def close(self, kind: int) -> None:
        """Close the stream that carries a kind of frame: `OUT`, `ERR` or `INPUT`."""
        file = self.streams.pop(kind, None)
        if file is not None:
            os.close(file)


def be_program(request: dict[str, Any], files: list[int], settings: dict[str, Any]) -> None:
    """Turn this forked process into the program: apply limits, keep only its streams open, and run it."""
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        system.prctl(system.ADOPT, 1)
        for number, file in enumerate(files):
            os.dup2(file, number + 200)
        for number in range(len(files)):
            os.dup2(number + 200, number)
        os.closerange(len(files), 4096)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")  # the OOM killer takes the program before process 1
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        os.umask(0o022)
        for number in range(1, signal.NSIG):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        system.limit(settings["limits"])
        if "user" in request:
            become(request["user"], request["env"])
        system.prctl(system.DUMPABLE, 1)
        kind = request["kind"]
        if kind == "command":
            os.execvpe(request["command"][0], request["command"], request["env"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdin, sys.stdout, sys.stderr = (stream(number) for number in range(3))
        os._exit(kernel.run(kind, request))
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(127 if isinstance(error, OSError) else 1)


def become(user: str, environment: dict[str, str]) -> None:
    """Switch to a user (name or number, optionally a group after a colon).

    For a user other than root, also set HOME, USER and LOGNAME in `environment`.

    Raises:
        ValueError: the system does not have a user of that name.
    """
    name, _, group = user.partition(":")
    try:
        entry = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
    except KeyError:
        if not name.isdigit():
            raise ValueError(f"no user {name!r} in this image") from None
        entry = pwd.struct_passwd((name, "", int(name), 0, "", "/", ""))
    if group:
        number = int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
        os.setgroups([number])
    else:
        number = entry.pw_gid
        os.initgroups(entry.pw_name, number)
    os.setgid(number)
    os.setuid(entry.pw_uid)
    if entry.pw_uid:
        environment.update(HOME=entry.pw_dir, USER=entry.pw_name, LOGNAME=entry.pw_name)


def stream(number: int) -> io.TextIOWrapper:
    """Return a text stream on a standard file descriptor that never raises an encoding error."""
    file = open(number, "rb" if number == 0 else "wb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", line_buffering=number == 2)


def status_in(answer: bytes) -> int:
    """Return the status in a kernel's answer, which the program may have forged; 1 if the answer is malformed."""
    try:
        return int(json.loads(answer)["status"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return 1
