"""Disk space of the container images that a list of tasks needs."""

import shutil
from collections.abc import Iterable, Mapping
from typing import Any

from agentgym.errors import BadConfig, MissingExtra
from agentgym.sandbox.docker.daemon import Daemon, connect, docker, faults
from agentgym.sandbox.docker.images import GIGABYTE, is_name
from agentgym.sandbox.protocol import SandboxFault


def disk_of_images(names: Iterable[str], options: Mapping[str, Any]) -> str:
    """Return a line about the number and size of images; `options` are options of the docker sandbox.

    Sizes come from the daemon, with shared layers counted once. A missing image counts with the mean size.
    """
    images = list(dict.fromkeys(names))
    count = f"{len(images):,} image{'s' if len(images) != 1 else ''}"
    try:
        daemon = connect(str(options.get("daemon") or ""))
        stored, missing = stored_bytes(daemon, images)
        free = free_bytes(daemon)
    except (BadConfig, MissingExtra, SandboxFault) as error:
        return f"{count} of unknown size, since no daemon can be asked: {error}"
    line = f"{count}: {len(images) - len(missing):,} stored, {stored / GIGABYTE:.1f} GB"
    if missing:
        known = len(images) - len(missing)
        size = f"about {stored / known * len(missing) / GIGABYTE:.1f} GB more" if known else "of unknown size"
        line += f"; {len(missing):,} to pull, {size}"
    return line if free is None else f"{line}; {free / GIGABYTE:.1f} GB of disk are free"


def stored_bytes(daemon: Daemon, names: Iterable[str]) -> tuple[int, list[str]]:
    """Return the total bytes of the named images that the daemon has, and the names of those that it lacks.

    Layers that images share are counted once.
    """
    layers: dict[str, int] = {}
    missing: list[str] = []
    for name in names:
        if not is_name(name):
            missing.append(name)
            continue
        try:
            with faults():
                layers |= _layers(daemon.client.api, name)
        except docker().errors.NotFound:
            missing.append(name)
    return sum(layers.values()), missing


def free_bytes(daemon: Daemon) -> int | None:
    """Return the free bytes on the disk where the daemon stores images; None if it cannot be read or is not local."""
    if not daemon.local:  # the same path may exist here
        return None
    with faults():
        root = str(daemon.client.api.info().get("DockerRootDir") or "")
    try:
        return shutil.disk_usage(root).free if root else None
    except OSError:
        return None


def _layers(api: Any, name: str) -> dict[str, int]:
    """Return the bytes of an image's layers by id; if the daemon does not list layers, the image counts as one layer."""
    facts: dict[str, Any] = api.inspect_image(name)
    stack: dict[str, Any] = facts.get("RootFS") or {}
    ids: list[str] = stack.get("Layers") or []
    sizes: list[int] = [layer["Size"] for layer in api.history(facts["Id"]) if layer.get("Size")][::-1]
    if len(ids) != len(sizes):
        return {str(facts["Id"]): int(facts["Size"])}
    return dict(zip(ids, sizes, strict=True))
