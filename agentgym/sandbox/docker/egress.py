"""Restricted network access: an internal network, and a proxy container between it and the outside."""

import contextlib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentgym.sandbox.docker.daemon import LABEL, Daemon, docker, faults, owner
from agentgym.sandbox.protocol import MEGABYTE

PORT = 3128
NOWHERE = "192.0.2.1"
"""Address of a nonexistent name server (RFC 5737): only the proxy resolves names, so that no DNS query carries data out."""
PROGRAM = Path(__file__).parents[1] / "inside" / "proxy.py"
EVERYWHERE = ("*",)
"""Value of `allowed_hosts` that allows every host."""
NAMES = ("http_proxy", "https_proxy", "all_proxy")
INSIDE = ("localhost", "127.0.0.1", "::1")
"""Addresses reached without the proxy."""


class Egress:
    """An internal network with a proxy that allows requests to `hosts` only.

    `outside` is the network that the proxy uses. `image` is an image in the daemon with `python3`; it must not be the
    image of the confined container. `beside` lists names of services that the container reaches without the proxy.
    """

    def __init__(self, daemon: Daemon, hosts: Sequence[str], outside: str, image: str, beside: Sequence[str] = ()) -> None:
        self._daemon, self._beside = daemon, beside
        api = daemon.client.api
        self.name = f"agentgym-{uuid.uuid4().hex[:12]}"
        self._proxy = ""
        with faults():
            api.create_network(self.name, driver="bridge", internal=True, options=daemon.isolated, labels={LABEL: owner()})
        try:
            self._start(image, hosts, outside)
        except BaseException:
            self.close()
            raise

    def _start(self, image: str, hosts: Sequence[str], outside: str) -> None:
        api: Any = self._daemon.client.api
        host = api.create_host_config(
            network_mode=outside,
            read_only=True,
            mem_limit=256 * MEGABYTE,
            pids_limit=64,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            log_config={"type": "none", "config": {}},
            auto_remove=True,
        )
        with faults():
            source = PROGRAM.read_text(encoding="utf-8")
            made = api.create_container(
                image,
                entrypoint=["python3", "-I", "-u", "-c", source, str(PORT), *hosts],
                user="65534:65534",
                labels={LABEL: owner()},
                healthcheck={"test": ["NONE"]},
                host_config=host,
            )
            self._proxy = made["Id"]
            api.connect_container_to_network(self._proxy, self.name)
            api.start(self._proxy)
            facts: dict[str, Any] = api.inspect_container(self._proxy)
        address = facts["NetworkSettings"]["Networks"][self.name]["IPAddress"]
        where = f"http://{address}:{PORT}"
        direct = ",".join((*INSIDE, *self._beside))
        variables = {**dict.fromkeys(NAMES, where), "no_proxy": direct}
        self.variables = {spelling: value for name, value in variables.items() for spelling in (name, name.upper())}
        """Environment variables that point programs to the proxy."""

    def close(self) -> None:
        """Remove the proxy and the network, after disconnecting all containers."""
        if self._proxy:
            self._daemon.remove(self._proxy)
        with contextlib.suppress(docker().errors.NotFound), faults():
            joined: dict[str, Any] = self._daemon.client.api.inspect_network(self.name).get("Containers") or {}
            for container in joined:
                self._daemon.client.api.disconnect_container_from_network(container, self.name, force=True)
            self._daemon.client.api.remove_network(self.name)
