"""Networks of a task's phases: the policies of `task.toml`, restricted by the caller."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agentgym.errors import BadConfig, BadData

MODES = ("no-network", "public", "allowlist")
STATED, TASK, NONE = "stated", "task", "none"
PUBLIC = "bridge"
"""The daemon's network for `public`, unless the caller names another network."""
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Policy:
    """Allowed network access in one phase of a task."""

    mode: str = ""
    """One of `MODES`; empty if the task states no mode, which the format treats as `public`."""
    hosts: tuple[str, ...] = ()


def baseline(table: Mapping[str, object], name: str, file: Path) -> Policy:
    """Return an environment's network policy, else that of the older key `allow_internet`, else a policy without a mode."""
    internet = table.get("allow_internet")
    older = Policy("public" if internet else "no-network") if isinstance(internet, bool) else Policy()
    return policy(table, name, file) or older


def policy(table: Mapping[str, object], name: str, file: Path) -> Policy | None:
    """Return the network policy in a TOML table; None if the table has no policy.

    Raises:
        BadData: the mode or the list of hosts is invalid.
    """
    mode, listed = table.get("network_mode"), table.get("allowed_hosts")
    if mode is None and listed is None:
        return None
    if mode not in MODES:
        raise BadData(f"{file}: network_mode of [{name}] is {mode!r:.60}; expected {', '.join(MODES)}")
    if listed is not None and not isinstance(listed, list):
        raise BadData(f"{file}: allowed_hosts of [{name}] is {listed!r:.60}; expected a list of hosts")
    hosts = tuple(_host(host, file) for host in cast("list[object]", listed or []))
    if hosts and mode != "allowlist":
        raise BadData(f"{file}: [{name}] has allowed_hosts with network_mode {mode!r}; they go with 'allowlist'")
    return Policy(str(mode), hosts)


def _host(value: object, file: Path) -> str:
    """Return a host in the proxy's form: a name, `*.name`, an address or a CIDR range.

    Raises:
        BadData: the host does not have one of these forms.
    """
    host = value.strip().lower().rstrip(".") if isinstance(value, str) else ""
    try:
        if "%" not in host:  # a zone is specific to one machine
            return str(ipaddress.ip_network(host) if "/" in host else ipaddress.ip_address(host))
        name = ""
    except ValueError:
        name = host.removeprefix("*.")
    if "/" in host or not all(_LABEL.fullmatch(label) for label in name.split(".")) or (name != host and _is_address(name)):
        raise BadData(f"{file}: allowed_hosts has {value!r:.60}; expected a host name, '*.name', an address or a CIDR range")
    return host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def options(policy: Policy, network: str, backend: str) -> dict[str, Any]:
    """Return the sandbox options `network` and, for an allowlist, `allowed_hosts`; `network` is the caller's setting.

    For a policy without a mode, `stated` means no network, and `task` means `public`. `none` means no network in any case.
    Any other value names the daemon's network to use for `public`, which is then the default mode.

    Raises:
        BadConfig: the policy allows some hosts only, which the backend cannot enforce.
    """
    mode = policy.mode or ("no-network" if network in (STATED, NONE) else "public")
    if network == NONE or mode == "no-network":
        return {"network": "none"}
    outside = PUBLIC if network in (STATED, TASK) else network
    if backend != "docker":
        if mode == "allowlist":
            raise BadConfig(
                f"a task allows some hosts alone, which the backend {backend!r} cannot; use docker, or network='none'"
            )
        return {"network": "public"}
    return {"network": outside, **({"allowed_hosts": policy.hosts} if mode == "allowlist" else {})}
