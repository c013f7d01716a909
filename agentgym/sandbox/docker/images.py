"""Container images: validating names, pulling and building them once, and removing the oldest for space.

A name may come from an untrusted task file, so it is validated, and the caller decides which registries are used. Every
image pulled or built here gets an additional name (`MARK`) with the time of its last use, so that all processes share this
record in the daemon. Images without that name are never removed.
"""

import contextlib
import fcntl
import hashlib
import re
import threading
import time
from collections import defaultdict, deque
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

from agentgym.core.screen import announce
from agentgym.errors import BadConfig
from agentgym.sandbox.docker.daemon import Daemon, docker, faults
from agentgym.sandbox.protocol import MEGABYTE, SandboxFault

HUB = "docker.io"
MARK = "agentgym-kept"
BUILT = "agentgym-built"
GIGABYTE = 1000 * 1000 * 1000
Facts = dict[str, Any]
"""JSON from the daemon: facts about an image, or a line of progress."""
EVERY = 5.0
"""Minimum seconds between two lines of progress."""
FRESH = 60
"""Seconds after a use of an image during which further uses are not recorded."""
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*(?::\d{{1,5}})?"
_NAME = re.compile(
    rf"(?:(?P<host>{_HOST})/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?"
)
_ID = re.compile(r"(?:sha256:)?[0-9a-f]{64}")
_pulling: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def is_name(name: str) -> bool:
    """Return True if a text is a valid image name; a name becomes part of the daemon's URLs and of Dockerfiles."""
    return len(name) <= 500 and bool(_ID.fullmatch(name) or _NAME.fullmatch(name))


def registry_of(name: str) -> str:
    """Return the registry in an image name; Docker Hub if the name has none."""
    host, slash, _ = name.partition("/")
    named = bool(slash) and (any(mark in host for mark in ".:") or host == "localhost" or host != host.lower())
    return host.replace("index.docker.io", HUB) if named else HUB


def have(daemon: Daemon, name: str, pull: str = "", most_gb: float | None = None) -> Facts:
    """Return the daemon's facts about an image, pulled if it is missing and its registry is in `pull`.

    `most_gb` limits the disk space of all images after a pull (see `make_room`).

    Raises:
        BadConfig: the name is invalid, or the image is missing and may not be pulled or is larger than `most_gb`.
        SandboxFault: the registry fails.
    """
    if not is_name(name):
        raise BadConfig(f"image is {name!r:.100}; expected a name such as python:3.12-slim or ghcr.io/owner/image:tag")
    library = docker()
    try:
        with faults():
            facts: Facts = daemon.client.api.inspect_image(name)
    except library.errors.NotFound as error:
        registries = [registry.strip() for registry in pull.split(",") if registry.strip()]
        if _ID.fullmatch(name) or registry_of(name) not in registries:
            tool = "podman" if daemon.podman else "docker"
            others = f", which is not among those of pull ({pull})" if registries else ""
            raise BadConfig(
                f"{daemon} has no image {name!r}: {tool} pull {name}, or allow its registry{others}: "
                f"pull='{registry_of(name)}' among the docker sandbox's options (--env.pull of Harbor)"
            ) from error
        with _pulling[name]:
            facts = _pulled(daemon, name, most_gb)
    _mark(daemon, facts)
    return facts


def _pulled(daemon: Daemon, name: str, most_gb: float | None) -> Facts:
    api = daemon.client.api
    with contextlib.suppress(docker().errors.NotFound), faults():
        return api.inspect_image(name)  # pulled by another thread meanwhile
    progress = _Progress(f"pulling {name}")
    failed = f"image {name!r} could not be pulled"
    try:
        with faults():
            lines = api.pull(name, stream=True, decode=True)
            for line in lines:
                if "error" in line:
                    raise SandboxFault(str(line["error"])[:500])
                progress.layer(line)
                if most_gb is not None and progress.total > most_gb * GIGABYTE:
                    lines.close()  # the daemon stops when the stream is closed
                    raise BadConfig(
                        f"image {name!r} has {progress.total / GIGABYTE:.1f} GB packed, and images_gb is {most_gb:g}"
                    )
            facts: Facts = api.inspect_image(name)
    except docker().errors.NotFound as error:
        raise SandboxFault(f"{failed}: {str(error.explanation)[:500]}") from error
    except SandboxFault as fault:
        raise SandboxFault(f"{failed}: {fault}") from fault
    progress.end()
    _mark(daemon, facts, new=True)
    make_room(daemon, most_gb, facts["Id"])
    return facts


