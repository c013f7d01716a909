"""Packs and restores a sandbox's working folder. Runs in the sandbox as a separate program, next to hostile files.

`working_folder.py` sends it into the sandbox, with `files.py`. Standard library only, from Python 3.8 on.
"""

import errno
import os
import stat
import sys
import tarfile


def pack(most: int) -> None:
    """Print a tar archive of the working folder: its files (at most `most` bytes in total), folders and links.

    Raises:
        OSError: the files have more than `most` bytes, counting holes in sparse files.
    """
    opened: list[tuple[str, int]] = []  # entries without access for their owner, with their original mode
    try:
        with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            _open_up(os.getcwd(), stat.S_IRWXU, opened)
            left = sorted(os.listdir("."), reverse=True)
            while left:  # no recursion, since folders may be arbitrarily deep
                path = left.pop()
                if not stat.S_ISSOCK(os.lstat(path).st_mode):  # tar has no sockets
                    member = archive.gettarinfo(path, path)
                    member.mtime = min(max(member.mtime, 0), 1 << 33)  # other times cannot be restored
                    most -= member.size
                    if most < 0:
                        raise OSError(errno.EFBIG, "holds more than the folder it is to be restored to")
                    left += _add(archive, member, opened)
    finally:
        for path, mode in reversed(opened):
            os.chmod(path, mode)


def _add(archive: tarfile.TarFile, member: tarfile.TarInfo, opened: "list[tuple[str, int]]") -> "list[str]":
    """Add a member to the archive, and return the paths of its children."""
    path = member.name
    if member.isreg():
        _open_up(path, stat.S_IRUSR, opened)
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it may have been replaced meanwhile
                archive.addfile(member, file)
    elif member.isdir() or member.issym() or member.islnk():
        archive.addfile(member)
    if not member.isdir():
        return []
    _open_up(path, stat.S_IRWXU, opened)
    return [path + "/" + name for name in sorted(os.listdir(path), reverse=True)]


def _open_up(path: str, needed: int, opened: "list[tuple[str, int]]") -> None:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if needed & ~mode:
        os.chmod(path, mode | needed)
        opened.append((path, mode))


def unpack() -> None:
    """Replace the content of the working folder with the archive on standard input.

    Raises:
        OSError: the input is not an archive that `pack` wrote.
    """
    try:
        archive = tarfile.open(fileobj=sys.stdin.buffer, mode="r|")  # noqa: SIM115
    except tarfile.TarError as error:  # before anything is deleted
        raise OSError(errno.EBADMSG, f"the state is not an archive of a snapshot: {error}") from error
    clear(os.getcwd())
    with archive:
        archive.extraction_filter = lambda member, path: member  # ignored by Python before 3.11.4
        archive.extractall(".", members=map(_inside, archive))


def _inside(member: tarfile.TarInfo) -> tarfile.TarInfo:
    if member.name.startswith("/") or ".." in member.name.split("/"):
        raise OSError(errno.EBADMSG, f"the archive leads out of the folder, to {member.name!r}")
    return member


def clear(folder: str) -> None:
    """Empty a folder. Subfolders are first moved up, so that no path gets too long and no recursion is needed."""
    os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | stat.S_IRWXU)
    left, number, mark = [folder], 0, os.urandom(8).hex()
    while left:
        place = left.pop()
        with os.scandir(place) as listing:
            entries = list(listing)
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, stat.S_IRWXU)
            left.append(f"{folder}/{mark}-{number}")
            number += 1
            os.rename(entry.path, left[-1])
        if place != folder:
            os.rmdir(place)
