"""Prints a hash of a sandbox's files, and its processes. Runs inside the sandbox: standard library only.

Standard input is JSON: `roots` (folders to walk), `paths` (single files), `without` (paths to skip) and `most` (maximum
bytes to read). The output is JSON: `key` (the hash, or null if a file could not be read), and the processes before and
after (`processes`, `after`).
"""

import hashlib
import json
import os
import stat
import sys
from typing import Any, Dict, Iterator, List  # noqa: UP035  read by Python 3.8

PIECE = 1 << 20


class UnreadableFile(Exception):
    """A file that belongs to the hash cannot be read, or is too large."""


def below(root: str, without: List[str]) -> Iterator[str]:  # noqa: UP006
    """Yield a path and all paths below it in a fixed order, without those in `without`.

    Raises:
        UnreadableFile: a folder cannot be read.
    """
    if root in without:
        return
    yield root
    try:
        facts = os.lstat(root)
        names = sorted(os.listdir(root)) if stat.S_ISDIR(facts.st_mode) else []
    except FileNotFoundError:
        return
    except OSError as error:
        raise UnreadableFile(root) from error
    for name in names:
        yield from below(os.path.join(root, name), without)


def entry(path: str, room: int, names: "dict[tuple[int, int], str]") -> "tuple[bytes, int]":
    """Return a path's metadata and content as bytes, and the number of content bytes read.

    `names` maps each inode to the first path seen; a further hard link gives that path instead of the content.

    Raises:
        UnreadableFile: the path cannot be read, or has more than `room` bytes.
    """
    try:
        facts = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return b"gone", 0
    except OSError as error:
        raise UnreadableFile(path) from error
    what = f"{facts.st_mode:o} {facts.st_uid} {facts.st_gid}"
    if stat.S_ISLNK(facts.st_mode):
        return (what + " " + os.readlink(path)).encode("utf-8", "surrogateescape"), 0
    if not stat.S_ISREG(facts.st_mode):
        return what.encode(), 0
    first = names.setdefault((facts.st_dev, facts.st_ino), path)
    if first != path:
        return (what + " name " + first).encode("utf-8", "surrogateescape"), 0
    if facts.st_size > room:
        raise UnreadableFile(path)
    digest = hashlib.blake2b(digest_size=16)
    try:
        with open(path, "rb") as file:
            for piece in iter(lambda: file.read(PIECE), b""):
                digest.update(piece)
    except OSError as error:
        raise UnreadableFile(path) from error
    return what.encode() + b" " + digest.digest(), facts.st_size


def key(request: Dict[str, Any]) -> "str | None":  # noqa: UP006
    """Return the hash of the requested files in hexadecimal; None if a file cannot be read or they exceed `most` bytes."""
    digest, room = hashlib.blake2b(digest_size=16), request["most"]
    without = request["without"]
    names: dict[tuple[int, int], str] = {}
    try:
        looked = [path for root in request["roots"] for path in below(root, without)]
        looked += [path for path in request["paths"] if not any(path == w or path.startswith(w + "/") for w in without)]
        for path in sorted(set(looked)):
            described, read = entry(path, room, names)
            room -= read
            name = path.encode("utf-8", "surrogateescape")
            digest.update(b"%d " % len(name) + name + b"%d " % len(described) + described)
    except (UnreadableFile, RecursionError, OSError):
        return None
    return digest.hexdigest()


def running() -> List[List[int]]:  # noqa: UP006
    """Return the process id and start time (clock ticks) of every process except this one, process 1 and zombies."""
    found: List[List[int]] = []  # noqa: UP006
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in (1, os.getpid()):
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            found.append([int(name), int(fields[19])])
    return sorted(found)


def main() -> None:
    """Read the request from standard input, and print the answer."""
    request = json.loads(sys.stdin.read())
    sys.setrecursionlimit(100000)  # folders may be deep
    processes = running()
    print(json.dumps({"key": key(request), "processes": processes, "after": running()}))
