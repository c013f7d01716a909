"""Files of a working folder, reached by code (`files.py`, `archive.py`) that runs in the jail as the program's own user."""

import errno
from collections.abc import Callable
from functools import cache
from pathlib import Path

from agentgym.errors import BadData
from agentgym.sandbox.protocol import Result, SandboxFault

Run = Callable[[str, bytes, int], Result]
"""Run our code in the jail with an input and at most so many bytes of output."""
MESSAGES = 65536


def read(run: Run, path: str, cap: int) -> bytes:
    """Return a file's content."""
    return _done(run, "read", path, cap=cap)


def write(run: Run, path: str, content: bytes) -> None:
    """Write a file, making its folders."""
    _done(run, "write", path, given=content)


def pack(run: Run, cap: int) -> bytes:
    """Return the working folder as a tar archive."""
    return _done(run, "pack", cap=cap)


def unpack(run: Run, state: bytes) -> None:
    """Make the working folder what an archive of `pack` holds."""
    try:
        _done(run, "unpack", given=state)
    except OSError as error:
        if error.errno != errno.EBADMSG:
            raise
        raise BadData(f"{error.strerror}; expected what snapshot() of a sandbox returned") from error


@cache
def _source(module: str) -> str:
    return Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")


def _program(work: str, path: str | None) -> str:
    """Return the code that does a work of `files.py` or `archive.py`, and needs neither of them there."""
    alone = path is None
    return "\n".join(
        (
            "import os, sys",  # which are there; of all others a model may have left one of its own in the folder
            "sys.path[:] = [place for place in sys.path if place not in ('', os.getcwd())]",
            "import types",
            "files = types.ModuleType('files')",
            f"exec({_source('files')!r}, files.__dict__)",
            _source("archive") if alone else "",
            f"files.main({work})" if alone else f"files.main(files.{work}, {path!r})",
        )
    )


def _done(run: Run, work: str, path: str | None = None, *, given: bytes = b"", cap: int = MESSAGES) -> bytes:
    """Return what a work printed; OSError as it met one, or where limits were in its way."""
    if path is not None and (not path or "\0" in path):
        raise ValueError(f"path is {path!r}; expected one that is relative to the working folder")
    result = run(_program(work, path), given, cap)
    if result.ok:
        return result.stdout
    said, name = result.stderr.decode("utf-8", "backslashreplace").strip(), path or "the working folder"
    if result.reason == "output":
        raise OSError(errno.EFBIG, f"holds more than the {cap} bytes that may be read at once", name)
    if result.reason in ("memory", "killed"):  # by what else runs in the jail
        raise OSError(errno.ENOMEM, "could not be reached: the programs in the jail take all memory or processes", name)
    number, _, words = said.rpartition("\n")[2].partition(" ")
    if result.reason == "exit" and result.exit_code == 3 and number.isdigit():
        raise OSError(int(number), words, name)
    raise SandboxFault(f"{name} could not be reached in the jail ({result.reason}, {result.exit_code}): {said[-500:]}")
