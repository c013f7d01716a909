"""The parts of the docker sandbox that need no daemon: what a daemon or a container answers is written here."""

from types import SimpleNamespace

import pytest

from agentgym.errors import BadConfig
from agentgym.sandbox.docker import frames
from agentgym.sandbox.docker.daemon import Daemon
from agentgym.sandbox.docker.disk import free_bytes
from agentgym.sandbox.docker.kernel import DockerKernel
from agentgym.sandbox.protocol import Limits

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


class Answers:
    """A channel to a container that ends every step of a kernel at once."""

    def __init__(self):
        self.sent = []

    def open(self, number, most):
        pass

    allow = open

    def send(self, number, kind, body, deadline):
        self.sent.append((kind, body))

    def receive(self, number, deadline):
        return frames.ANSWER, b'{"status": 0, "reason": "exit"}'


@pytest.mark.parametrize("timeout", [0, -1.0, float("inf"), float("nan")])
def test_a_time_limit_of_a_kernel_that_is_none_is_refused(timeout):
    channel = Answers()
    kernel = DockerKernel(SimpleNamespace(limits=Limits(timeout=3), channel=channel), {"kind": "kernel"}, 1)
    with pytest.raises(BadConfig, match="expected seconds above 0"):
        kernel.run("1", timeout)
    assert kernel.run("1").reason == "exit" and kernel.alive
    assert channel.sent[2:] == [(frames.STEP, frames.TIMEOUT.pack(3.0) + b"1")]
