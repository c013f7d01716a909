"""The process in a sandbox that forks every execution; the programs that it starts cannot reach it.

A backend (`bubblewrap` or `process`) starts this script; standard library only. With bubblewrap it has capabilities in the
sandbox's user namespace. It uses them to put each execution into separate namespaces (processes, mounts, network, IPC),
and the execution then drops all capabilities.

    fork server                 in the sandbox's namespaces; takes requests over a socket
      supervisor                process 1 of the execution: limits time and memory, listens to the host, reports the end;
                                when it ends, the kernel kills all other processes of the execution
        the program             without capabilities, with resource limits and a seccomp filter
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import marshal
import os
import select
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernel  # type: ignore[import-not-found]  # beside this file, not in a package
import processes  # type: ignore[import-not-found]
import system  # type: ignore[import-not-found]

TYPE_CHECKING = False  # importing `typing` would take half a megabyte in every sandbox
if TYPE_CHECKING:
    from typing import Any, TypedDict

    class Settings(TypedDict):
        """Settings that apply to every execution."""

        isolated: bool
        work: str
        user: int
        preload: list[str]
        memory: int
        memory_is_bounded: bool
        processes_are_bounded: bool
        limits: dict[str, int]
        filter: str
        disk: int
        files: int

    class Request(TypedDict):
        """Request for one execution."""

        kind: str
        command: list[str]
        code: str
        cwd: str
        env: dict[str, str]
        timeout: float | None


PULSE, SLOWEST = 0.02, 0.1
"""Minimum and maximum seconds between two checks of an execution's memory if no control group limits it."""
INTERRUPTED = b" "
"""Byte that the supervisor sends to the host once Ctrl-C has been delivered, before any other report."""


def main() -> None:
    """Serve requests from standard input until the host closes it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # with a handler, a program could signal its supervisor
    host = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    settings: Settings | None = _receive(host)[0]
    if settings is None:
        return
    if settings["isolated"]:
        system.unshare(system.NEW_MOUNTS)  # bubblewrap's own mounts belong to another user namespace
        system.mount("tmpfs", settings["work"], system.NO_SUID | system.NO_DEVICES, _size(settings))
    else:
        system.prctl(system.ADOPT, 1)  # adopt processes that outlive their supervisor
    sys.path.append("/opt/packages")
    _tell(host.fileno(), _import(settings["preload"]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped automatically
    while True:
        request, files = _receive(host)
        if request is None:
            break
        try:
            child = os.fork()
        except OSError as error:
            _tell(files[3], _refused(error))
        else:
            if not child:
                _execute(request, files, settings)
        for file in files:
            os.close(file)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if not settings["isolated"]:
        _end_descendants()


def _import(names: list[str]) -> dict[str, str]:
    """Import libraries in advance, after forgetting our own modules; return error messages of failed imports by name."""
    for name in ("kernel", "processes", "system"):
        del sys.modules[name]
    del sys.path[0]
    failed: dict[str, str] = {}
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            failed[name] = f"{type(error).__name__}: {error}"
    gc.collect()
    gc.freeze()  # keeps pages shared with every execution
    return failed


def _receive(host: socket.socket) -> tuple[Any, list[int]]:
    """Return the next request and its file descriptors; the request is None if the host has closed the socket."""
    head, files, _, _ = socket.recv_fds(host, 4, 8)
    if not head:
        return None, []
    (length,) = struct.unpack("I", head + host.recv(4 - len(head), socket.MSG_WAITALL))
    body = host.recv(length, socket.MSG_WAITALL)
    return (marshal.loads(body) if len(body) == length else None), list(files)


def _execute(request: Request, files: list[int], settings: Settings) -> None:
    """Supervise one execution, report its outcome, and exit.

    `files` are descriptors: the three standard streams, the lifeline, and for a kernel its control socket.
    """
    lifeline = files[3]
    outcome: dict[str, object] = {"error": "the supervisor ended"}
    try:
        if settings["isolated"]:
            system.unshare(system.NEW_PIDS)  # for its children
            if os.fork():
                os._exit(0)
        else:
            system.die_with_parent()
        outcome = _supervise(request, files, settings, lifeline)
    except BlockingIOError as error:
        outcome = _refused(error)
    except BaseException as error:
        outcome["error"] = f"{type(error).__name__}: {error}"
    finally:
        _tell(lifeline, outcome)
        os._exit(0)


def _tell(file: int, outcome: object) -> None:
    """Write a value to a file descriptor, as a line with a Python literal."""
    with contextlib.suppress(OSError):
        os.write(file, ascii(outcome).encode() + b"\n")


def _refused(error: OSError) -> dict[str, object]:
    """Return the outcome of an execution that could not start because other programs use up all processes."""
    return {"reason": "killed", "seconds": 0.0, "said": f"no process could be started: {error.strerror}\n"}


def _supervise(request: Request, files: list[int], settings: Settings, lifeline: int) -> dict[str, object]:
    """Set up, start and watch the program, then kill all its processes; return the outcome."""
    proc = os.open("/proc", os.O_PATH)
    _offer(proc, 500)
    if settings["isolated"]:
        system.prctl(system.DUMPABLE, 0)  # keeps the program from opening its supervisor's memory and files
        system.unshare(system.NEW_MOUNTS | system.NEW_IPC | system.NEW_NETWORK)
        _mounts(settings)
        system.raise_loopback()
    else:
        system.prctl(system.ADOPT, 1)
    woken, waking = os.pipe()
    for file in (woken, waking):
        os.set_blocking(file, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _heed)
    reading, telling = os.pipe()
    started = time.monotonic()
    program = os.fork()
    if not program:
        _be_program(request, files, settings, telling, proc)
    if settings["isolated"]:
        system.drop_capabilities()
    for file in (telling, proc, *files):
        if file != lifeline:
            os.close(file)
    problem = os.read(reading, 4096)  # empty after a successful setup
    deadline = started + (request["timeout"] or float("inf"))
    reason, report = ("", {"error": problem.decode()}) if problem else _watch(program, woken, lifeline, deadline, settings)
    _end_all(settings)
    return {"reason": reason, "seconds": time.monotonic() - started, **report}


def _offer(proc: int, score: int) -> None:
    """Set this process's OOM score: the kernel kills the program first, its supervisor next, the fork server last."""
    with open(os.open("self/oom_score_adj", os.O_WRONLY, dir_fd=proc), "w", encoding="ascii") as file:
        file.write(str(score))


