"""Images of containers: names that may be asked for, pulling and building them once, and removing the oldest for room.

A name may come from a stranger's task file, so it must be one, and the caller says which registries are asked. Every image
that is pulled or built here gets one more name (`MARK`) that holds when it was last used: the daemon itself is the record,
for all processes. Images without that name are never removed.
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
"""What the daemon says of an image, or a line of its progress."""
EVERY = 5.0
"""Seconds between two lines of progress."""
FRESH = 60
"""Seconds in which an image is not marked again."""
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*(?::\d{{1,5}})?"
_NAME = re.compile(
    rf"(?:(?P<host>{_HOST})/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?"
)
_ID = re.compile(r"(?:sha256:)?[0-9a-f]{64}")
_pulling: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def is_name(name: str) -> bool:
    """Whether a text is the name of an image: the daemon's addresses and a Dockerfile's lines are made of it."""
    return len(name) <= 500 and bool(_ID.fullmatch(name) or _NAME.fullmatch(name))


def registry_of(name: str) -> str:
    """Return the registry that a name is pulled from; Docker's own where the name says none."""
    host, slash, _ = name.partition("/")
    named = bool(slash) and (any(mark in host for mark in ".:") or host == "localhost" or host != host.lower())
    return host.replace("index.docker.io", HUB) if named else HUB


def have(daemon: Daemon, name: str, pull: str = "", most_gb: float | None = None) -> Facts:
    """Return what a daemon knows of an image, pulled if it has none and its registry is among those of `pull`.

    BadConfig for a text that is no name, and for an image that the daemon has not and may not pull; SandboxFault where the
    registry does not give it.
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
        return api.inspect_image(name)  # another thread has pulled it meanwhile
    progress = _Progress(f"pulling {name}")
    failed = f"image {name!r} could not be pulled"
    try:
        with faults():
            told = api.pull(name, stream=True, decode=True)
            for line in told:
                if "error" in line:
                    raise SandboxFault(str(line["error"])[:500])
                progress.layer(line)
                if most_gb is not None and progress.total > most_gb * GIGABYTE:
                    told.close()  # the daemon stops when nobody listens
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
    """Return what a daemon knows of the image of a folder with a Dockerfile, built unless the daemon has it: by one process
    of this machine, for which the others wait."""
    if not (folder / "Dockerfile").is_file():
        raise BadConfig(f"build is {str(folder)!r}, in which there is no Dockerfile")
    name = name or f"{BUILT}:{_content(folder)}"
    deadline = time.monotonic() + seconds
    with _alone(folder / "Dockerfile", deadline), faults():
        try:
            facts: Facts = daemon.client.api.inspect_image(name)
        except docker().errors.NotFound:
            absent = [base for base in _bases(folder) if not has(daemon, base)]
            build(daemon, name, f"the image of {folder}", seconds, path=str(folder))
            facts = daemon.client.api.inspect_image(name)
            for pulled in (base for base in absent if has(daemon, base)):  # by the daemon, for the build
                _mark(daemon, daemon.client.api.inspect_image(pulled), new=True)
            _mark(daemon, facts, new=True)
            make_room(daemon, most_gb, facts["Id"])
    _mark(daemon, facts)
    return facts


def build(daemon: Daemon, name: str, what: str, seconds: float, **how: Any) -> None:
    """Build an image. BadConfig with the last messages where it cannot be built, SandboxFault where it takes too long."""
    messages: deque[str] = deque(maxlen=100)
    deadline = time.monotonic() + seconds
    progress = _Progress(f"building {what}")
    try:
        with faults():
            told = daemon.client.api.build(tag=name, rm=True, forcerm=True, decode=True, timeout=seconds, **how)
            for line in told:
                messages.append(str(line.get("stream", line.get("error", ""))))
                if messages[-1].startswith("Step "):
                    progress.show(messages[-1].strip()[:100])
                if "error" in line:
                    raise BadConfig(f"{what} could not be built: {''.join(messages)[-1500:]}")
                if time.monotonic() > deadline:  # the daemon ends the build when nobody listens
                    told.close()
                    raise SandboxFault("it went on")
    except SandboxFault as fault:
        if time.monotonic() < deadline:
            raise
        raise SandboxFault(f"building {what} took more than {seconds:g} seconds") from fault
    progress.end()


def _bases(folder: Path) -> list[str]:
    """Return the images that a Dockerfile begins with, as far as it names them."""
    written = (folder / "Dockerfile").read_text(encoding="utf-8", errors="replace")
    found = re.findall(r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(\S+)", written, re.IGNORECASE | re.MULTILINE)
    return [name for name in dict.fromkeys(found) if is_name(name)]


def has(daemon: Daemon, name: str) -> bool:
    """Whether a daemon has an image of that name."""
    try:
        daemon.client.api.inspect_image(name)
    except docker().errors.NotFound:
        return False
    return True


@contextlib.contextmanager
def _alone(file: Path, deadline: float) -> Generator[None]:
    """Hold a file of a folder for this process and thread alone, where its file system can."""
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
    """Return a digest of the files that an image is built from, so that a change builds another."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or path.is_file():  # the daemon gets links as links
            content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {path.lstat().st_mode & 0o777} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def check(pull: object, most_gb: object) -> None:
    """Raise BadConfig for options that say neither where images come from nor how much room they have."""
    listed = pull.split(",") if isinstance(pull, str) and pull else []
    if not isinstance(pull, str) or not all(re.fullmatch(_HOST, registry.strip()) for registry in listed):
        raise BadConfig(f"pull is {pull!r:.100}; expected the registries that images may come from, such as '{HUB},ghcr.io'")
    if most_gb is not None and (isinstance(most_gb, bool) or not isinstance(most_gb, int | float) or not most_gb > 0):
        raise BadConfig(f"images_gb is {most_gb!r:.100}; expected a number above 0")


