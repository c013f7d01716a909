"""A task's containers: the agent's container, and containers of separate verifiers."""

import contextlib
import importlib
import os
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentgym.envs.terminal.harbor import tables
from agentgym.envs.terminal.harbor.health import wait_until_healthy
from agentgym.envs.terminal.harbor.network import Policy
from agentgym.envs.terminal.harbor.network import options as network_options
from agentgym.envs.terminal.harbor.steps import Place
from agentgym.errors import BadConfig
from agentgym.sandbox.protocol import MEGABYTE, Limits, sandbox
from agentgym.sandbox.warm_pool import take

HARNESS = ("install", "install_network", "room")
"""Sandbox options that only the agent's harness needs."""


@dataclass(frozen=True)
class Containers:
    """Creates containers within the caller's limits; None means no limit."""

    backend: str
    options: Mapping[str, Any]
    network: str
    """The caller's `network`; see `Harbor.network`."""
    seconds: float
    """Time limit per command, in seconds."""
    max_cpus: float | None
    max_memory_mb: float | None

    def make(self, place: Place, policy: Policy, file: Path, *, background: bool = False) -> Any:
        """Start a container as root; `run_as` of the container starts programs of other users.

        Raises:
            BadConfig: the task has a compose file, and the backend is not docker.
        """
        if place.beside and self.backend != "docker":
            raise BadConfig(f"{file.parent} has a docker-compose file, which needs backend='docker', not {self.backend!r}")
        options: dict[str, Any] = {
            "user": "root",
            "writable": True,
            "work": place.work,
            **network_options(policy, self.network, self.backend),
            "cpus": least(place.cpus, self.max_cpus),
            "environment": tables.resolved(place.variables, "environment", file),
            **({"background": True} if background else {}),
            **({"storage_mb": place.storage_mb} if place.storage_mb and self.backend == "docker" else {}),
            **({"beside": place.beside} if place.beside else {}),
            "capabilities": vars(importlib.import_module("agentgym.sandbox.docker.sandbox"))["ROOT_CAPABILITIES"],
            **({"image": place.image} if place.image else self._build(place)),
            **self.options,
        }
        limits = Limits(
            timeout=self.seconds,
            memory=int((least(place.memory_mb, self.max_memory_mb) or _machine_mb()) * MEGABYTE),
            processes=1000,
            disk=256 * MEGABYTE,
            files=100_000,
            open_files=1024,
        )
        made: Any = (  # with side services, each waiting container would be several
            sandbox(self.backend, limits=limits, **options)
            if place.beside
            else take(self.backend, limits=limits, options=options, rare=True)
        )
        try:
            if self.backend == "docker":
                made.run_entrypoint(place.command)
            if place.health:
                wait_until_healthy(made, place.health)
        except BaseException:
            made.close()
            raise
        return made

    @contextlib.contextmanager
    def made(self, place: Place, policy: Policy, file: Path) -> Generator[Any]:
        """Yield a container without the agent's harness, and stop it at the end of the `with` block."""
        options = {name: value for name, value in self.options.items() if name not in HARNESS}
        container = replace(self, options=options).make(place, policy, file)
        try:
            yield container
        finally:
            container.close()

    def connect(self, container: Any, first: Policy, now: Policy, name: str) -> None:
        """Move a container from the network of the policy `first` to the network of the policy `now`.

        Raises:
            BadConfig: the backend cannot change networks.
        """
        made, target = (network_options(policy, self.network, self.backend) for policy in (first, now))
        if self.backend == "docker":
            container.reconnect(**target)
        elif made != target:
            raise BadConfig(f"{name} changes its network between phases, which only docker can")

    def _build(self, place: Place) -> dict[str, Any]:
        """Return the sandbox options that build the image; only the docker backend uses the task's build time limit."""
        limit = {"build_seconds": place.build_seconds} if self.backend == "docker" else {}
        return {"build": str(place.build), **limit}


def least(own: float | None, cap: float | None) -> float | None:
    """Return the lower of a task's own limit and the caller's cap; None means no limit."""
    return min((limit for limit in (own, cap) if limit is not None), default=None)


def _machine_mb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / MEGABYTE