def built(daemon: Daemon, folder: Path, name: str, seconds: float, most_gb: float | None = None) -> Facts:
    """Return the daemon's facts about the image of a folder with a Dockerfile, built if it is missing.

    An empty `name` is replaced by one derived from the files in the folder. One process of this machine builds the image
    within `seconds`; other processes wait. `most_gb` limits the disk space of all images after a build (see `make_room`).

    Raises:
        BadConfig: the folder has no Dockerfile, or the build fails.
    """
    if not (folder / "Dockerfile").is_file():
        raise BadConfig(f"build is {str(folder)!r}, in which there is no Dockerfile")
    name = name or f"{BUILT}:{_content(folder)}"
    deadline = time.monotonic() + seconds
    with _alone(folder / "Dockerfile", deadline), faults():
        try:
            facts: Facts = daemon.client.api.inspect_image(name)
        except docker().errors.NotFound:
            absent = [base for base in bases(folder) if not has(daemon, base)]
            build(daemon, name, f"the image of {folder}", seconds, path=str(folder))
            facts = daemon.client.api.inspect_image(name)
            for pulled in (base for base in absent if has(daemon, base)):  # pulled by the daemon during the build
                _mark(daemon, daemon.client.api.inspect_image(pulled), new=True)
            _mark(daemon, facts, new=True)
            make_room(daemon, most_gb, facts["Id"])
    _mark(daemon, facts)
    return facts


def build(daemon: Daemon, name: str, what: str, seconds: float, **how: Any) -> None:
    """Build an image and name it `name`; `what` describes it in messages.

    Raises:
        BadConfig: the build fails; the error has the last messages of the build.
        SandboxFault: the build takes too long.
    """
    messages: deque[str] = deque(maxlen=100)
    deadline = time.monotonic() + seconds
    progress = _Progress(f"building {what}")
    try:
        with faults():
            lines = daemon.client.api.build(tag=name, rm=True, forcerm=True, decode=True, timeout=seconds, **how)
            for line in lines:
                messages.append(str(line.get("stream", line.get("error", ""))))
                if messages[-1].startswith("Step "):
                    progress.show(messages[-1].strip()[:100])
                if "error" in line:
                    raise BadConfig(f"{what} could not be built: {''.join(messages)[-1500:]}")
                if time.monotonic() > deadline:  # the daemon stops the build when the stream is closed
                    lines.close()
                    raise SandboxFault("it went on")
    except SandboxFault as fault:
        if time.monotonic() < deadline:
            raise
        raise SandboxFault(f"building {what} took more than {seconds:g} seconds") from fault
    progress.end()


