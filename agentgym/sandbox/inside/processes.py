"""Processes and their memory, for machines without control groups. Runs in the sandbox: standard library only."""

import contextlib
import os

PAGE = os.sysconf("SC_PAGE_SIZE")


def everyone() -> list[tuple[int, int]]:
    """Return the process id and parent id of every visible process."""
    processes: list[tuple[int, int]] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                processes.append((int(name), int(file.read().rpartition(b")")[2].split()[1])))
    return processes


def held_by(root: int, limit: int) -> int:
    """Return the bytes that a process and its descendants use; if they exceed `limit`, count shared pages only once."""
    tree = _tree(root)
    quick = sum(_resident(pid) for pid in tree)
    return quick if quick <= limit else sum(_proportional(pid) for pid in tree)


def threads_of_user() -> int:
    """Return the number of this user's threads on the whole machine, which count toward the limit on processes."""
    total, me = 0, os.getuid()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == me:
                    total += len(os.listdir(f"/proc/{name}/task"))
    return total


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in everyone():
        children.setdefault(parent, []).append(pid)
    tree = [root]
    for pid in tree:
        tree += children.get(pid, [])
    return tree


def _resident(pid: int) -> int:
    """Return the resident bytes of a process, without file pages, which the kernel can drop."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/statm", "rb") as file:
        fields = file.read().split()
        anonymous = int(fields[1]) - int(fields[2])
        return PAGE * anonymous + _rows(f"/proc/{pid}/status").get("RssShmem", 0)
    return 0


def _proportional(pid: int) -> int:
    rows = _rows(f"/proc/{pid}/smaps_rollup")
    return rows["Pss_Anon"] + rows["Pss_Shmem"] if "Pss_Anon" in rows else _resident(pid)


def _rows(path: str) -> dict[str, int]:
    """Return the values in kB of a /proc file, converted to bytes, by name."""
    memory: dict[str, int] = {}
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, rest = line.partition(":")
            words = rest.split()
            if len(words) == 2 and words[1] == "kB":
                memory[name] = int(words[0]) << 10
    return memory
