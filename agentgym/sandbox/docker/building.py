"""Installs programs in a layer on top of an image, which is built once and stored by the daemon."""

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
"""Lock for building one layer at a time, since episodes that need the same layer often begin together."""


class InstallScript(Protocol):
    """Installation script, and the limits of its build."""

    @property
    def install(self) -> str:
        """Script for /bin/sh, which root runs."""
        ...

    @property
    def install_network(self) -> str:
        """Network for the installation; empty for the daemon's default."""
        ...

    @property
    def build_seconds(self) -> float:
        """Time limit of the build in seconds."""
        ...


def installed(daemon: Daemon, image: str, facts: dict[str, Any], install: InstallScript) -> tuple[str, dict[str, Any]]:
    """Return the name of `image` extended by the installation script, and the daemon's facts about the new image.

    `facts` are the daemon's facts about `image`. The new image has the same default user.
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
    """Return files as a tar archive for a build, with fixed metadata, so that the daemon can use its cache."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            body = text.encode()
            entry.size, entry.mode = len(body), 0o644
            archive.addfile(entry, io.BytesIO(body))
    target.seek(0)
    return target
