"""A sandbox in one of Harbor's environments (0.26): local Docker, or a provider such as Daytona, E2B or Modal.

`agentgym.sandbox.sandbox("harbor", provider="docker", image="python:3.12")`, or `backend="harbor"` of an environment that
runs programs. DOCKER_HOST selects the local daemon. Everything goes through Harbor's `exec` and `upload_file`: each program
costs one call to the provider, and so does a `batch` of several. docs/guides/sandbox.md lists the differences from the
docker backend.
"""

# harbor is typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false

import asyncio
import base64
import contextlib
import io
import json
import os
import secrets
import shlex
import tarfile
import tempfile
import threading
import time
import weakref
from collections.abc import Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from functools import cache
from pathlib import Path
from typing import Any, Never, TypeVar

from harbor.environments.factory import EnvironmentFactory
from harbor.models.environment_type import EnvironmentType
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths

from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.integrations.harbor_shell import INLINE, LONGEST, PLACE, Job, job, of_python, result, shell
from agentgym.sandbox import working_folder as inside
from agentgym.sandbox.base import BaseSandbox
from agentgym.sandbox.docker import archive
from agentgym.sandbox.docker.container import NOBODY
from agentgym.sandbox.local.fork_server_sandbox import ENVIRONMENT
from agentgym.sandbox.protocol import MEGABYTE, Limits, Program, Result, SandboxFault

T = TypeVar("T")
START = 600.0
"""Seconds within which a provider must build, start or stop an environment."""
GRACE = 60.0
"""Seconds to wait after a program's time limit, which the container enforces, before the container counts as dead."""
LOCAL = ("docker", "podman")
NOT_BROUGHT = frozenset(("HOSTNAME", "HOME", "PWD", "OLDPWD", "SHLVL", "_", "TERM", "USER", "LOGNAME"))
"""Variables that belong to one container or login; they are not copied from the image's environment."""


@dataclass(frozen=True)
class ProviderOptions:
    """Options of a Harbor sandbox; options that the docker backend shares have the same names there."""

    provider: str = "docker"
    """An environment type of Harbor: `docker`, `podman`, `daytona`, `e2b`, `modal` …"""
    image: str = ""
    build: str = ""
    user: str = NOBODY
    """User that programs run as: `NAME`, `NUMBER` or `USER:GROUP`; users other than root need `setpriv` in the image."""
    work: str = "/home/agent"
    writable: bool = False
    """Accepted for callers that ask for a writable image; with Harbor, programs can always change the image's files."""
    network: str = "none"
    """`none`, or `public`; a provider that requires a network refuses `none`."""
    capabilities: Sequence[str] = ()
    """Linux capabilities of root; Harbor's containers have all that the daemon grants, so this changes nothing."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    cpus: float | None = None
    provider_options: Mapping[str, object] = field(default_factory=dict[str, object])
    """More options for the provider's environment class."""


