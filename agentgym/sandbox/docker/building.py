"""A layer of programs on top of an image, built once and kept by the daemon."""

import hashlib
import io
import json
import tarfile
import threading
from typing import Any, Protocol

from agentgym.sandbox.docker import images
from agentgym.sandbox.docker.daemon import Daemon, faults

SCRIPT = "/opt/agentgym/install.sh"
_one = threading.Lock()
"""Layers are built one at a time, since episodes that need the same one begin together."""


class InstallScript(Protocol):
    """A script to install, and its limits."""

    @property
    def install(self) -> str:
        """The script."""
        ...

    @property
    def install_network(self) -> str:
        """Network for the installation; empty for the daemon's default."""
        ...

    @property
    def build_seconds(self) -> float:
        """Time limit in seconds."""
        ...


def installed(daemon: Daemon, image: str, facts: dict[str, Any], install: InstallScript) -> tuple[str, dict[str, Any]]:
    """Return an image with a script's installation on top of another, and the daemon's facts about it.

    `facts` are those of the other image, whose user stays.
    """
    digest = hashlib.blake2b(json.dumps([facts["Id"], install.install]).encode(), digest_size=8).hexdigest()
    name, user = f"agentgym-installed:{digest}", facts["Config"].get("User") or ""
    with _one:
        if not images.has(daemon, name):
            lines = [f"FROM {image}", "USER root", f"COPY install.sh {SCRIPT}", f'RUN ["/bin/sh", "-eu", "{SCRIPT}"]']
            lines += [f"USER {user}"] if user else []
            context = _packed({"Dockerfile": "\n".join(lines), "install.sh": install.install})
            network = {"network_mode": install.install_network} if install.install_network else {}
            what = f"the layer on {image}"
            images.build(daemon, name, what, install.build_seconds, fileobj=context, custom_context=True, **network)
    with faults():
        return name, daemon.client.api.inspect_image(name)


def _packed(files: dict[str, str]) -> io.BytesIO:
    """Return files as a tar archive for a build; the same bytes every time, so that the daemon's cache applies."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            body = text.encode()
            entry.size, entry.mode = len(body), 0o644
            archive.addfile(entry, io.BytesIO(body))
    target.seek(0)
    return target
