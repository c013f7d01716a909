"""Reads and writes a file of a sandbox's working folder; runs in the sandbox as a separate program, next to hostile files.

Sent there by `working_folder.py`; standard library alone, from Python 3.8 on. An OSError is reported by its number.
"""

import contextlib
import errno
import os
import stat
import sys
from typing import Callable  # noqa: UP035  read by Python 3.8

CHUNK = 1 << 16


def read(path: str) -> None:
    """Print a file's content."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    _check_plain(file, path)
    while True:
        piece = os.read(file, CHUNK)
        if not piece:
            return
        sys.stdout.buffer.write(piece)


def write(path: str) -> None:
    """Write the input to a file, creating its folders."""
    with contextlib.suppress(FileExistsError):  # a file in place of a folder fails at opening
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o644)
    _check_plain(file, path)
    os.ftruncate(file, 0)
    while True:
        piece = sys.stdin.buffer.read(CHUNK)
        if not piece:
            return
        while piece:
            piece = piece[os.write(file, piece) :]


def _check_plain(file: int, path: str) -> None:
    kind = os.fstat(file).st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, "is a folder", path)
    if not stat.S_ISREG(kind):  # a pipe would block, a device has no end
        raise OSError(errno.EINVAL, "is not a plain file", path)


def main(work: "Callable[..., None]", *arguments: object) -> None:
    """Run an operation; print an operating system error as its number and message.

    Raises:
        SystemExit: the operation failed, with exit code 3.
    """
    try:
        work(*arguments)
        sys.stdout.buffer.flush()
    except OSError as error:
        sys.stderr.write(f"{error.errno or errno.EIO} {error.strerror or error}\n")
        raise SystemExit(3) from None
