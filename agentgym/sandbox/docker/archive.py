"""File access in a container, through common tools in the image (a shell, `cat`, `tar`) or through the daemon."""

import io
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from agentgym.sandbox.docker.daemon import Daemon, docker, faults
from agentgym.sandbox.protocol import BadPath, ExitReason, Result, SandboxFault

Do = Callable[[str, Sequence[str], bytes, int], Result]
"""Function that runs a trusted shell script in the sandbox, with arguments, an input and a limit on output bytes."""
MESSAGES = 65536
ABSENT, FOLDER, SPECIAL = 44, 45, 46
"""Exit codes of the read script: no such file, a folder, neither file nor folder."""

_READ = (
    f'if [ -d "$1" ]; then exit {FOLDER}; fi; if [ ! -e "$1" ]; then exit {ABSENT}; fi; '
    f'if [ ! -f "$1" ]; then exit {SPECIAL}; fi; exec cat -- "$1"'
)
_WRITE = 'case $1 in */*) mkdir -p -- "${1%/*}" || exit;; esac; exec cat >"$1"'
_PACK = f'if [ ! -e "$1" ]; then exit {ABSENT}; fi; cd -- "$(dirname -- "$1")" && exec tar -cf - -- "$(basename -- "$1")"'
_PACK_HERE = "exec tar -cf - ."
_UNPACK = 'mkdir -p -- "$1" && cd -- "$1" && exec tar -xpf -'
_REPLACE = "rm -rf -- ..?* .[!.]* * && exec tar -xpf -"


def read(do: Do, path: str, cap: int) -> bytes:
    """Return a file's content; raise FileNotFoundError, IsADirectoryError, or OSError if it exceeds `cap` bytes."""
    return _checked(do(_READ, [_path(path)], b"", cap), path).stdout


def write(do: Do, path: str, content: bytes) -> None:
    """Write a file, creating its folders."""
    _checked(do(_WRITE, [_path(path)], content, MESSAGES), path)


def pack(do: Do, path: str, cap: int) -> bytes:
    """Return a file or folder as a tar archive; `.` gives the content of the working folder.

    Raise FileNotFoundError, or OSError if the archive exceeds `cap` bytes.
    """
    script = _PACK_HERE if path == "." else _PACK
    return _checked(do(script, [_path(path)], b"", cap), path).stdout


def unpack(do: Do, archive: bytes, path: str) -> None:
    """Unpack a tar archive in a folder, creating it."""
    _checked(do(_UNPACK, [_path(path)], _whole(archive), MESSAGES), path)


def replace(do: Do, archive: bytes) -> None:
    """Replace the content of the working folder with that of a tar archive."""
    _checked(do(_REPLACE, [], _whole(archive), MESSAGES), ".")


def put(daemon: Daemon, container: str, archive: bytes, path: str) -> None:
    """Unpack a tar archive in a folder as root, through the daemon, and create the folder if necessary.

    Raises:
        SandboxFault: the daemon fails.
    """
    moved = io.BytesIO()
    folder = PurePosixPath(_absolute(path).lstrip("/"))
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as source,
        tarfile.open(fileobj=moved, mode="w", format=tarfile.PAX_FORMAT) as packed,
    ):
        for parent in [*reversed(folder.parents), folder][1:]:
            entry = tarfile.TarInfo(str(parent))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            packed.addfile(entry)
        for member in source:
            member.name = str(folder / member.name.lstrip("/"))
            if member.islnk():
                member.linkname = str(folder / member.linkname.lstrip("/"))
            packed.addfile(member, source.extractfile(member) if member.isreg() else None)
    with faults():
        if not daemon.client.api.put_archive(container, "/", moved.getvalue()):
            raise SandboxFault(f"the container daemon could not unpack an archive in {path}")


def get(daemon: Daemon, container: str, path: str, cap: int) -> bytes:
    """Return a file or folder as a tar archive, through the daemon.

    Raises:
        FileNotFoundError: the path does not exist.
        OSError: the archive is larger than `cap` bytes.
    """
    try:
        with faults():
            pieces: Iterable[bytes] = daemon.client.api.get_archive(container, _absolute(path))[0]
            content = bytearray()
            for piece in pieces:
                content += piece
                if len(content) > cap:
                    raise OSError(f"{path} holds more than may be read at once")
    except docker().errors.NotFound as error:
        raise FileNotFoundError(f"no {path} in the container") from error
    return bytes(content)


def _whole(archive: bytes) -> bytes:
    """Return a valid archive unchanged; raise tarfile.ReadError for an invalid one, before anything is deleted."""
    with tarfile.open(fileobj=io.BytesIO(archive)):
        return archive


def _path(path: str) -> str:
    if not path or "\0" in path:
        raise BadPath(f"path is {path!r}; expected the path of a file or folder in the container")
    return f"./{path}" if path.startswith("-") else path


def _absolute(path: str) -> str:
    if not _path(path).startswith("/"):
        raise BadPath(f"path is {path!r}; expected an absolute one")
    return path


def _checked(result: Result, path: str) -> Result:
    if result.ok:
        return result
    if result.reason == ExitReason.OUTPUT:
        raise OSError(f"{path} holds more than may be read at once")
    kinds: dict[int, type[OSError]] = {ABSENT: FileNotFoundError, FOLDER: IsADirectoryError, SPECIAL: OSError}
    message = result.stderr.decode("utf-8", "backslashreplace").strip().rpartition("\n")[2]
    if result.reason == ExitReason.EXIT and result.exit_code in kinds:
        raise kinds[result.exit_code](f"{path}: {message or 'no plain file there'}")
    if result.reason == ExitReason.EXIT:
        raise OSError(f"{path}: {message or f'exit code {result.exit_code}'}")
    raise SandboxFault(f"{path} could not be reached in the container ({result.reason}, {result.exit_code}): {message}")
