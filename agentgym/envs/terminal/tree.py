"""A folder's content outside the sandbox: files, folders and links as plain data."""

import hashlib
import io
import posixpath
import stat
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass

LONG_AGO = 1_704_103_200
"""Default modification time of a task's files, in seconds since 1970: 2024-01-01, 10:00 UTC."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a folder or a symbolic link."""

    kind: str
    """`file`, `folder` or `link`."""
    content: bytes = b""
    """A file's bytes, or a link's target."""
    mode: int = 0o644
    time: int = LONG_AGO
    """Modification time in seconds since 1970."""


Tree = Mapping[str, Entry]
"""Entries by path relative to a folder; entries of non-empty folders may be omitted."""


def file(content: str | bytes, mode: int = 0o644, time: int = LONG_AGO) -> Entry:
    """Return the entry of a file."""
    return Entry("file", content.encode() if isinstance(content, str) else content, mode, time)


def folder(mode: int = 0o755) -> Entry:
    """Return the entry of a folder."""
    return Entry("folder", mode=mode)


def link(target: str) -> Entry:
    """Return the entry of a symbolic link."""
    return Entry("link", target.encode(), 0o777)


def pack(tree: Tree, below: str) -> bytes:
    """Return a tar archive with the tree in a folder named `below`; equal trees give equal bytes."""
    whole = {below: folder(), **{f"{below}/{path}": entry for path, entry in tree.items()}}
    for path in list(whole):
        while path := posixpath.dirname(path):
            whole.setdefault(path, folder())
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, entry in sorted(whole.items()):
            member = tarfile.TarInfo(path)
            member.mode, member.mtime = entry.mode, entry.time
            if entry.kind == "file":
                member.size = len(entry.content)
            else:
                member.type = tarfile.DIRTYPE if entry.kind == "folder" else tarfile.SYMTYPE
                member.linkname = entry.content.decode("utf-8", "surrogateescape")
            archive.addfile(member, io.BytesIO(entry.content) if entry.kind == "file" else None)
    return buffer.getvalue()


def unpack(archive: bytes) -> dict[str, Entry]:
    """Return the entries of a tar archive of a sandbox's folder, by path."""
    entries: dict[str, Entry] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            mode, time = stat.S_IMODE(member.mode), int(member.mtime)
            if member.isdir():
                entries[member.name] = Entry("folder", mode=mode, time=time)
            elif member.issym():
                entries[member.name] = Entry("link", member.linkname.encode("utf-8", "surrogateescape"), mode, time)
            elif member.islnk() and member.linkname in entries:  # a hard link
                entries[member.name] = entries[member.linkname]
            elif member.isreg():
                content = opened.extractfile(member)
                entries[member.name] = Entry("file", content.read() if content else b"", mode, time)
    return entries


def staged(index: bytes) -> bytes:
    """Return the names, modes and content hashes in a git index, without times and inodes; other data is unchanged."""
    if index[:4] != b"DIRC" or index[4:8] not in (b"\0\0\0\2", b"\0\0\0\3"):
        return index
    sections, place = [index[8:12]], 12
    for _ in range(int.from_bytes(index[8:12], "big")):
        flags = int.from_bytes(index[place + 60 : place + 62], "big")
        start = place + (64 if flags & 0x4000 else 62)
        end = index.find(b"\0", start)
        if end < 0:
            return index
        sections.append(index[place + 24 : place + 28] + index[place + 40 : end])
        place += (end - place) // 8 * 8 + 8
    return b"\0".join(sections)


def below(tree: Tree, name: str) -> dict[str, Entry]:
    """Return the entries below a folder of the tree, by path relative to that folder."""
    return {path[len(name) + 1 :]: entry for path, entry in tree.items() if path.startswith(f"{name}/")}


def digest(tree: Tree) -> str:
    """Return a hash of all paths, kinds, modes and contents; times are ignored, also those in a git index.

    A hard link is hashed as a reference to the file's first name, since a change through either name affects both.
    """
    whole, first = hashlib.blake2b(digest_size=16), dict[int, str]()
    for path, entry in sorted(tree.items(), key=lambda item: item[0]):
        kind, content = entry.kind, staged(entry.content) if path.endswith(".git/index") else entry.content
        if first.setdefault(id(entry), path) != path:
            kind, content = "name", first[id(entry)].encode("utf-8", "surrogateescape")
        for part in (path.encode("utf-8", "surrogateescape"), kind.encode(), b"%o" % entry.mode, content):
            whole.update(b"%d:" % len(part))
            whole.update(part)
    return whole.hexdigest()


def at(tree: Tree, path: str, home: str) -> tuple[str, Entry | None]:
    """Resolve links in a path and return the new path and its entry, if any; `home` is the absolute path of the tree."""
    for _ in range(20):
        path, entry = posixpath.normpath(path), None
        parts = path.split("/")
        for length in range(1, len(parts) + 1):
            front = "/".join(parts[:length])
            entry = tree.get(front)
            if entry is not None and entry.kind == "link":
                path = _led(front, entry, "/".join(parts[length:]), home)
                break
        else:
            return path, entry
    return path, None


def _led(front: str, entry: Entry, rest: str, home: str) -> str:
    target = entry.content.decode("utf-8", "surrogateescape")
    target = posixpath.normpath(target if target.startswith("/") else f"{home}/{posixpath.dirname(front)}/{target}")
    inside = target[len(home) + 1 :] if target.startswith(f"{home}/") else "../outside"
    return f"{inside}/{rest}" if rest else inside
