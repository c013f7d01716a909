"""Artifacts: files that the agent's container passes to a separate verifier, and hooks that write some of these files.

Artifacts are copied as root, sanitized on the host, and placed at the same paths in the verifier's container. The agent
may have written them, so devices, setuid bits and links that leave an artifact are removed.
"""

import contextlib
import fnmatch
import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

from agentgym.envs.terminal.harbor import tables
from agentgym.errors import BadData
from agentgym.sandbox.protocol import SandboxFault

MAIN = "main"
"""Name of the service that is the agent's container."""
PUBLISHED = "/logs/artifacts"
"""Folder of artifacts that is collected from every task, even if the task does not list it."""


@dataclass(frozen=True)
class Artifact:
    """A file or folder to collect from the container of `service`."""

    source: str
    destination: str = ""
    """Harbor's path for the artifact on the host; empty: `source`. Of two artifacts with one path, the first counts."""
    exclude: tuple[str, ...] = ()
    """Patterns of `tar --exclude`; they apply within a folder."""
    service: str = MAIN

    @property
    def output(self) -> PurePosixPath:
        """Path among a trial's artifacts."""
        return PurePosixPath("/", self.destination or self.source)

    def covers(self, other: "Artifact") -> bool:
        """Return True if this artifact includes the other one entirely, with the same destination."""
        mine, others = PurePosixPath(self.source), PurePosixPath(other.source)
        if not others.is_relative_to(mine):
            return False
        if others == mine and other.output == self.output:
            return (self.exclude, self.service) == (other.exclude, other.service)
        return not self.exclude and self.service == other.service and other.output == self.output / others.relative_to(mine)

    def clashes(self, other: "Artifact") -> bool:
        """Return True if two artifacts would overwrite each other."""
        one, two = self.output, other.output
        return one.is_relative_to(two) or two.is_relative_to(one)


@dataclass(frozen=True)
class Hook:
    """A command that runs after the agent and before artifacts are collected."""

    command: str
    user: str = ""
    seconds: float = 60.0
    service: str = MAIN


def artifacts_in(raw: Mapping[str, object], file: Path) -> tuple[Artifact, ...]:
    """Return the artifacts that a table lists.

    Raises:
        BadData: the value is not a list.
    """
    listed: object = raw.get("artifacts") or list[object]()
    if not isinstance(listed, list):
        raise BadData(f"{file}: artifacts is {listed!r:.60}; expected a list of paths or tables")
    return tuple(_artifact(entry, file) for entry in cast("list[object]", listed))


def _artifact(entry: object, file: Path) -> Artifact:
    if not isinstance(entry, dict | str):
        raise BadData(f"{file}: an artifact is {entry!r:.60}; expected a path or a table with a source")
    raw = {"source": entry} if isinstance(entry, str) else cast("tables.Table", entry)
    source, destination = tables.text(raw, "source", file), tables.text(raw, "destination", file)
    if not source.startswith("/") or ".." in PurePosixPath(source).parts or PurePosixPath(source) == PurePosixPath("/"):
        raise BadData(f"{file}: the artifact's source is {source!r:.60}; expected an absolute path without '..'")
    if destination.startswith("/") or ".." in PurePosixPath(destination).parts:
        raise BadData(f"{file}: the artifact's destination is {destination!r:.60}; expected a relative path without '..'")
    return Artifact(source.rstrip("/"), destination, tables.texts(raw, "exclude", file), _service(raw, file))


def hooks_in(verifier: Mapping[str, object], file: Path) -> tuple[Hook, ...]:
    """Return the hooks (`collect`) in a verifier's table.

    Raises:
        BadData: a hook has no command.
    """
    found: list[Hook] = []
    for raw in tables.tables(verifier, "collect", file):
        if not (command := tables.text(raw, "command", file)):
            raise BadData(f"{file}: a hook of [[verifier.collect]] has no command")
        found.append(
            Hook(
                command, tables.text(raw, "user", file), tables.number(raw, "timeout_sec", file) or 60.0, _service(raw, file)
            )
        )
    return tuple(found)


def _service(raw: Mapping[str, object], file: Path) -> str:
    return tables.text(raw, "service", file) or MAIN


