"""File access to a working folder through code (`files.py`, `archive.py`) that runs in the sandbox as the programs' user."""

import errno
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from agentgym.errors import BadData
from agentgym.sandbox.protocol import BadPath, ExitReason, Result, SandboxFault

Run = Callable[[str, bytes, int], Result]
"""Function that runs trusted Python code in the sandbox, with an input and a limit on output bytes."""
MESSAGES = 65536
LONGEST = 4096
"""Length in bytes from which system calls reject a path."""


def read(run: Run, path: str, cap: int) -> bytes:
    """Return a file's content; raise OSError (such as FileNotFoundError), also if it exceeds `cap` bytes."""
    return _done(run, "files.read", _checked(path), cap=cap)


def write(run: Run, path: str, content: bytes) -> None:
    """Write a file, creating its folders."""
    _done(run, "files.write", _checked(path), stdin=content)


def pack(run: Run, cap: int, most: int | None = None) -> bytes:
    """Return the working folder as a tar archive.

    Raise OSError if the archive exceeds `cap` bytes, or its files exceed `most` bytes in total (None: `cap`).
    """
    return _done(run, "pack", cap if most is None else most, cap=cap)


def packing(most: int) -> str:
    """Return code that prints the working folder as a tar archive; it fails if the files exceed `most` bytes in total."""
    return _program("pack", (most,))


def packed(result: Result, cap: int) -> bytes:
    """Return the archive that `packing` printed.

    Raises:
        OSError: the folder cannot be packed, or its archive exceeds `cap` bytes.
        SandboxFault: the sandbox failed.
    """
    return _printed(result, "the working folder", cap)


def unpack(run: Run, state: bytes) -> None:
    """Replace the content of the working folder with an archive from `pack`.

    Raises:
        BadData: the state is not such an archive.
        OSError: the folder cannot be restored.
    """
    try:
        _done(run, "unpack", stdin=state)
    except OSError as error:
        if error.errno != errno.EBADMSG:
            raise
        raise BadData(f"{error.strerror}; expected what snapshot() of a sandbox returned") from error


@cache
def _source(module: str) -> str:
    return (Path(__file__).parent / "inside" / f"{module}.py").read_text(encoding="utf-8")


def _checked(path: str) -> str:
    try:
        length = len(os.fsencode(path))
    except UnicodeEncodeError:
        length = 0
    if not length or "\0" in path:
        raise BadPath(f"path is {path!r}; expected one that is relative to the working folder")
    if length >= LONGEST:
        raise OSError(errno.ENAMETOOLONG, f"is longer than {LONGEST} bytes", f"{path[:100]}…")
    return path


def _program(work: str, arguments: Sequence[str | int]) -> str:
    """Return self-contained code for an operation of `files.py` or `archive.py`."""
    return "\n".join(
        (
            "import os, sys",  # loaded already; the folder may contain a model's own version of any other
            "sys.path[:] = [place for place in sys.path if place not in ('', os.getcwd())]",
            "import types",
            "files = types.ModuleType('files')",
            f"exec({_source('files')!r}, files.__dict__)",
            "" if work.startswith("files.") else _source("archive"),
            f"files.main({', '.join([work, *map(repr, arguments)])})",
        )
    )


def _done(run: Run, work: str, *about: str | int, stdin: bytes = b"", cap: int = MESSAGES) -> bytes:
    name = next((path for path in about if isinstance(path, str)), "the working folder")
    return _printed(run(_program(work, about), stdin, cap), name, cap)


def _printed(result: Result, name: str, cap: int) -> bytes:
    """Return the output of an operation on the file or folder `name`.

    Raises:
        OSError: the operation failed, or exceeded a limit.
        SandboxFault: the sandbox failed.
    """
    if result.ok:
        return result.stdout
    message = result.stderr.decode("utf-8", "backslashreplace").strip()
    if result.reason == ExitReason.OUTPUT:
        raise OSError(errno.EFBIG, f"holds more than the {cap} bytes that may be read at once", name)
    if result.reason in ("memory", "killed"):  # caused by other programs in the sandbox
        raise OSError(errno.ENOMEM, "could not be reached: the programs in the sandbox take all memory or processes", name)
    number, _, words = message.rpartition("\n")[2].partition(" ")
    if result.reason == ExitReason.EXIT and result.exit_code == 3 and number.isdigit():
        raise OSError(int(number), words, name)
    raise SandboxFault(f"{name} could not be reached in the sandbox ({result.reason}, {result.exit_code}): {message[-500:]}")
