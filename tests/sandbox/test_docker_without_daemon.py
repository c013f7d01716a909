"""The parts of the docker sandbox that need no daemon: what a daemon or a container answers is written here."""

from types import SimpleNamespace

import pytest

from agentgym.sandbox.docker.daemon import Daemon
from agentgym.sandbox.docker.disk import free_bytes

pytest.importorskip("docker")


def daemon(url="unix:///run/docker.sock", **api):
    made = Daemon.__new__(Daemon)
    made.url, made.client = url, SimpleNamespace(api=SimpleNamespace(**api))
    return made


def test_the_disk_of_another_machine_is_not_reported_as_free(tmp_path):
    def info():
        return {"DockerRootDir": str(tmp_path)}

    assert free_bytes(daemon(info=info))
    assert free_bytes(daemon("tcp://192.0.2.1:2375", info=info)) is None
    assert free_bytes(daemon("ssh://somebody@192.0.2.1", info=info)) is None