# What is removed for room


def _mark(daemon: Daemon, facts: Facts, *, new: bool = False) -> None:
    """Note that an image is used now, if it was pulled or built here."""
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
    """Return when an image was last used, from the name that says so."""
    found = re.fullmatch(rf"(?:localhost/)?{MARK}:[0-9a-f]{{12}}-(\d+\.\d{{3}})", tag)
    return float(found[1]) if found else None


def make_room(daemon: Daemon, most_gb: float | None, wanted: str = "") -> None:
    """Remove images that were pulled or built here, the least recently used first, until all images of the daemon have at
    most so many gigabytes on its disk. One that a container uses stays, and so does `wanted`, by its id.
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
    """Remove an image; one to which somebody gave a name of their own loses our name alone."""
    api, errors = daemon.client.api, docker().errors
    with contextlib.suppress(errors.NotFound, SandboxFault), faults():
        tags: list[str] = api.inspect_image(image).get("RepoTags") or []
        marks = [tag for tag in tags if _used(tag) is not None]
        others = [tag for tag in tags if tag not in marks]
        for tag in [*(others if len(others) == 1 else ()), *marks]:
            api.remove_image(tag)
        if not others:  # by digest alone
            api.remove_image(image)
        announce(f"removed image {(others or [image])[0]}, for room")


def _on_disk(daemon: Daemon) -> float:
    """Return the bytes of all images of a daemon, shared layers once."""
    facts: Facts = daemon.client.api.df()
    listed: list[Facts] = facts.get("Images") or []
    return facts.get("LayersSize") or sum(image["Size"] for image in listed)


class _Progress:
    """Lines about something that takes long: one at once, then one every few seconds, then one at the end."""

    def __init__(self, what: str) -> None:
        self._what, self._started = what, time.monotonic()
        self._next = self._started + EVERY
        self._layers: dict[str, tuple[int, int]] = {}
        announce(f"{what} …")

    @property
    def total(self) -> int:
        """Bytes of the layers that the daemon has begun with."""
        return sum(whole for _, whole in self._layers.values())

    def layer(self, line: Facts) -> None:
        """Take in a line of the daemon about a layer."""
        detail: dict[str, int] = line.get("progressDetail") or {}
        if line.get("status") == "Downloading" and detail.get("total"):
            self._layers[str(line.get("id"))] = (detail.get("current", 0), detail["total"])
        done = sum(current for current, _ in self._layers.values())
        self.show(f"{done / MEGABYTE:.0f} of {self.total / MEGABYTE:.0f} MB")

    def show(self, words: str) -> None:
        """Say how far it is, if it is time to."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY
            announce(f"{self._what}: {words}")

    def end(self) -> None:
        """Say that it is done."""
        announce(f"{self._what}: done after {time.monotonic() - self._started:.0f} s")