def collect(sandbox: Any, work: str, hooks: Sequence[Hook], artifacts: Sequence[Artifact]) -> dict[str, bytes]:
    """Run the hooks, ignoring failures, and return the artifacts by path, as sanitized tar archives.

    Artifacts that are missing, too large, or would overwrite an earlier artifact are left out.
    """
    for hook in sorted(hooks, key=lambda hook: hook.service != MAIN):
        if hook.service != MAIN:
            sandbox.services.run(hook.service, ["sh", "-c", hook.command], hook.user, hook.seconds)
            continue
        script = ["/bin/bash", "-c", 'cd -- "$1" && eval "$2"', "bash", work, hook.command]
        sandbox.run_as(hook.user, script, timeout=hook.seconds)
    found, claimed = dict[str, bytes](), list[Artifact]()
    for artifact in sorted(_with_published(artifacts), key=lambda artifact: artifact.service != MAIN):
        if any(prior.clashes(artifact) and not prior.covers(artifact) for prior in claimed):
            continue
        claimed.append(artifact)
        with contextlib.suppress(OSError, tarfile.TarError):  # missing or too large: artifacts are best effort
            service = {} if artifact.service == MAIN else {"service": artifact.service}
            found[artifact.source] = cleaned(sandbox.copy_out(artifact.source, **service), artifact.exclude)
    return found


def _with_published(artifacts: Sequence[Artifact]) -> list[Artifact]:
    listed = list(artifacts)
    return listed if any(artifact.source == PUBLISHED for artifact in listed) else [Artifact(PUBLISHED), *listed]


def put(sandbox: Any, artifacts: Mapping[str, bytes]) -> None:
    """Put artifacts (path -> tar archive) into another container, replacing existing folders.

    Raises:
        SandboxFault: an existing folder could not be emptied.
    """
    for path, archive in artifacts.items():
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            first = opened.next()
            if first is None:
                continue
            if first.isdir():
                removed = sandbox.run_as("root", ["/bin/sh", "-c", 'rm -rf -- "$1" && mkdir -p -- "$1"', "sh", path])
                if not removed.ok:
                    raise SandboxFault(f"{path} of the verifier's container could not be emptied: {removed.text[-200:]}")
        sandbox.copy_in(archive, str(PurePosixPath(path).parent))


def cleaned(archive: bytes, exclude: Sequence[str] = ()) -> bytes:
    """Return a tar archive of one file or folder, reduced to harmless members: regular files, folders, internal links.

    The program that packed the archive may have been replaced by the agent.
    """
    made, written, links, names = io.BytesIO(), set[str](), set[str](), dict[str, str]()
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened, tarfile.open(fileobj=made, mode="w") as packed:
        for member in opened:
            parts = PurePosixPath(member.name).parts
            above = {"/".join(parts[:length]) for length in range(1, len(parts))}
            name, within = "/".join(parts), "/".join(parts[1:])
            if not name or name.startswith("/") or ".." in parts or name in written or above & links:
                continue  # a member below a link would be written to the link's target
            if (not within and written) or (within and _excluded(within, exclude)):
                continue
            target = "/".join(PurePosixPath(member.linkname).parts) if member.islnk() else name
            harmless = b"" if target in names else _harmless(opened, member, parts)
            if harmless is None:
                continue
            if member.isreg():
                names.setdefault(target, name)
            elif member.islnk():  # a further name of a file
                member.linkname, member.size = names[target], 0
            written |= {name, *above}
            links |= {name} if member.issym() else set()
            member.mode = member.mode & 0o755 | (0o755 if member.isdir() else 0o444)
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            packed.addfile(member, io.BytesIO(harmless))
    return made.getvalue()


def _harmless(opened: tarfile.TarFile, member: tarfile.TarInfo, parts: tuple[str, ...]) -> bytes | None:
    """Return a member's content; None if the member must be left out.

    The first hard link to a file that was left out becomes a regular file.
    """
    if member.isdir():
        return b""
    if member.issym():
        return b"" if len(parts) > 1 and _stays(parts[1:-1], member.linkname) else None
    if member.issparse() or not (member.isreg() or member.islnk()):
        return None  # neither the daemon nor `tar` as it is called packs a file as sparse, which may be of any size
    try:
        file = opened.extractfile(member)
    except (KeyError, RecursionError, tarfile.TarError):  # a hard link to a file outside the archive
        return None
    content = b"" if file is None else file.read()
    member.type, member.linkname, member.size = tarfile.REGTYPE, "", len(content)
    return content


def _stays(folder: tuple[str, ...], target: str) -> bool:
    """Return True if a relative link in `folder` stays in the artifact: `..` occurs only first, and not above its top."""
    parts = PurePosixPath(target).parts
    up = 0
    while up < len(parts) and parts[up] == "..":
        up += 1
    return not target.startswith("/") and ".." not in parts[up:] and up <= len(folder)


def _excluded(name: str, patterns: Sequence[str]) -> bool:
    """Return True if GNU tar excludes a name below `.`, that is, if a pattern matches consecutive parts of the path."""
    parts = [".", *name.split("/")]
    pieces = ["/".join(parts[begin:end]) for begin in range(len(parts)) for end in range(begin + 1, len(parts) + 1)]
    return any(fnmatch.fnmatchcase(piece, pattern) for piece in pieces for pattern in patterns)
