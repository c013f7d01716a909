"""Sandboxes in containers, run by `./dev test-docker`: the suite of every backend, and what only containers have."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentgym.sandbox import warm_pool

FOLDER = os.environ.get("AGENTGYM_DOCKER", "")
"""Where `daemon.sh` keeps the tests' own daemon."""
KIND = os.environ.get("AGENTGYM_DOCKER_KIND", "docker")
URL = f"unix://{FOLDER}/daemon.sock"
PYTHON: dict[str, Any] = {"image": "agentgym-test/python", "daemon": URL}
SHELL: dict[str, Any] = {"image": "agentgym-test/shell", "daemon": URL}
collect_ignore_glob = [] if FOLDER else ["test_*.py"]  # without a daemon of the tests' own there is nothing to test
sys.path.insert(0, str(Path(__file__).parents[1] / "sandbox"))
pytest.register_assert_rewrite("test_sandboxes")


@pytest.fixture(autouse=True)
def _nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests count containers: none of a task is made ahead."""
    monkeypatch.setattr(warm_pool, "OFTEN", 10**6)


def control(what: str) -> None:
    """Start or stop the tests' daemon."""
    script = Path(__file__).with_name("daemon.sh")
    subprocess.run(["sh", script, what, FOLDER, KIND], check=True, stdout=subprocess.DEVNULL, timeout=120)


@pytest.fixture(scope="session")
def api() -> Any:
    """The daemon itself, to look behind the sandboxes."""
    from docker import APIClient

    return APIClient(base_url=URL, timeout=60)
