"""A container sandbox with Docker or Podman. Its process 1 is `docker/init.py`, which it reaches over one stream."""

import contextlib
import importlib.util
import itertools
import json
import os
import platform
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from agentgym.errors import BadConfig, no_such
from agentgym.sandbox import working_folder as inside
from agentgym.sandbox.base import BaseSandbox
from agentgym.sandbox.docker import archive as docker_archive
from agentgym.sandbox.docker import frames as frames
from agentgym.sandbox.docker import images
from agentgym.sandbox.docker.channel import Channel, told_in
from agentgym.sandbox.docker.container import KNOWN, ROOT_CAPABILITIES, ContainerSpec, attach, create, image_of, with_room
from agentgym.sandbox.docker.daemon import Daemon, connect, faults
from agentgym.sandbox.docker.egress import EVERYWHERE, Egress
from agentgym.sandbox.docker.kernel import DockerKernel
from agentgym.sandbox.docker.program_stream import MOST, ProgramStream
from agentgym.sandbox.docker.services import Services
from agentgym.sandbox.docker.shell import Shell
from agentgym.sandbox.local.fork_server_sandbox import ENVIRONMENT
from agentgym.sandbox.protocol import MEGABYTE, SAME, ContainerOptions, Limits, Result, SandboxFault
from agentgym.sandbox.seccomp import denied_calls

__all__ = ["ROOT_CAPABILITIES", "Docker"]

START = 60.0
"""Time limit in seconds for process 1 to get ready."""
GRACE = 30.0
"""Seconds to wait for a report beyond the time limit that process 1 enforces; then the container counts as dead."""
MESSAGES = 4096
SENT = ("docker.frames", "docker.processes", "inside.system", "inside.kernel", "docker.program", "docker.init")
"""Modules of process 1, each after the modules that it imports."""