class HarborSandbox(BaseSandbox):
    """A sandbox in one of Harbor's environments; its options are the fields of `ProviderOptions`."""

    def __init__(self, limits: Limits | None = None, *, packages: Sequence[str] = (), **options: Any) -> None:
        known = [entry.name for entry in fields_of(ProviderOptions)]
        wrong = next((name for name in options if name not in known), None)
        if wrong is not None:
            raise BadConfig(no_such("option of the harbor sandbox", wrong, known))
        self.limits, self.options = limits or Limits(), ProviderOptions(**options)
        if bool(self.options.image) == bool(self.options.build):
            raise BadConfig("the harbor sandbox needs an image, or a folder with a Dockerfile as build: exactly one of them")
        self.work = self.options.work
        stack = contextlib.ExitStack()
        try:
            self._environment = self._started(stack)
        except BaseException:
            stack.close()
            raise
        # Finalizers run in reverse order: this one must run before Harbor's own, which remove files that `stop` reads.
        self._let_go = weakref.finalize(self, _free, os.getpid(), stack)
        try:
            self._prepare(packages)
        except BaseException:
            self.close()
            raise

    def _started(self, stack: contextlib.ExitStack) -> Any:
        """Start the provider's environment and return it; closing `stack` stops it.

        Raises:
            UnknownName: Harbor has no such environment type.
            BadConfig: the provider refuses the options.
        """
        wanted = self.options
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agentgym-harbor-")))
        kinds = {kind.value: kind for kind in EnvironmentType}
        if wanted.provider not in kinds:
            raise UnknownName(no_such("environment type of Harbor", wanted.provider, kinds))
        config: dict[str, float | int | None] = {
            "cpus": wanted.cpus,
            "memory_mb": max(self.limits.memory // MEGABYTE, 16),
        }
        options: dict[str, Any] = {"enable_environment_dir_upload": False, **wanted.provider_options}
        if wanted.provider in LOCAL and wanted.network == "none":
            # Harbor itself disables the network with a second container and a proxy; here no address may be reachable.
            overlay = folder / "overlay.json"
            processes = self.limits.processes + 32  # ours among them
            service = {"network_mode": "none", "pids_limit": processes, "security_opt": ["no-new-privileges"]}
            overlay.write_text(json.dumps({"services": {"main": service}}))
            options["extra_docker_compose"] = [overlay, *options.get("extra_docker_compose", [])]
        elif wanted.network == "none":
            options["network_policy"] = NetworkPolicy(network_mode=NetworkMode.NO_NETWORK)
        (folder / "environment").mkdir()
        trial = TrialPaths(folder / "trial")
        trial.mkdir()
        try:
            environment = EnvironmentFactory.create_environment(
                kinds[wanted.provider],
                Path(wanted.build).resolve() if wanted.build else folder / "environment",
                Path(wanted.build).resolve().parent.name if wanted.build else "agentgym",
                f"agentgym-{secrets.token_hex(8)}",
                trial,
                EnvironmentConfig(docker_image=wanted.image or None, **config),
                **options,
            )
        except (ValueError, ImportError, FileNotFoundError, SystemExit) as error:
            raise BadConfig(f"Harbor's {wanted.provider} cannot be had as asked: {error}") from error
        stack.callback(_quietly, environment)
        _wait(environment.start(force_build=False), START)
        return environment

    def _prepare(self, packages: Sequence[str]) -> None:
        """Create the working folder, make it writable for programs, and check that the requested packages can be imported.

        Raises:
            BadConfig: the image lacks a required program, the user or a package, or the working folder cannot be created.
        """
        owner = shlex.quote(self.options.user)
        prepared = f"mkdir -p {shlex.quote(self.work)} {PLACE} && chmod 711 {PLACE}"
        if self.options.user not in ("root", "0"):
            prepared += f" && chown {owner} {shlex.quote(self.work)}"
        answer = self._ask(f"{prepared} && : > {PLACE}/in && command -v setsid base64 head > /dev/null", GRACE)
        if answer.return_code:
            raise BadConfig(
                f"the image of the harbor sandbox lacks a requirement (setsid, base64, head) or user {self.options.user!r}, "
                f"or work {self.work!r} cannot be created: {str(answer.stdout or answer.stderr)[-300:]}"
            )
        self.python3 = self._ask("command -v python3 > /dev/null", GRACE).return_code == 0
        environment = str(self._ask("env -0 | base64 -w 0", GRACE).stdout or "")
        pairs = (pair.partition("=") for pair in base64.b64decode(environment).decode("utf-8", "replace").split("\0"))
        brought = {name: value for name, _, value in pairs if name and name not in NOT_BROUGHT}
        home = "/root" if self.options.user in ("root", "0") else self.work
        self._variables = {**ENVIRONMENT, "HOME": home, **brought, **self.options.environment}
        for name in packages:
            if not self.python(f"import {name}").ok:
                raise BadConfig(f"package {name!r} cannot be imported in the image of the harbor sandbox")

    # Methods of the sandbox protocol

    def kernel(self) -> Never:
        """Raise BadConfig: a persistent Python kernel needs a stream, and Harbor's environments have none.

        Raises:
            BadConfig: always.
        """
        raise BadConfig("the harbor sandbox has no kernel(): Harbor runs one program a call; take the docker backend for it")

    def read(self, path: str) -> bytes:
        """Return a file's content. Raises FileNotFoundError, IsADirectoryError, or OSError if the file is too large."""
        if self.python3:
            return inside.read(self._trusted, path, self.limits.disk)
        return archive.read(self._do, path, self.limits.disk)

    def write(self, path: str, content: bytes) -> None:
        """Write a file and create its parent folders. Raises OSError if there is no space."""
        if self.python3:
            inside.write(self._trusted, path, content)
        else:
            archive.write(self._do, path, content)

    def snapshot(self) -> bytes:
        """Return the working folder as a tar archive."""
        return inside.pack(self._trusted, self._most) if self.python3 else archive.pack(self._do, ".", self._most)

    def restore(self, state: bytes) -> None:
        """Replace the contents of the working folder by those of a tar archive."""
        if self.python3:
            inside.unpack(self._trusted, state)
        else:
            archive.replace(self._do, state)

    def run_as(self, user: str, command: Sequence[str], *, timeout: float | None = None) -> Result:
        """Run a program as a user of the image; empty means root, because Harbor does not report the default user."""
        return self._run(command, b"", self.limits.seconds(timeout), self.limits.output, user=user or "root")

    def copy_in(self, content: bytes, path: str) -> None:
        """Unpack a tar archive, as root, in a folder of the container; create the folder if it is missing."""
        with tarfile.open(fileobj=io.BytesIO(content)):
            archive.unpack(self._do_as_root, content, path)

    def copy_out(self, path: str) -> bytes:
        """Return a file or folder of the container as a tar archive; raises FileNotFoundError if it is missing."""
        return archive.pack(self._do_as_root, path, self._most)

    def close(self) -> None:
        """Stop the environment and free its resources."""
        self._let_go()

    # Executions

    def _do(self, script: str, words: Sequence[str], stdin: bytes, cap: int) -> Result:
        return self._run(["/bin/sh", "-c", script, "sh", *words], stdin, max(GRACE, self.limits.timeout), cap)

    def _do_as_root(self, script: str, words: Sequence[str], stdin: bytes, cap: int) -> Result:
        command = ["/bin/sh", "-c", script, "sh", *words]
        return self._run(command, stdin, max(GRACE, self.limits.timeout), cap, user="root")

    def _execute(self, request: dict[str, Any], stdin: bytes, timeout: float | None) -> Result:
        seconds = self.limits.seconds(timeout)
        if request["kind"] == "command":
            return self._run(request["command"], stdin, seconds, self.limits.output)
        return self._python(str(request["code"]), stdin, seconds, self.limits.output)

    def _trusted(self, code: str, stdin: bytes, cap: int) -> Result:
        """Run Python code of agentgym as the programs' user, so that links in the working folder cannot lead outside."""
        return self._python(code, stdin, max(GRACE, self.limits.timeout), cap, "-I")

    def batch(self, programs: Sequence[Program]) -> list[Result]:
        """Run programs one after another, in a single call to the provider if they fit in one command line.

        In a single call, the first program's result has the seconds of the whole call, and the others have 0.

        Raises:
            SandboxFault: the environment does not report the end of every program.
        """
        if not programs:  # saves a call
            return []
        jobs = [self._job_of(program) for program in programs]
        command = shell(jobs)
        if len(command) > LONGEST or any(len(job.stdin) > INLINE for job in jobs):
            return super().batch(programs)
        started = time.monotonic()
        answer = self._ask(command, sum(job.seconds for job in jobs) + GRACE)
        seconds = time.monotonic() - started
        return [result(job, answer, 0.0 if number else seconds) for number, job in enumerate(jobs)]

    def _job_of(self, program: Program) -> Job:
        """Return the job that runs a program just as `run`, `python` or `_trusted` would."""
        if program.room:
            seconds = max(GRACE, self.limits.timeout)
            return self._job(*of_python(program.code, b"", "-I"), seconds, program.room)
        seconds = self.limits.seconds(program.timeout)
        if program.code:
            return self._job(*of_python(program.code, b""), seconds, self.limits.output)
        words = ["/bin/sh", "-c", program.command] if isinstance(program.command, str) else program.command
        return self._job(words, b"", seconds, self.limits.output)

    def _python(self, code: str, stdin: bytes, seconds: float, cap: int, *flags: str) -> Result:
        return self._run(*of_python(code, stdin, *flags), seconds, cap)

    def _run(self, command: Sequence[str], stdin: bytes, seconds: float, cap: int, user: str = "") -> Result:
        """Run a program as `user` (empty: the sandbox's user); return its result once all its descendants are dead too.

        Raises:
            SandboxFault: the environment does not report the program's end.
        """
        job = self._job(command, stdin, seconds, cap, user)
        if len(stdin) > INLINE:
            self._upload(stdin, f"{PLACE}/in")
        started = time.monotonic()
        answer = self._ask(shell([job]), seconds + GRACE)
        return result(job, answer, time.monotonic() - started)

    def _job(self, command: Sequence[str], stdin: bytes, seconds: float, cap: int, user: str = "") -> Job:
        """Return the job that runs a program; its input is part of the script unless it exceeds INLINE bytes."""
        user = user or self.options.user
        words = ["env", "-i", *(f"{name}={value}" for name, value in self._variables.items()), *command]
        run = " ".join(map(shlex.quote, words))
        if user not in ("root", "0"):
            name, _, group = (shlex.quote(part) for part in user.partition(":"))
            group = group if ":" in user else f'"$(id -g {name})"'
            run = f"setpriv --reuid={name} --regid={group} --clear-groups --no-new-privs -- {run}"
        return job(run, stdin, seconds, cap, self.work, self.limits.open_files)

    def _upload(self, content: bytes, path: str) -> None:
        with tempfile.NamedTemporaryFile() as file, _faults():
            file.write(content)
            file.flush()
            _wait(self._environment.upload_file(file.name, path), START)

    def _ask(self, command: str, seconds: float) -> Any:
        with _faults():
            return _wait(
                self._environment.exec(command, cwd="/", timeout_sec=int(seconds) + 1, user="root"), seconds + GRACE
            )


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop, in a separate thread, that all of Harbor's environments share."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="harbor", daemon=True).start()
    return loop


def _wait(work: Coroutine[object, object, T], seconds: float) -> T:
    """Run one of Harbor's coroutines on the shared event loop and return its result.

    Raises:
        SandboxFault: the coroutine fails or takes longer than `seconds`.
    """
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result(seconds)
    except TimeoutError:
        future.cancel()
        raise SandboxFault(f"the environment of Harbor did not answer within {seconds:g} s") from None
    except Exception as error:
        raise SandboxFault(f"the environment of Harbor failed: {str(error)[-500:]}") from error


@contextlib.contextmanager
def _faults() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise SandboxFault(f"the environment of Harbor failed: {error}") from error


def _quietly(environment: Any) -> None:
    with contextlib.suppress(SandboxFault):
        _wait(environment.stop(delete=True), START)


def _free(owner: int, stack: contextlib.ExitStack) -> None:
    """Stop an environment, unless this process is a fork of its `owner` (a process id)."""
    if os.getpid() == owner:
        stack.close()
