"""Functions on a container's processes for its process 1. Runs inside the sandbox: standard library only."""

import contextlib
import os
import signal
import time

PAGE = os.sysconf("SC_PAGE_SIZE")
PATIENCE = 5.0
"""Maximum seconds to wait for killed processes to end."""


def ended() -> list[tuple[int, int]]:
    """Reap ended children; return the process id and exit code of each, -N for signal N."""
    endings: list[tuple[int, int]] = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            endings.append((pid, code_of(status)))
    return endings


def wait_for(pid: int) -> int:
    """Wait for a child to end, and return its exit code, -N for signal N."""
    return code_of(os.waitpid(pid, 0)[1])


def code_of(status: int) -> int:
    """Convert a wait status to an exit code, -N for signal N."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def end_all() -> None:
    """Kill all processes of this user in one call, so that none can fork away."""
    with contextlib.suppress(OSError):
        os.kill(-1, signal.SIGKILL)


def end_strays(living: set[int]) -> list[tuple[int, int]]:
    """Kill all strays (see `strays`) until none is left; return the process ids and exit codes of reaped children."""
    endings: list[tuple[int, int]] = []
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        left = strays(living)
        if left and not living:
            end_all()
        elif left:
            _stop_and_kill(living, left)
        endings += ended()
        if not left:
            break
        time.sleep(0.0005)
    return endings


def _stop_and_kill(living: set[int], left: set[int]) -> None:
    """Kill strays and spare the descendants of `living`; stop all strays first, since a running process could fork."""
    stopped: set[int] = set()
    while left - stopped:
        for pid in left - stopped:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGSTOP)
        stopped |= left
        left = strays(living)
    for pid in stopped:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def strays(living: set[int]) -> set[int]:
    """Return the descendants of process 1 that do not descend from a process in `living`."""
    parents = dict(table())
    pids: set[int] = set()
    for pid in parents:
        above = pid
        while above > 1 and above not in living:
            above = parents.get(above, 0)
        if above == 1 and pid != 1:
            pids.add(pid)
    return pids


def table() -> list[tuple[int, int]]:
    """Return the process id and parent id of every process; the parent is 0 for a process started by the daemon."""
    processes: list[tuple[int, int]] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                processes.append((int(name), int(file.read().rpartition(b")")[2].split()[1])))
    return processes


def files_in(folders: list[str]) -> int:
    """Return the largest number of files and folders on the file systems of `folders`; 0 without folders."""
    facts = (os.statvfs(folder) for folder in folders)
    return max((each.f_files - each.f_ffree for each in facts), default=0)


def memory() -> int:
    """Return the sum of the resident bytes of all processes, without pages of files and of shared memory."""
    total = 0
    for pid, _ in table():
        with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/statm", "rb") as file:
            fields = file.read().split()
            total += (int(fields[1]) - int(fields[2])) * PAGE
    return total


def kills() -> int:
    """Return the number of processes that the kernel killed for lack of memory; 0 if unknown."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            return int(dict(line.split() for line in file).get("oom_kill", 0))
    return 0