def _heed(*_: object) -> None:
    """Do nothing on SIGCHLD: the wake-up file ends the wait."""


def _watch(program: int, woken: int, lifeline: int, deadline: float, settings: Settings) -> tuple[str, dict[str, object]]:
    """Wait until the program ends, exceeds a limit or is cancelled; return the reason, and `status` if the program ended."""
    pulse, memory_used = PULSE, 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return "timeout", {}
        wait = min(left, 3600.0 if settings["memory_is_bounded"] else pulse)
        ready, _, _ = select.select([woken, lifeline], [], [], wait)
        if woken in ready:
            os.read(woken, 4096)
            status = _reap(program)
            if status is not None:
                return "exit", {"status": status}
        if lifeline in ready:
            if os.read(lifeline, 1) != b"i":
                return "cancelled", {}
            with contextlib.suppress(ProcessLookupError):  # Ctrl-C for the program and its foreground children
                os.killpg(program, signal.SIGINT)
            os.write(lifeline, INTERRUPTED)
        if not settings["memory_is_bounded"]:
            before, memory_used = memory_used, processes.held_by(os.getpid(), settings["memory"])
            if memory_used > settings["memory"]:
                return "memory", {}
            pulse = PULSE if memory_used != before else min(1.5 * pulse, SLOWEST)


def _reap(program: int) -> int | None:
    """Reap exited children; return the program's exit status if it is among them, else None."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            if pid == program:
                code = os.waitstatus_to_exitcode(status)
    return code


def _end_all(settings: Settings) -> None:
    """Kill all processes that an execution left, and wait until they have ended."""
    if not settings["isolated"]:
        _end_descendants()
        return
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(-1, signal.SIGKILL)  # everything else in its namespace
        while True:
            os.waitpid(-1, 0)


def _end_descendants() -> None:
    """Kill adopted processes until none is left, since without a namespace they would survive."""
    while True:
        for pid, parent in processes.everyone():
            if parent == os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _mounts(settings: Settings) -> None:
    size = _size(settings)
    system.mount("proc", "/proc", system.NO_SUID | system.NO_DEVICES | system.READ_ONLY)
    for folder in ("/tmp", "/dev/shm"):
        system.mount("tmpfs", folder, system.NO_SUID | system.NO_DEVICES, size + ",mode=1777")


def _be_program(request: Request, files: list[int], settings: Settings, telling: int, proc: int) -> None:
    """Turn this forked process into the program; report a failure during setup as the sandbox's own."""
    try:
        signal.set_wakeup_fd(-1)
        system.prctl(system.DUMPABLE, 1)
        _offer(proc, 1000)
        telling = _keep([*files[:3], *files[4:], telling])  # everything except the lifeline
        _confine(request, settings)
    except BaseException as error:
        os.write(telling, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    try:
        os.close(telling)
        if request["kind"] == "command":
            os.execvpe(request["command"][0], request["command"], request["env"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdin, sys.stdout, sys.stderr = (_stream(number) for number in range(3))
        os._exit(kernel.run(request["kind"], request))
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error!s:.2000}\n".encode())
        os._exit(127 if isinstance(error, OSError) else 1)


def _keep(files: list[int]) -> int:
    """Renumber these file descriptors to 0, 1, …, close all others, and return the last number."""
    above = max(files) + 1
    for number, file in enumerate(files):
        os.dup2(file, above + number)
    for number in range(len(files)):
        os.dup2(above + number, number)
    os.closerange(len(files), 4096)
    return len(files) - 1


def _confine(request: Request, settings: Settings) -> None:
    """Set the session, folder, environment and limits, drop capabilities, and load the seccomp filter."""
    os.setsid()
    try:
        os.chdir(request["cwd"])
    except PermissionError:  # an earlier program has removed its own access
        os.chmod(request["cwd"], 0o700)
        os.chdir(request["cwd"])
    if settings["user"]:
        _become(settings["user"])
    os.environ.clear()
    os.environ.update(request["env"])
    os.umask(0o022)
    for number in range(1, signal.NSIG):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    limits = dict(settings["limits"])
    if not settings["isolated"]:  # the kernel counts this user's other processes, too
        limits["NPROC"] += 1 << 20 if settings["processes_are_bounded"] else processes.threads_of_user()
    system.limit(limits)
    if settings["isolated"]:
        system.drop_capabilities()
        system.filter_calls(bytes.fromhex(settings["filter"]))


def _become(user: int) -> None:
    """Switch permanently to the user with this id."""
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    system.prctl(system.NO_NEW_PRIVILEGES, 1)
    system.prctl(system.DUMPABLE, 1)  # otherwise its files in /proc would belong to root


def _stream(number: int) -> io.TextIOWrapper:
    file = open(number, "rb" if number == 0 else "wb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", line_buffering=number == 2)


def _size(settings: Settings) -> str:
    return f"size={settings['disk']},nr_inodes={settings['files']}"


if __name__ == "__main__":
    main()
