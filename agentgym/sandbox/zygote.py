"""Runs inside the jail, outside the reach of what it starts: one process that forks every execution of one sandbox.

Started by `bubblewrap.py` as a script, with the standard library alone. It holds capabilities in the jail's own user
namespace, which it uses to give each execution namespaces of its own (processes, mounts, network, messages) before all
capabilities are dropped for good.

    zygote                      in the jail's namespaces; takes requests over a socket
      supervisor                watches time and memory, hears the host, reports how it ended
        init                    process 1 of the execution: when it ends, the kernel kills all that is left
          the program           without capabilities, within limits and a filter of system calls
"""

import contextlib
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from functools import partial
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernel  # type: ignore[import-not-found]  # beside this file, not in a package
import processes  # type: ignore[import-not-found]
import system  # type: ignore[import-not-found]

PULSE, SLOWEST = 0.02, 0.1
"""Seconds between two looks at the memory of an execution where no control group bounds it, while it changes and at most."""
INTERRUPTED = b" "
"""Said once Ctrl-C has arrived; white space, which JSON allows before it."""


def main() -> None:
    """Serve requests, which come over the standard input, until the host hangs up."""
    for number in (signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # a handler would let a program reach its init with them
    host = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    settings = _receive(host)[0]
    if settings is None:
        return
    if settings["isolated"]:
        system.unshare(system.NEW_MOUNTS)  # bubblewrap's own are those of a user namespace that is not this one
        system.mount("tmpfs", settings["work"], system.NO_SUID | system.NO_DEVICES, _size(settings))
    else:
        system.prctl(system.ADOPT, 1)  # what outlives its supervisor ends with the jail
    sys.path.append("/opt/packages")
    host.sendall(json.dumps(_import(settings["preload"])).encode() + b"\n")
    while True:
        request, files = _receive(host)
        if request is None:
            break
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # supervisors that are done
                pass
        try:
            child = os.fork()
        except OSError as error:
            _tell(files[3], _refused(error))
        else:
            if not child:
                _execute(request, files, settings)
        for file in files:
            os.close(file)
    if not settings["isolated"]:
        _end_descendants()


def _import(names: list[str]) -> dict[str, str]:
    """Import what programs are to find loaded; return what failed, by name."""
    failed: dict[str, str] = {}
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            failed[name] = f"{type(error).__name__}: {error}"
    gc.collect()
    gc.freeze()  # pages that a collection does not touch stay shared with every execution
    return failed


def _receive(host: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Return the next request and the files that came with it; None when the host hung up."""
    head, files, _, _ = socket.recv_fds(host, 4, 8)
    if not head:
        return None, []
    (length,) = struct.unpack("I", head + host.recv(4 - len(head), socket.MSG_WAITALL))
    body = host.recv(length, socket.MSG_WAITALL)
    return (json.loads(body) if len(body) == length else None), list(files)


def _execute(request: dict[str, Any], files: list[int], settings: dict[str, Any]) -> None:
    """Supervise one execution, tell the host how it ended, and end. files: streams, lifeline, control of a kernel."""
    lifeline = files[3]
    outcome: dict[str, Any] = {"error": "the supervisor ended"}
    try:
        outcome = _supervise(request, files, settings, lifeline)
    except BlockingIOError as error:
        outcome = _refused(error)
    except BaseException as error:
        outcome["error"] = f"{type(error).__name__}: {error}"
    finally:
        _tell(lifeline, outcome)
        os._exit(0)


def _tell(file: int, outcome: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(file, json.dumps(outcome).encode() + b"\n")


def _refused(error: OSError) -> dict[str, Any]:
    """Return how an execution ended that could not begin: the programs of the jail take all its processes."""
    return {"reason": "killed", "seconds": 0.0, "said": f"no process could be started: {error.strerror}\n"}


def _supervise(request: dict[str, Any], files: list[int], settings: dict[str, Any], lifeline: int) -> dict[str, Any]:
    system.die_with_parent()
    if settings["isolated"]:
        system.unshare(system.NEW_PIDS | system.NEW_IPC | system.NEW_NETWORK)
    else:
        system.prctl(system.ADOPT, 1)
    reading, writing = os.pipe()
    started = time.monotonic()
    init = os.fork()
    if not init:
        os.close(reading)
        _be_init(request, files, settings, writing)
    os.close(writing)
    for file in files:
        if file != lifeline:
            os.close(file)
    reason, told = _watch(init, reading, lifeline, started, request, settings)
    with contextlib.suppress(ProcessLookupError):
        os.kill(init, signal.SIGKILL)
    os.waitpid(init, 0)
    if not settings["isolated"]:
        _end_descendants()
    return {"reason": reason, "seconds": time.monotonic() - started, **told}


def _watch(
    init: int, reading: int, lifeline: int, started: float, request: dict[str, Any], settings: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return why an execution ended and what its init had to say about it."""
    deadline = started + (request["timeout"] or float("inf"))
    pulse, held, asked = PULSE, 0, False
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return "timeout", {}
        wait = min(left, 3600.0 if settings["memory_is_bounded"] else pulse)
        ready, _, _ = select.select([reading, lifeline], [], [], wait)
        if reading in ready:
            told = os.read(reading, 65536)
            if told.strip() or not told:  # the first line counts: the program's, where it could not be set up
                return ("exit", json.loads(told.split(b"\n")[0])) if told else ("killed", {})
            if asked:  # or the program has signalled its init
                os.write(lifeline, INTERRUPTED)
            asked = False
        if lifeline in ready:
            word = os.read(lifeline, 1)
            if word != b"i":
                return "cancelled", {}
            asked = True
            os.kill(init, signal.SIGUSR1)  # which hands Ctrl-C on to the program
        if not settings["memory_is_bounded"]:
            before, held = held, processes.held_by(init, settings["memory"])
            if held > settings["memory"]:
                return "memory", {}
            pulse = PULSE if held != before else min(1.5 * pulse, SLOWEST)


def _end_descendants() -> None:
    """Kill what an execution left to its supervisor, until nothing is left: without a namespace it would live on."""
    while True:
        for pid, parent in processes.everyone():
            if parent == os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _be_init(request: dict[str, Any], files: list[int], settings: dict[str, Any], telling: int) -> None:
    """Be process 1: prepare what the program will see, start it, reap whatever ends, tell how the program ended."""
    try:
        system.die_with_parent()
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")  # where memory ends, an execution ends before its supervisor and the zygote
        if settings["isolated"]:
            system.prctl(system.DUMPABLE, 0)  # so that the program cannot open the memory or the files of its init
            system.unshare(system.NEW_MOUNTS)  # here and not above, so that the supervisor still sees all processes
            _mounts(settings)
            system.raise_loopback()
        system.prctl(system.ADOPT, 1)
        program = os.fork()
        if not program:
            _be_program(request, files, settings, telling)
        signal.signal(signal.SIGUSR1, partial(_hand_on, program, telling))
        if settings["isolated"]:
            system.drop_capabilities()
        for file in files:
            os.close(file)
        while True:
            pid, status, usage = os.wait4(-1, 0)
            if pid == program:
                told = {"status": os.waitstatus_to_exitcode(status), "cpu": usage.ru_utime + usage.ru_stime}
                _tell(telling, told)
                os._exit(0)
    except BaseException as error:
        told = _refused(error) if isinstance(error, BlockingIOError) else {"error": f"{type(error).__name__}: {error}"}
        _tell(telling, told)
        os._exit(1)


def _hand_on(program: int, telling: int, *_: object) -> None:
    """Press Ctrl-C: the program hears it, and what it has started in the foreground."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program, signal.SIGINT)
    os.write(telling, INTERRUPTED)


def _mounts(settings: dict[str, Any]) -> None:
    size = _size(settings)
    system.mount("proc", "/proc", system.NO_SUID | system.NO_DEVICES | system.READ_ONLY)
    for folder in ("/tmp", "/dev/shm"):
        system.mount("tmpfs", folder, system.NO_SUID | system.NO_DEVICES, size + ",mode=1777")


def _be_program(request: dict[str, Any], files: list[int], settings: dict[str, Any], telling: int) -> None:
    """Become the program; what hinders that is told as the jail's own fault."""
    try:
        telling = _keep([*files[:3], *files[4:], telling])  # all but the lifeline
        _confine(request, settings)
    except BaseException as error:
        _tell(telling, {"error": f"{type(error).__name__}: {error}"})
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
    """Keep these files alone open, as 0, 1, …, and return the last number."""
    above = max(files) + 1
    for number, file in enumerate(files):
        os.dup2(file, above + number)
    for number in range(len(files)):
        os.dup2(above + number, number)
    os.closerange(len(files), 4096)
    return len(files) - 1


def _confine(request: dict[str, Any], settings: dict[str, Any]) -> None:
    """Take on a session of its own, a folder, an environment, limits, no capabilities, a filter of system calls."""
    os.setsid()
    try:
        os.chdir(request["cwd"])
    except PermissionError:  # a program before this one has closed it to itself
        os.chmod(request["cwd"], 0o700)
        os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    os.umask(0o022)
    for number in range(1, signal.NSIG):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    limits = dict(settings["limits"])
    if not settings["isolated"]:  # the kernel counts what else this user runs
        limits["NPROC"] += 1 << 20 if settings["processes_are_bounded"] else processes.threads_of_user()
    system.limit(limits)
    if settings["isolated"]:
        system.drop_capabilities()
        system.prctl(system.DUMPABLE, 1)
        system.filter_calls(bytes.fromhex(settings["filter"]))


def _stream(number: int) -> io.TextIOWrapper:
    file = open(number, "rb" if number == 0 else "wb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", line_buffering=number == 2)


def _size(settings: dict[str, Any]) -> str:
    return f"size={settings['disk']},nr_inodes={settings['files']}"


if __name__ == "__main__":
    main()
