"""Reads and writes a file in a sandbox's working folder. Runs in the sandbox as a separate program, next to hostile files.

`working_folder.py` sends it into the sandbox. Standard library only, from Python 3.8 on.
"""

import contextlib
import errno
import os
import stat
import sys
from typing import Callable  # noqa: UP035  read by Python 3.8

CHUNK = 1 << 16


def read(path: str) -> None:
    """Print the content of a file to standard output."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    _check_plain(file, path)
    while True:
        piece = os.read(file, CHUNK)
        if not piece:
            return
        sys.stdout.buffer.write(piece)


def write(path: str) -> None:
    """Write standard input to a file, creating its folders."""
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
    """Run an operation; if it raises OSError, print the error number and message to standard error.

    Raises:
        SystemExit: the operation raised OSError; the exit code is 3.
    """
    try:
        work(*arguments)
        sys.stdout.buffer.flush()
    except OSError as error:
        sys.stderr.write(f"{error.errno or errno.EIO} {error.strerror or error}\n")
        raise SystemExit(3) from None
