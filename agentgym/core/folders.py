"""Folders that runs write to: one writer at a time, and files that are either complete or absent."""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from agentgym.errors import BadConfig


def check_folder(folder: Path) -> None:
    """Check that a folder can be created and written to.

    Raises:
        BadConfig: part of its path is a file or read-only.
    """
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise BadConfig(f"out is {folder}, but {there} is a file; expected a folder to write to")
    if not os.access(there, os.W_OK | os.X_OK):
        raise BadConfig(f"out is {folder}, but nothing can be written to {there}; choose another folder with --out")


def check_file(flag: str, file: Path, *, replaced: bool) -> None:
    """Check that a file can be appended to, or `replaced` as by `write_whole`; `flag` is the option that names it.

    Raises:
        BadConfig: the path is a folder, its folder is missing, or the file (its folder, if it is new or `replaced`) is
            read-only.
    """
    if file.is_dir() or not file.parent.is_dir():
        what = file if file.is_dir() else file.parent
        raise BadConfig(
            f"{flag} is {file}, but {what} is {'' if what is file else 'not '}a folder; expected a file to write"
        )
    if file.exists() and not replaced:
        if not os.access(file, os.W_OK):
            raise BadConfig(f"{flag} is {file}, but nothing can be written to {file}; choose another file")
    elif not os.access(file.parent, os.W_OK | os.X_OK):
        raise BadConfig(f"{flag} is {file}, but nothing can be written to {file.parent}; choose another folder")


def below(folder: str, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[tuple[str, list[str]]]:
    """Yield `folder` and each folder below it, with the names of its files; links are followed.

    `above` identifies the folders on the path; a link back to one of them is not followed, so there is no endless loop.
    Unreadable folders are skipped.
    """
    try:
        status = os.stat(folder)  # noqa: PTH116  (thousands of them)
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    here = (status.st_dev, status.st_ino)
    if here in above:
        return
    folders = [entry.name for entry in entries if entry.is_dir()]
    yield folder, [entry.name for entry in entries if entry.name not in {*folders}]
    for name in folders:
        yield from below(os.path.join(folder, name), above | {here})  # noqa: PTH118


def cache(name: str) -> Path:
    """Return the path of the cache folder `name`, in AGENTGYM_CACHE or else in the user's cache; it may not exist yet."""
    base = os.environ.get("AGENTGYM_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentgym"
    return Path(base) / name


@contextmanager
def alone(folder: Path, what: str) -> Generator[None]:
    """Make a folder and lock it inside the block, so that it has one writer; the lock ends even if the process is killed.

    Raises:
        BadConfig: the folder is already locked; `what`, such as "evaluation", names the other writer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as file:
        hold(file, f"another {what} is writing to {folder}: wait for its end, or choose another --out")
        yield


def check_alone(folder: Path, what: str) -> None:
    """Check that no other writer has locked the folder; see `alone`.

    Raises:
        BadConfig: the folder is locked.
    """
    if (folder / ".lock").is_file():
        with alone(folder, what):
            pass


def hold(file: IO[str] | IO[bytes], busy: str) -> None:
    """Lock an open file until it is closed; do nothing if the system cannot lock it.

    Raises:
        BadConfig: another process has the lock; `busy` is the message.
    """
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BadConfig(busy) from None
    except (ImportError, OSError):  # Windows, and file systems without locks: a user's own care has to do
        pass


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a crash leaves either the old file or the complete new one; lone surrogates become `?`."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)  # a link that somebody else put there would be followed
    try:
        part.write_bytes(text.encode("utf-8", "replace"))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def remove_parts(folder: Path) -> None:
    """Remove the partial files that interrupted calls of `write_whole` left in a folder."""
    for part in folder.glob("*.part"):
        part.unlink(missing_ok=True)


def end_of_lines(file: IO[bytes]) -> int:
    """Return the position after the last newline of a file, in bytes: the length of its complete lines."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        begin = max(0, end - 65536)
        file.seek(begin)
        newline = file.read(end - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0
