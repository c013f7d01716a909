"""Checkers that read hostile text, each call in a process of its own with limits on time and memory."""

import atexit
import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import IO, Any, TypedDict, cast

from agentgym.core.beside import python
from agentgym.errors import BadConfig, Fault, Reason

START = 180.0  # seconds for the server to import its libraries on a busy machine
GRACE = 30.0  # seconds beyond a call's own after which the server itself is taken to be broken
LONGEST_REPLY = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a call."""

    value: Any = None
    """What the function returned, as JSON keeps it."""
    problem: str = ""
    """Empty, or why there is no value: `timeout`, `memory`, `killed`, or the exception with its message."""


class Request(TypedDict):
    """A call as it is sent."""

    target: str
    arguments: Sequence[object]
    seconds: float
    memory: int
    trusted: bool


def call(
    target: str,
    *arguments: object,
    preload: Sequence[str] = (),
    seconds: float = 5.0,
    memory: int = 1 << 30,
    trusted: bool = False,
) -> Reply:
    """Call `module:function` with JSON arguments in a fresh process that has carried out `preload` already.

    `preload` names functions without arguments (`module:function`) or modules to import, once for all calls alike.
    `seconds` is wall clock, `memory` the bytes it may map beyond what the imports took. What the text does wrong is a
    problem in the reply; Fault where the server of such calls cannot be started or breaks twice. `trusted` is for
    arguments that no model wrote: the call is made in the server itself, and what it keeps there, later ones find.
    """
    request: Request = {"target": target, "arguments": arguments, "seconds": seconds, "memory": memory, "trusted": trusted}
    return _server(tuple(preload)).ask(request, seconds + GRACE)


class _Server:
    """A process that imports libraries once and forks itself for every call."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self.modules, self.owner = modules, os.getpid()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: Request, seconds: float) -> Reply:
        """Return the reply; a server that breaks is replaced once."""
        line = json.dumps(request).encode() + b"\n"
        with self._lock:
            for _ in range(2):
                process = self._process or self._start()
                try:
                    cast("IO[bytes]", process.stdin).write(line)
                    cast("IO[bytes]", process.stdin).flush()
                    return Reply(**_heard(process, seconds))
                except (OSError, ValueError, TypeError):
                    self.close()
                except BaseException:  # interrupted: a reply that nobody waited for must not be taken for the next one's
                    self.close()
                    raise
        raise Fault("the process that checks answers broke twice in a row", reason=Reason.CRASH)

    def _start(self) -> subprocess.Popen[bytes]:
        if not hasattr(os, "fork"):
            raise BadConfig("checking answers with limits needs a system that can fork: Linux or macOS")
        command = [*python(), "-c", "from agentgym.rewards.bounded import serve; serve()", *self.modules]
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONHASHSEED": "0",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        pipe = subprocess.PIPE
        self._process = process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
        )
        try:
            told = _heard(process, START)
        except (OSError, ValueError) as error:
            self.close()
            raise Fault(f"the process that checks answers does not start: {error}", reason=Reason.CRASH) from error
        if told.get("problem"):
            self.close()
            raise Fault(f"the process that checks answers does not start: {told['problem']}", reason=Reason.CRASH)
        return process

    def close(self) -> None:
        """End the server."""
        process, self._process = self._process, None
        if process is not None and self.owner == os.getpid():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    cast("IO[bytes]", pipe).close()


_servers: dict[tuple[str, ...], _Server] = {}


def _server(modules: tuple[str, ...]) -> _Server:
    server = _servers.get(modules)
    if server is None or server.owner != os.getpid():  # a forked process must not share its parent's pipes
        server = _servers[modules] = _Server(modules)
        atexit.register(server.close)
    return server


def _heard(process: "subprocess.Popen[bytes]", seconds: float) -> dict[str, Any]:
    """Return the next line of the server as JSON; OSError or ValueError where none comes in time."""
    pipe = cast("IO[bytes]", process.stdout).fileno()
    said, deadline = bytearray(), time.monotonic() + seconds
    while not said.endswith(b"\n"):
        if not wait([pipe], max(deadline - time.monotonic(), 0.0)):
            raise OSError(f"no word in {seconds:.0f} s")
        piece = os.read(pipe, 65536)
        if not piece:
            raise OSError("it ended")
        said += piece
    return json.loads(said)


# The other side


def serve() -> None:
    """Be the server: load what the command line names, then fork for every line of standard input."""
    told = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not mix with the replies

    def say(reply: dict[str, object]) -> None:
        told.write(json.dumps(reply).encode() + b"\n")
        told.flush()

    try:
        for name in sys.argv[1:]:
            module, _, function = name.partition(":")
            loaded = importlib.import_module(module)
            if function:
                getattr(loaded, function)()
    except Exception as error:  # whatever it is, the caller hears of it
        say({"problem": f"{type(error).__name__}: {error}"})
        return
    say({"value": "ready"})
    _end_with(os.getppid())
    for line in sys.stdin.buffer:
        request = json.loads(line)
        say(json.loads(_answered(request)) if request["trusted"] else _forked(request))


def _end_with(parent: int) -> None:
    """End this process when its parent has, which a long call would not notice otherwise."""

    def look(_signal: int, _frame: object) -> None:
        if os.getppid() != parent:
            os._exit(1)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 2.0, 2.0)


def _forked(request: Request) -> dict[str, object]:
    """Carry out one call in a child and return its reply, or what ended it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _be_the_child(request, write)
    os.close(write)
    said, deadline, timed_out = bytearray(), time.monotonic() + request["seconds"], False
    while len(said) <= LONGEST_REPLY:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([read], [], [], left)[0]:
            timed_out = True
            break
        piece = os.read(read, 65536)
        if not piece:
            break
        said += piece
    os.close(read)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if timed_out:
        return {"problem": "timeout"}
    try:
        return json.loads(said)
    except ValueError:  # it was ended before it said all
        return {"problem": "killed"}


def _be_the_child(request: Request, write: int) -> None:
    with contextlib.suppress(BaseException):
        _limit(request["seconds"], request["memory"])
        os.write(write, _answered(request).encode())  # the reader waits, so a long reply goes through at once or not at all
    os._exit(0)


def _answered(request: Request) -> str:
    module, _, name = request["target"].partition(":")
    try:
        value = getattr(importlib.import_module(module), name)(*request["arguments"])
        return json.dumps({"value": value})
    except MemoryError:
        return '{"problem": "memory"}'
    except BaseException as error:  # of any kind: the text that was checked brought it about
        return json.dumps({"problem": f"{type(error).__name__}: {str(error)[:200]}"})


def _limit(seconds: float, memory: int) -> None:
    import resource

    mapped = 0
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    limits = {"RLIMIT_CPU": int(seconds) + 2, "RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0}
    if mapped:
        limits["RLIMIT_AS"] = mapped + memory
    for name, value in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))
