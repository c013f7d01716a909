"""Repositories as mappings path -> content, read from a folder, an archive, or this package."""

import hashlib
import io
import tarfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

from agentgym.errors import BadData, UnknownName, no_such

REPOSITORIES = Path(__file__).parents[1] / "packages"
EMBEDDED = "package:"
"""Prefix of a built-in repository's source."""
LARGEST = 50 << 20  # bytes of a repository; a larger folder was probably named by mistake
IGNORED = {"__pycache__", "build", "dist", "node_modules", "venv", "site-packages"}
SKIPPED = (".pyc", ".pyo", ".egg-info")


def tree_of(source: str) -> dict[str, bytes]:
    """Return the files of a repository: `package:NAME`, a folder, or a tar archive (a single top folder is stripped).

    Version control, caches, builds, links and dotfiles are left out.

    Raises:
        UnknownName: there is no built-in repository of this name.
        FileNotFoundError: there is no such folder or file.
        BadData: the repository cannot be read, is too large or contains no Python file.
    """
    whole = Path(source)
    return _read(source) if whole.is_dir() else dict(_cached(source))  # folders are not cached, since they may change


@lru_cache(maxsize=64)
def _cached(source: str) -> dict[str, bytes]:
    return _read(source)


def _read(source: str) -> dict[str, bytes]:
    if source.startswith(EMBEDDED):
        name = source.removeprefix(EMBEDDED)
        if name not in embedded():
            raise UnknownName(no_such("embedded repository", name, embedded()))
        path = REPOSITORIES / name
    else:
        path = Path(source)
    if not path.exists():
        raise FileNotFoundError(2, "no such repository: expected a folder or a tar archive", str(path))
    tree = _folder(path) if path.is_dir() else _archive(path)
    if not any(name.endswith(".py") for name in tree):
        raise BadData(f"{path}: no Python file in it; expected a folder or an sdist (.tar.gz) of a Python package")
    return tree


def embedded() -> list[str]:
    """Return the names of the built-in repositories."""
    return sorted(path.name for path in REPOSITORIES.iterdir() if path.is_dir() and not _ignored(path.name))


def digest(tree: Mapping[str, bytes]) -> str:
    """Return a hash of all paths and contents."""
    digest_so_far = hashlib.sha256()
    for path in sorted(tree):
        digest_so_far.update(f"{path}\0{len(tree[path])}\0".encode("utf-8", "surrogateescape"))  # not always UTF-8
        digest_so_far.update(tree[path])
    return digest_so_far.hexdigest()[:32]


def pack(tree: Mapping[str, bytes]) -> bytes:
    """Return a tar archive of a repository; equal repositories give equal bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(tree[path]), 0o644
            archive.addfile(member, io.BytesIO(tree[path]))
    return buffer.getvalue()


def unpack(state: bytes, folder: str = "") -> dict[str, bytes]:
    """Return the regular files of a tar archive, such as a sandbox's snapshot: path -> content.

    `folder` selects the files in one folder, with paths relative to it. Hard links become files, up to `LARGEST` bytes in
    total.
    """
    contents, files, room = dict[str, bytes](), dict[str, bytes](), LARGEST
    with tarfile.open(fileobj=io.BytesIO(state)) as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if member.isreg() and not member.issparse() and (file := archive.extractfile(member)):
                files[member.name] = file.read()
            elif member.islnk() and len(files.get(member.linkname, b"")) <= room and member.linkname in files:
                files[member.name] = files[member.linkname]
                room -= len(files[member.name])
            if member.name in files and (not folder or path.is_relative_to(folder)):
                contents[str(path.relative_to(folder) if folder else path)] = files[member.name]
    return contents


def _folder(root: Path) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    left, size = [root], 0
    while left:
        for path in sorted(left.pop().iterdir()):
            if _ignored(path.name) or path.is_symlink():
                continue
            if path.is_dir():
                left.append(path)
            elif path.is_file():
                size += path.stat().st_size
                _check_size(size, root)
                contents[path.relative_to(root).as_posix()] = path.read_bytes()
    return contents


def _archive(path: Path) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    size = 0
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                size += member.size
                _check_size(size, path)
                parts = PurePosixPath(member.name).parts
                if ".." in parts or any(_ignored(part) for part in parts) or not member.isreg():
                    continue
                file = archive.extractfile(member)
                if file is not None:
                    contents["/".join(parts)] = file.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise BadData(f"{path}: no readable tar archive ({error}); expected an sdist such as NAME-1.0.tar.gz") from error
    tops = {name.partition("/")[0] for name in contents}
    if len(tops) == 1 and all("/" in name for name in contents):
        return {name.partition("/")[2]: content for name, content in contents.items()}
    return contents


def _ignored(name: str) -> bool:
    return name in IGNORED or name.startswith(".") or name.endswith(SKIPPED)


def _check_size(size: int, where: Path) -> None:
    if size > LARGEST:
        raise BadData(f"{where}: more than {LARGEST >> 20} MiB; expected the folder of one Python package")
