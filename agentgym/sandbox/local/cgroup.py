"""Limits on the memory and number of a sandbox's processes, by control groups (version 1 or 2) if these can be created."""

import contextlib
import itertools
import os
import signal
import time
from functools import cache
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
PREFIX = "agentgym-"
FILES = {"memory": ("memory.max", "memory.limit_in_bytes"), "pids": ("pids.max",)}
"""Names of the files that set a limit in a control group, by resource (version 2 first)."""
OURS = 8
"""Number of processes that the sandbox itself needs, in addition to its programs."""
_numbers = itertools.count()


class ControlGroup:
    """The control groups of one sandbox. Without them, a supervisor checks memory, and `RLIMIT_NPROC` limits processes."""

    def __init__(self, paths: dict[str, Path]) -> None:
        self._paths = paths

    @property
    def bounds_memory(self) -> bool:
        """True if the kernel limits the total memory of the sandbox's processes."""
        return "memory" in self._paths

    @property
    def bounds_processes(self) -> bool:
        """True if the kernel limits the number of the sandbox's processes."""
        return "pids" in self._paths

    @classmethod
    def make(cls, memory: int, processes: int) -> "ControlGroup":
        """Create groups that limit memory (bytes) and processes, as far as this machine allows."""
        folders: dict[str, Path] = {}
        name = f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        for kind, place in places().items():
            path = place / name
            try:
                path.mkdir(exist_ok=True)  # version 2 limits both in one group
                folders[kind] = path
                if kind == "memory":
                    _limit_memory(path, memory)
                else:
                    (path / "pids.max").write_text(str(processes + OURS))
            except OSError:
                if folders.pop(kind, None) is not None and path not in folders.values():
                    _remove(path)
        return cls(folders)

    def add(self, pid: int) -> None:
        """Put a process and its future children into the groups."""
        for path in self._folders():
            (path / "cgroup.procs").write_text(str(pid))

    def worked(self) -> float:
        """Return the CPU seconds of the groups' processes, including reaped children; 0 without groups."""
        ticks = 0
        for path in list(self._folders())[:1]:
            with contextlib.suppress(OSError):
                for pid in (path / "cgroup.procs").read_text().split():
                    with contextlib.suppress(OSError):  # ended meanwhile
                        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                        ticks += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
        return ticks / os.sysconf("SC_CLK_TCK")

    def kills(self) -> int:
        """Return the number of processes that the kernel killed for lack of memory; 0 without groups."""
        for name in ("memory.oom_control", "memory.events") if self.bounds_memory else ():
            with contextlib.suppress(OSError):
                rows = dict(line.split() for line in (self._paths["memory"] / name).read_text().splitlines())
                return int(rows.get("oom_kill", 0))
        return 0

    def close(self) -> None:
        """Kill all processes in the groups, and remove the groups."""
        for path in self._folders():
            for _ in range(200):
                if _remove(path):
                    break
                _end(path)
                time.sleep(0.005)

    def _folders(self) -> set[Path]:
        return set(self._paths.values())


def _limit_memory(path: Path, memory: int) -> None:
    second = (path / "memory.max").exists()
    (path / ("memory.max" if second else "memory.limit_in_bytes")).write_text(str(memory))
    with contextlib.suppress(OSError):  # machines without swap accounting
        if second:
            (path / "memory.swap.max").write_text("0")
        else:
            (path / "memory.memsw.limit_in_bytes").write_text(str(memory))


def _end(path: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in (path / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def _remove(path: Path) -> bool:
    try:
        path.rmdir()
    except OSError:
        return not path.exists()
    return True


@cache
def places() -> dict[str, Path]:
    """Return the folders in which groups can be created, by resource (`memory`, `pids`), verified by a trial."""
    return find_places(ROOT, MEMBERSHIP)


def find_places(root: Path, membership: Path) -> dict[str, Path]:
    """Return the result of `places` for the cgroup root and a membership file such as `/proc/self/cgroup`."""
    places: dict[str, Path] = {}
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return places
    for line in lines:
        _, controllers, own = line.split(":", 2)
        for kind in FILES:
            if kind in controllers.split(","):
                _try(places, kind, [root / kind / own.strip("/"), root / kind])
            elif not controllers:  # version 2: one tree for all; next to our own group, or further up, as permitted
                _try(places, kind, _with_parents(root, own))
    for place in set(places.values()):
        _sweep(place)
    return places


def _with_parents(root: Path, own: str) -> list[Path]:
    tree = root / "unified" if (root / "unified" / "cgroup.procs").exists() else root
    place = tree / own.strip("/")
    return [place, *(parent for parent in place.parents if parent.is_relative_to(tree))]


def _try(places: dict[str, Path], kind: str, candidates: list[Path]) -> None:
    for place in candidates:
        if kind in places:
            return
        with contextlib.suppress(OSError):  # version 2 only; fails for a group with its own processes
            (place / "cgroup.subtree_control").write_text(f"+{kind}")
        trial = place / f"{PREFIX}{os.getpid()}-trial"
        try:
            trial.mkdir()
        except OSError:
            continue
        writable = any(os.access(trial / name, os.W_OK) for name in FILES[kind])
        if writable and os.access(trial / "cgroup.procs", os.W_OK) and os.access(place / "cgroup.procs", os.W_OK):
            places[kind] = place
        _remove(trial)


def _sweep(place: Path) -> None:
    """Remove groups left by processes that ended without cleanup."""
    for path in place.glob(f"{PREFIX}*"):
        pid = path.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            _remove(path)
