"""A task's health check: a command that must succeed before the agent begins, retried as in Harbor."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agentgym.errors import BadData
from agentgym.sandbox.protocol import SandboxFault


@dataclass(frozen=True)
class Health:
    """A command and its schedule in seconds, with Harbor's defaults."""

    command: str
    interval_sec: float = 5.0
    timeout_sec: float = 30.0
    start_period_sec: float = 0.0
    """Initial period in which failures do not count."""
    start_interval_sec: float = 5.0
    retries: int = 3

    @property
    def longest(self) -> float:
        """Maximum duration of the check, with all retries, in seconds."""
        once = self.timeout_sec + max(self.interval_sec, self.start_interval_sec)
        return self.start_period_sec + (self.retries + 1) * once


def health_in(table: Mapping[str, object], file: Path) -> Health | None:
    """Return the health check in a table; None if there is none.

    Raises:
        BadData: the check is malformed.
    """
    raw = table.get("healthcheck")
    if raw is None:
        return None
    values = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    if not isinstance(values.get("command"), str):
        raise BadData(f"{file}: healthcheck is {raw!r:.60}; expected a table with a command")
    known = {name: values[name] for name in Health.__dataclass_fields__ if name in values}
    for name, value in known.items():
        kind = int if name == "retries" else int | float
        if name != "command" and (isinstance(value, bool) or not isinstance(value, kind) or not 0 <= value < 1e6):
            raise BadData(f"{file}: {name} of healthcheck is {value!r:.60}; expected a number from 0")
    return Health(**known)


def wait_until_healthy(sandbox: Any, health: Health, user: str = "") -> None:
    """Retry the check until it succeeds.

    Raises:
        SandboxFault: the check failed `retries` times after the start period.
    """
    begin, failures = time.monotonic(), 0
    while True:
        starting = time.monotonic() < begin + health.start_period_sec
        result = sandbox.run_as(user, ["/bin/bash", "-c", health.command], timeout=max(health.timeout_sec, 0.1))
        if result.ok:
            return
        failures += not starting
        if failures >= health.retries and not starting:
            raise SandboxFault(f"the health check failed {failures} times: {health.command!r:.200} ({result.text[-200:]!r})")
        time.sleep(health.start_interval_sec if starting else health.interval_sec)
