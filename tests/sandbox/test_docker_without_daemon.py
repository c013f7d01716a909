"""The parts of the docker sandbox that need no daemon: what a daemon or a container answers is written here."""

import threading
from types import SimpleNamespace

import pytest

from agentgym.errors import BadConfig
from agentgym.sandbox.docker import frames
from agentgym.sandbox.docker.daemon import Daemon
from agentgym.sandbox.docker.disk import free_bytes
from agentgym.sandbox.docker.kernel import DockerKernel
from agentgym.sandbox.docker.services import Services
from agentgym.sandbox.protocol import Limits, SandboxFault

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


class Programs:
    """A daemon's programs in a service: the output of each, by its first word; `None` in it blocks until the end."""

    def __init__(self, **output):
        self.output, self.ended = output, threading.Event()

    def exec_create(self, container, words, user=""):
        return {"Id": words[0]}

    def exec_start(self, name, stream=False):
        for piece in self.output[name]:
            if piece is None:
                assert self.ended.wait(10)
            elif isinstance(piece, Exception):
                raise piece
            else:
                yield piece

    def exec_inspect(self, name):
        return {"ExitCode": 1 if name == "sh" else 0}


def service(programs, monkeypatch):
    monkeypatch.setattr("agentgym.sandbox.docker.services.PATIENCE", 0.2)
    made = Services.__new__(Services)
    made._daemon, made._containers = SimpleNamespace(client=SimpleNamespace(api=programs)), {"web": "id"}
    return made


@pytest.mark.parametrize("silent", ["sh", "program"])
def test_a_silent_program_of_a_service_without_timeout_does_not_block(silent, monkeypatch):
    programs = Programs(**{"sh": [], "program": [b"some", b" text"], silent: [None]})
    try:
        with pytest.raises(SandboxFault, match="service 'web' of the task does not end a program"):
            service(programs, monkeypatch).run("web", ["program"], "", 0.1)
    finally:
        programs.ended.set()


def test_the_output_of_a_program_of_a_service(monkeypatch):
    programs = Programs(sh=[], program=[b"some", b" text"], faulty=[b"x", OSError("gone")])
    made = service(programs, monkeypatch)
    result = made.run("web", ["program"], "", 5)
    assert (result.exit_code, result.stdout) == (0, b"some text")
    with pytest.raises(SandboxFault, match="daemon failed: gone"):
        made.run("web", ["faulty"], "", 5)


def test_a_program_that_prints_forever_is_no_longer_read(monkeypatch):
    programs = Programs(sh=[], program=iter(lambda: b"x", b""))
    with pytest.raises(SandboxFault, match="does not end"):
        service(programs, monkeypatch).run("web", ["program"], "", 0.1)
    for thread in threading.enumerate():
        if thread.name == "service output":
            thread.join(10)
            assert not thread.is_alive()


def test_a_limit_below_half_a_second_stays_a_limit(monkeypatch):
    programs, started = Programs(sh=[], timeout=[b"text"]), []
    programs.exec_create = lambda container, words, user="": started.append(words) or {"Id": words[0]}
    programs.exec_inspect = lambda name: {"ExitCode": 0}  # the service's image has `timeout`
    service(programs, monkeypatch).run("web", ["program"], "", 0.3)
    assert started[-1] == ["timeout", "-s", "KILL", "1", "program"]  # 0 would set no limit