class Docker(BaseSandbox):
    """A sandbox in its own container; `options` are the fields of `docker.container.ContainerSpec`.

    `packages`: libraries preloaded in the image's Python. Raises BadConfig if the daemon, the image or a tool in it is
    missing, SandboxFault if the container does not start. Closes itself when garbage collected, and at process exit.
    """

    def __init__(
        self, limits: Limits | None = None, *, packages: Sequence[str] = (), **options: Unpack[ContainerOptions]
    ) -> None:
        wrong = next((name for name in options if name not in KNOWN), None)
        if wrong is not None:
            raise BadConfig(no_such("option of the docker sandbox", wrong, KNOWN))
        self.spec = ContainerSpec(**options)
        self.limits = with_room(limits or Limits(), self.spec.room)
        self.work = self.spec.work
        self.daemon = connect(self.spec.daemon)
        self.daemon.sweep()
        self._numbers = itertools.count(1)
        self._channel: Channel | None = None
        self._shell: Shell | None = None
        self._image, brought, self._user, self._entrypoint = image_of(self.daemon, self.spec)
        home = "/root" if self.spec.writable and self.spec.user.partition(":")[0] in ("root", "0") else self.work
        self.environment = {**ENVIRONMENT, "HOME": home, **brought, **self.spec.environment}
        """Environment variables from the image and the options, without those for a proxy."""
        stack, self._nets = contextlib.ExitStack(), contextlib.ExitStack()
        self._on = (self.spec.network, self.spec.allowed_hosts)
        sides = contextlib.ExitStack()
        try:
            self._services = self._beside(sides)
            network = self._network(*self._on)
            self.container, self._loose = create(self.daemon, self._image, self.spec, self.limits, network, self._services)
        except BaseException:
            self._nets.close()
            sides.close()
            raise
        self._let_go = weakref.finalize(self, _free, os.getpid(), self.daemon, self.container, stack, self._nets, sides)
        try:
            self._join_services()
            self.version = self._begin(list(packages), self._loose, stack)
            """Version of the image's Python; empty if the image has none or it is older than 3.8."""
            self._prepare()
            if self._services:
                self._services.join(self.container)
        except BaseException:
            self.close()
            raise

    def _begin(self, packages: list[str], loose: list[str], stack: contextlib.ExitStack) -> str:
        attached, stream = attach(self.daemon, self.container)
        stack.callback(attached.close)
        self._channel = channel = Channel(stream)
        stack.callback(channel.close)
        channel.open(0, frames.CHUNK)
        try:
            with faults():
                self.daemon.client.api.start(self.container)
        except SandboxFault as fault:
            if "/bin/sh" in str(fault):
                raise BadConfig(
                    f"image {self._image!r} has no /bin/sh, which the docker sandbox needs in it ({fault})"
                ) from fault
            raise
        if "python" not in told_in(channel.receive(0, time.monotonic() + START)[1]):
            if self.spec.background:
                raise BadConfig(
                    f"processes that outlive their command need python3 in the image, which {self._image!r} has not"
                )
            self._shell = Shell(self.daemon, self.container, self.spec.user, channel)
            return ""
        settings = {
            "files": self.limits.files,
            "memory": self.limits.memory,
            "folders": [] if self.spec.writable else [self.work, "/tmp", "/dev/shm"],
            "watch": loose,
            "background": self.spec.background,
            "preload": packages,
            "machine": platform.machine(),
            "filter": denied_calls().hex() if importlib.util.find_spec("pyseccomp") else "",
            "limits": self._resources(loose),
        }
        here = Path(__file__).parents[1]
        sources = [(name, (here / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")) for name in SENT]
        body = json.dumps({"sources": sources, "settings": settings}).encode()
        channel.put(len(body).to_bytes(4, "big") + body, time.monotonic() + START)
        facts = told_in(channel.receive(0, time.monotonic() + START)[1])
        for name, error in facts["failed"].items():
            raise BadConfig(f"package {name!r} cannot be imported in image {self._image!r}: {error}")
        return str(facts["python"])

    def _resources(self, loose: list[str]) -> dict[str, int]:
        limits_set = {"CORE": 0, "NOFILE": self.limits.open_files, "MEMLOCK": 0, "STACK": 8 << 20}
        if not self.spec.writable:
            limits_set["FSIZE"] = self.limits.disk
        return {**limits_set, "NPROC": self.limits.processes} if "processes" in loose else limits_set

    def _prepare(self) -> None:
        script = 'mkdir -p "$1" && test -w "$1" || exit; command -v bash > /dev/null && bash -c :; exit 0'
        command = ["/bin/sh", "-c", script, "sh", self.work]
        answer = self._execute({"kind": "command", "command": command, "cwd": "/"}, b"", GRACE)
        if not answer.ok:
            raise BadConfig(
                f"work is {self.work!r}, where user {self.spec.user!r} cannot write in image {self._image!r} "
                f"({answer.text.strip() or answer.reason}): choose another folder, or user='root' with writable=True"
            )
        if b"setlocale" in answer.stderr:  # no C.UTF-8: every bash would warn
            self.environment |= {name: "C" for name in ("LANG", "LC_ALL") if self.environment[name] == ENVIRONMENT[name]}

    def _beside(self, stack: contextlib.ExitStack) -> Services | None:
        beside = self.spec.beside
        if beside is None:
            return None
        most = self.spec.images_gb
        found = {
            service.name: images.built(self.daemon, Path(service.build), "", beside.seconds, most)["Id"]
            if service.build
            else images.have(self.daemon, service.image, self.spec.pull, most)["Id"]
            for service in beside.services
        }
        outside = self.spec.network if self.spec.allowed_hosts is None and self.spec.network != "none" else ""
        services = Services(self.daemon, beside, found, outside)
        stack.callback(services.close)
        return services

    def _join_services(self) -> None:
        api = self.daemon.client.api
        joined = self._services.networks if self._services else {}
        with faults():
            present: dict[str, Any] = api.inspect_container(self.container)["NetworkSettings"]["Networks"] if joined else {}
            for name, aliases in joined.items():
                if name not in present:
                    api.connect_container_to_network(self.container, name, aliases=list(aliases))

    @property
    def services(self) -> Services:
        """The side services.

        Raises:
            BadConfig: the container has none.
        """
        if self._services is None:
            raise BadConfig("the container has no side services")
        return self._services

    def _network(self, name: str, hosts: Sequence[str] | None) -> str:
        self._proxy: dict[str, str] = {}
        if hosts is None or name == "none":
            return name
        try:
            proxy = images.have(self.daemon, self.spec.proxy_image, self.spec.pull, self.spec.images_gb)["Id"]
        except BadConfig as error:
            raise BadConfig(f"the proxy of allowed hosts needs an image with python3 (proxy_image): {error}") from error
        egress = Egress(self.daemon, hosts, name, proxy, self.spec.beside.names if self.spec.beside else ())
        self._nets.callback(egress.close)
        self._proxy = egress.variables
        return egress.name

    def reconnect(self, network: str = "none", allowed_hosts: Sequence[str] | None = None) -> None:
        """Move the container to a network of the daemon; by default, leave only the networks of side services."""
        if (network, allowed_hosts) == self._on:
            return
        self._on = (network, allowed_hosts)
        if allowed_hosts is None and network != "none" and self.spec.allowed_hosts is not None:
            allowed_hosts = EVERYWHERE  # the container has no name server
        api = self.daemon.client.api
        joined = self._services.networks if self._services else {}
        with faults():
            for name in api.inspect_container(self.container)["NetworkSettings"]["Networks"]:
                if name not in joined:
                    api.disconnect_container_from_network(self.container, name, force=True)
        self._nets.close()
        if network != "none" or not joined:
            with faults():
                api.connect_container_to_network(self.container, self._network(network, allowed_hosts))

    def run_as(self, user: str, command: Sequence[str], *, timeout: float | None = None) -> Result:
        """Run a program as a user: a name or a number, optionally a group after a colon; empty for the image's default user.

        The sandbox must run as root. An unknown user gives an error on standard error and exit code 127.
        """
        return self._execute({"kind": "command", "command": list(command), "user": user or self._user}, b"", timeout)

    def stream(self, user: str, command: Sequence[str], *, most: int = MOST, **request: object) -> ProgramStream:
        """Start a program as a user (see `run_as`; or `SAME`), and return its streams, limited to `most` bytes each.

        Raises:
            BadConfig: the image has no Python.
        """
        if self._shell is not None:
            raise BadConfig(f"a program to talk to needs python3 in the image, which {self._image!r} has not")
        who = {} if user == SAME else {"user": user or self._user}
        start = self._request({"kind": "command", "command": list(command), **who, **request})
        return ProgramStream(self.channel, start, next(self._numbers), most)

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of programs, including those for the proxy."""
        return {**self.environment, **self._proxy}

    def run_entrypoint(self, command: Sequence[str] = ()) -> None:
        """Start the image's entry point, which may start services, with `command` or an idle command as its arguments.

        Does nothing if the image has no Python, or if there is neither an entry point nor a command.
        """
        words = [*self._entrypoint, *(command or ("/bin/sh", "-c", "sleep infinity"))]
        if (self._entrypoint or command) and self._shell is None:
            quiet = 'exec "$@" > /dev/null 2>&1'
            self.stream("", ["/bin/sh", "-c", quiet, "sh", *words])

    @property
    def overfull(self) -> bool:
        """True if changes to the image's files exceed `storage_mb`; False if the daemon enforces this limit itself."""
        if "storage" not in self._loose:
            return False
        with faults():
            (facts,) = self.daemon.client.api.containers(filters={"id": self.container}, size=True)
        return facts.get("SizeRw", 0) > (self.spec.storage_mb or 0) * MEGABYTE

    # The protocol

    def python(self, code: str, *, stdin: bytes = b"", timeout: float | None = None) -> Result:
        """Run Python code as a separate program; raise BadConfig if the image has no Python."""
        self._need_python()
        return super().python(code, stdin=stdin, timeout=timeout)

    def kernel(self) -> DockerKernel:
        """Start a persistent Python; raise BadConfig if the image has no Python."""
        self._need_python()
        return DockerKernel(self, self._request({"kind": "kernel"}), next(self._numbers))

    def read(self, path: str) -> bytes:
        """Return a file's content; raise FileNotFoundError, IsADirectoryError, or OSError if it is too large."""
        if self._shell is not None:
            return docker_archive.read(self._do, path, self.limits.disk)
        return inside.read(self._trusted, path, self.limits.disk)

    def write(self, path: str, content: bytes) -> None:
        """Write a file, creating its folders; raise OSError if there is no space."""
        if self._shell is not None:
            docker_archive.write(self._do, path, content)
        else:
            inside.write(self._trusted, path, content)

    def snapshot(self) -> bytes:
        """Return the working folder as a tar archive."""
        if self._shell is not None:
            return docker_archive.pack(self._do, ".", self._most)
        return inside.pack(self._trusted, self._most)

    def restore(self, state: bytes) -> None:
        """Replace the content of the working folder with that of a snapshot."""
        if self._shell is not None:
            docker_archive.replace(self._do, state)
        else:
            inside.unpack(self._trusted, state)

    # For graders

    def copy_in(self, archive: bytes, path: str) -> None:
        """Unpack a tar archive in a folder of the container, creating it.

        Runs as root if the image's files may change, else as the sandbox's user.
        """
        if self.spec.writable:
            docker_archive.put(self.daemon, self.container, archive, path)
        else:
            docker_archive.unpack(self._do, archive, path)

    def copy_out(self, path: str, service: str = "") -> bytes:
        """Return a file or folder of the container or a service as a tar archive; raise FileNotFoundError if missing."""
        if service:
            return docker_archive.get(self.daemon, self.services.container(service), path, self._most)
        if self.spec.writable:
            return docker_archive.get(self.daemon, self.container, path, self._most)
        return docker_archive.pack(self._do, path, self._most)

    def close(self) -> None:
        """Kill the container and free its resources."""
        self._let_go()

    # Executions

    @property
    def channel(self) -> Channel:
        """The stream to process 1."""
        assert self._channel is not None
        return self._channel

    def _need_python(self) -> None:
        if self._shell is not None:
            raise BadConfig(
                f"image {self._image!r} has no python3 (3.8 or newer) on its path, which python() and kernel() need: use an "
                "image with Python, or run() the image's own programs"
            )

    def looked(self, code: str, stdin: bytes, seconds: float) -> Result:
        """Run trusted Python code in the folder `/`, as the sandbox's user; `seconds` is the time limit."""
        return self._execute({"kind": "python", "code": code, "cwd": "/"}, stdin, seconds)

    def _trusted(self, code: str, stdin: bytes, cap: int) -> Result:
        """Run trusted Python code in the container as the programs' user, so that no link leads outside."""
        return self._execute({"kind": "python", "code": code}, stdin, max(GRACE, self.limits.timeout), cap)

    def _do(self, script: str, words: Sequence[str], stdin: bytes, cap: int) -> Result:
        request = {"kind": "command", "command": ["/bin/sh", "-c", script, "sh", *words]}
        return self._execute(request, stdin, max(GRACE, self.limits.timeout), cap)

    def _request(self, request: dict[str, object]) -> dict[str, object]:
        return {
            "cwd": self.work,
            "env": self.variables,
            "timeout": 0,
            "cap": self.limits.output,
            **request,
        }

    def _execute(self, request: dict[str, Any], stdin: bytes, timeout: float | None, cap: int = 0) -> Result:
        timeout = self.limits.seconds(timeout)
        cap = cap or self.limits.output
        request = self._request({**request, "timeout": timeout, "cap": cap})
        if self._shell is not None:
            return self._shell.run(request, stdin)
        number, channel = next(self._numbers), self.channel
        deadline = time.monotonic() + timeout + GRACE
        channel.open(number, 2 * cap + MESSAGES)
        try:
            channel.send(number, frames.START, json.dumps(request).encode(), deadline)
            view = memoryview(stdin)
            for place in range(0, len(stdin), frames.CHUNK):
                channel.send(number, frames.INPUT, view[place : place + frames.CHUNK], deadline)
            channel.send(number, frames.INPUT, b"", deadline)
            streams = {frames.OUT: bytearray(), frames.ERR: bytearray()}
            while True:
                kind, body = channel.receive(number, deadline)
                if kind == frames.END:
                    report = told_in(body)
                    return Result(
                        int(report["status"]),
                        bytes(streams[frames.OUT]),
                        bytes(streams[frames.ERR]),
                        str(report["reason"]),
                        float(report["seconds"]),
                    )
                streams[kind] += body
        finally:
            channel.forget(number)


def _free(owner: int, daemon: Daemon, container: str, *stacks: contextlib.ExitStack) -> None:
    """Kill a container and close the stacks, unless this process is a fork of the owner."""
    if os.getpid() != owner:
        return
    with contextlib.ExitStack() as ending:
        for stack in reversed(stacks):  # networks last, when unused
            ending.callback(stack.close)
        with contextlib.suppress(SandboxFault):  # a dead daemon removes nothing: the next sweep does
            daemon.remove(container)  # before the stream ends: Podman cannot remove an ending container
