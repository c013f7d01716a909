"""A daemon that dies during an episode is a fault of that episode, and what it held is gone or removed when it is back."""

import contextlib
import os
import signal
from pathlib import Path

import pytest
from conftest import FOLDER, PYTHON, URL, control
from test_sandboxes import LIMITS

from agentgym.errors import BadConfig
from agentgym.sandbox import SandboxFault, sandbox
from agentgym.sandbox.docker.daemon import LABEL, connect


def test_a_daemon_that_dies() -> None:
    box = sandbox("docker", limits=LIMITS, **PYTHON)
    other = sandbox("docker", limits=LIMITS, **{**PYTHON, "image": "agentgym-test/shell"})
    assert box.run("echo").ok and other.run("echo").ok
    try:
        os.kill(int(Path(FOLDER, "pid").read_text()), signal.SIGKILL)
        with pytest.raises(SandboxFault):
            other.run("echo")
        with pytest.raises(SandboxFault):
            sandbox("docker", limits=LIMITS, **PYTHON)
        with contextlib.suppress(SandboxFault):  # where containers outlive their daemon
            box.run("echo")
        box.close()
        other.close()
        with pytest.raises(BadConfig, match="no container daemon answers"):
            sandbox("docker", image="x", daemon=URL.replace("daemon.sock", "./daemon.sock"))
    finally:
        control("stop")
        control("start")
    with sandbox("docker", limits=LIMITS, **PYTHON) as again:
        assert again.run("echo back").text == "back\n"
        left = again.daemon.client.api.containers(all=True, filters={"label": LABEL})
        assert [found["Id"] for found in left if found["State"] == "running"] == [again.container]
        for found in left:
            if found["Id"] != again.container:
                connect(URL).remove(found["Id"])