def bases(folder: Path) -> list[str]:
    """Return the base images named in a Dockerfile."""
    written = (folder / "Dockerfile").read_text(encoding="utf-8", errors="replace")
    found = re.findall(r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(\S+)", written, re.IGNORECASE | re.MULTILINE)
    return [name for name in dict.fromkeys(found) if is_name(name)]


def has(daemon: Daemon, name: str) -> bool:
    """Return True if the daemon has an image with this name."""
    try:
        daemon.client.api.inspect_image(name)
    except docker().errors.NotFound:
        return False
    return True


@contextlib.contextmanager
def _alone(file: Path, deadline: float) -> Generator[None]:
    """Lock a file during the `with` block, if the file system supports locks.

    Raises:
        SandboxFault: another process still has the lock at the deadline.
    """
    with file.open("rb") as opened:
        while True:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SandboxFault(f"another process has not finished the image of {file.parent}") from None
                time.sleep(0.1)
            except OSError:
                break
        yield


def _content(folder: Path) -> str:
    """Return a digest of an image's source files, so that a change triggers a new build."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or path.is_file():  # links are sent as links
            content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {path.lstat().st_mode & 0o777} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def check(pull: object, most_gb: object) -> None:
    """Check the options `pull` and `images_gb`.

    Raises:
        BadConfig: an option is invalid.
    """
    listed = pull.split(",") if isinstance(pull, str) and pull else []
    if not isinstance(pull, str) or not all(re.fullmatch(_HOST, registry.strip()) for registry in listed):
        raise BadConfig(f"pull is {pull!r:.100}; expected the registries that images may come from, such as '{HUB},ghcr.io'")
    if most_gb is not None and (isinstance(most_gb, bool) or not isinstance(most_gb, int | float) or not most_gb > 0):
        raise BadConfig(f"images_gb is {most_gb!r:.100}; expected a number above 0")


# Removal for space


def _mark(daemon: Daemon, facts: Facts, *, new: bool = False) -> None:
    """Record the use of an image that was pulled or built here; with `new`, mark it as such."""
    marks = [tag for tag in facts.get("RepoTags") or () if _used(tag) is not None]
    if not new and (not marks or all((_used(tag) or 0) > time.time() - FRESH for tag in marks)):
        return
    api = daemon.client.api
    with contextlib.suppress(docker().errors.NotFound), faults():
        now = f"{facts['Id'].removeprefix('sha256:')[:12]}-{time.time():.3f}"
        api.tag(facts["Id"], MARK, now)
        for tag in marks:
            api.remove_image(tag, noprune=True)


def _used(tag: str) -> float | None:
    """Return the time of an image's last use, in epoch seconds, from its `MARK` name; None for any other name."""
    found = re.fullmatch(rf"(?:localhost/)?{MARK}:[0-9a-f]{{12}}-(\d+\.\d{{3}})", tag)
    return float(found[1]) if found else None


def make_room(daemon: Daemon, most_gb: float | None, wanted: str = "") -> None:
    """Remove images pulled or built here, least recently used first, until all images fit into `most_gb` gigabytes.

    Images used by a container and the image with the id `wanted` are not removed. None for `most_gb` means no limit.
    """
    if most_gb is None:
        return
    api = daemon.client.api
    with faults():
        for image in _oldest_first(api.images(MARK)):
            used = _on_disk(daemon)
            if used <= most_gb * GIGABYTE:
                return
            if image["Id"] == wanted or api.containers(all=True, filters={"ancestor": image["Id"]}):
                continue
            _remove(daemon, image["Id"])
        used = _on_disk(daemon)
    if used > most_gb * GIGABYTE:
        announce(f"images have {used / GIGABYTE:.1f} GB of images_gb={most_gb:g}; none of those left may be removed")


def _oldest_first(images: Iterable[Facts]) -> list[Facts]:
    def last(image: Facts) -> float:
        return max((_used(tag) or 0.0 for tag in image.get("RepoTags") or ()), default=0.0)

    return sorted(images, key=last)


def _remove(daemon: Daemon, image: str) -> None:
    """Remove an image, or only its `MARK` name if it has several other names."""
    api, errors = daemon.client.api, docker().errors
    with contextlib.suppress(errors.NotFound, SandboxFault), faults():
        tags: list[str] = api.inspect_image(image).get("RepoTags") or []
        marks = [tag for tag in tags if _used(tag) is not None]
        others = [tag for tag in tags if tag not in marks]
        for tag in [*(others if len(others) == 1 else ()), *marks]:
            api.remove_image(tag)
        if not others:  # only by digest
            api.remove_image(image)
        announce(f"removed image {(others or [image])[0]}, for room")


def _on_disk(daemon: Daemon) -> float:
    """Return the bytes of all images in the daemon, with shared layers counted once."""
    facts: Facts = daemon.client.api.df()
    listed: list[Facts] = facts.get("Images") or []
    return facts.get("LayersSize") or sum(image["Size"] for image in listed)


class _Progress:
    """Progress lines of a long operation: at the start, every few seconds, and at the end."""

    def __init__(self, what: str) -> None:
        self._what, self._started = what, time.monotonic()
        self._next = self._started + EVERY
        self._layers: dict[str, tuple[int, int]] = {}
        announce(f"{what} …")

    @property
    def total(self) -> int:
        """Total bytes of the layers whose download has started."""
        return sum(whole for _, whole in self._layers.values())

    def layer(self, line: Facts) -> None:
        """Process a line of the daemon about the download of a layer."""
        detail: dict[str, int] = line.get("progressDetail") or {}
        if line.get("status") == "Downloading" and detail.get("total"):
            self._layers[str(line.get("id"))] = (detail.get("current", 0), detail["total"])
        done = sum(current for current, _ in self._layers.values())
        self.show(f"{done / MEGABYTE:.0f} of {self.total / MEGABYTE:.0f} MB")

    def show(self, words: str) -> None:
        """Print a progress line if `EVERY` seconds have passed since the last one."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY
            announce(f"{self._what}: {words}")

    def end(self) -> None:
        """Print the last line."""
        announce(f"{self._what}: done after {time.monotonic() - self._started:.0f} s")
