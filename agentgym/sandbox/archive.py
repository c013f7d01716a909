"""Packs a jail's working folder and makes it what it was: runs in the jail, as a program of its own, next to hostile files.

Sent there by `inside.py`, with `files.py`; standard library alone, from Python 3.8 on.
"""

import errno
import os
import stat
import sys
import tarfile
from typing import BinaryIO, Iterator  # noqa: UP035  read by Python 3.8

CHUNK = 1 << 16


def pack() -> None:
    """Print an archive of the folder: plain files with their holes, folders, links."""
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        left = sorted(os.listdir("."), reverse=True)
        while left:  # no recursion: folders may lie deeper than that goes
            path = left.pop()
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                continue
            member = archive.gettarinfo(path, path)
            if member.isreg():
                _add_file(archive, member, path)
            elif member.isdir() or member.issym() or member.islnk():
                archive.addfile(member)
            if member.isdir():
                left += [path + "/" + name for name in sorted(os.listdir(path), reverse=True)]


def _add_file(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    """Add a file; one with holes as GNU's sparse format 1.0 has it: a map of its parts, then these."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return  # it has become something else meanwhile
        parts = _parts(file.fileno(), member.size)
        if parts == [(0, member.size)] or not member.size:
            archive.addfile(member, file)
            return
        head = "".join([f"{len(parts)}\n", *(f"{start}\n{length}\n" for start, length in parts)]).encode()
        head += bytes(-len(head) % tarfile.BLOCKSIZE)
        member.pax_headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": path,
            "GNU.sparse.realsize": str(member.size),
        }
        member.size = len(head) + sum(length for _, length in parts)
        archive.addfile(member, _Parts(head, file, parts))


class _Parts:
    """Reads a head, then the parts of a file that are no holes."""

    def __init__(self, head: bytes, file: BinaryIO, parts: "list[tuple[int, int]]") -> None:
        self.held, self.pieces = head, _pieces(file, parts)

    def read(self, size: int = 0, /) -> bytes:
        while len(self.held) < size:
            self.held += next(self.pieces)
        given, self.held = self.held[:size], self.held[size:]
        return given


def _pieces(file: BinaryIO, parts: "list[tuple[int, int]]") -> "Iterator[bytes]":
    for start, length in parts:
        for place in range(start, start + length, CHUNK):
            wanted = min(CHUNK, start + length - place)
            file.seek(place)
            yield file.read(wanted).ljust(wanted, b"\0")  # the file may have become shorter


def _parts(file: int, size: int) -> "list[tuple[int, int]]":
    """Return start and length of all that is no hole."""
    found: list[tuple[int, int]] = []
    place = 0
    while place < size:
        try:
            start = os.lseek(file, place, os.SEEK_DATA)
        except OSError:  # nothing but a hole follows
            break
        place = min(os.lseek(file, start, os.SEEK_HOLE), size)
        found.append((start, place - start))
    os.lseek(file, 0, os.SEEK_SET)
    return found


def unpack() -> None:
    """Make the folder what the archive in the input holds."""
    try:
        archive = tarfile.open(fileobj=sys.stdin.buffer, mode="r|")  # noqa: SIM115
    except tarfile.TarError as error:  # before anything is deleted
        raise OSError(errno.EBADMSG, f"the state is no archive of a snapshot: {error}") from error
    clear(".")
    with archive:
        archive.extraction_filter = lambda member, path: _inside(member)
        archive.extractall(".")


def _inside(member: tarfile.TarInfo) -> tarfile.TarInfo:
    if member.name.startswith("/") or ".." in member.name.split("/"):
        raise OSError(errno.EBADMSG, "the archive leads out of the folder", member.name)
    return member


def clear(folder: str) -> None:
    """Empty a folder. What lies deep is moved up first, so that no path is too long and nothing recurses."""
    os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | 0o700)
    left, number, mark = [folder], 0, os.urandom(8).hex()
    while left:
        place = left.pop()
        with os.scandir(place) as found:
            entries = list(found)
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, 0o700)
            left.append(f"{folder}/{mark}-{number}")
            number += 1
            os.rename(entry.path, left[-1])
        if place != folder:
            os.rmdir(place)
