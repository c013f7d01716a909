"""Run checkers of hostile text: each call has its own process, with limits on time and memory."""

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
GRACE = 30.0  # extra seconds after a call's limit before the server counts as broken
LONGEST_REPLY = 1 << 20  # bytes
_SYSTEM = "agentgym.sandbox.inside.system"  # Linux only


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a call."""

    value: Any = None
    """The function's return value, as decoded from JSON."""
    problem: str = ""
    """Reason for a missing value: `timeout`, `memory`, `killed`, or the exception with its message; empty on success."""


class Request(TypedDict):
    """A call, as sent to the server in JSON; see `call`."""

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
    """Call `module:function` with JSON arguments in a fresh process that has run `preload` already.

    `preload` names modules to import, or functions without arguments to call (`module:function`), once for all calls.
    `seconds` limits wall-clock time, and `memory` the bytes that the call may map in addition to the imports. If the
    function raises or exceeds a limit, the reply's `problem` says so. Set `trusted` only if no model wrote the
    arguments: the call then runs in the server itself without a memory limit, and later calls see the state that it leaves
    there; a trusted call that is too slow is repeated once, and then raises Fault.

    Raises Fault if the server cannot be started or breaks twice, and BadConfig if the system cannot fork.
    """
    request: Request = {"target": target, "arguments": arguments, "seconds": seconds, "memory": memory, "trusted": trusted}
    return _server(tuple(preload)).ask(request, seconds + GRACE)


class _Server:
    """A fork server: imports libraries once and forks for every call."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self.modules, self.owner = modules, os.getpid()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: Request, seconds: float) -> Reply:
        """Return the reply, which must arrive within `seconds`; a broken server is replaced once.

        Raises:
            Fault: the server broke twice in a row.
        """
        line = json.dumps(request).encode() + b"\n"
        with self._lock:
            for _ in range(2):
                process = self._process or self._start()
                try:
                    cast("IO[bytes]", process.stdin).write(line)
                    cast("IO[bytes]", process.stdin).flush()
                    return Reply(**_read_line(process, seconds))
                except (OSError, ValueError, TypeError):
                    self.close()
                except BaseException:  # interrupted: the pending reply must not be mistaken for the next call's
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
            greeting = _read_line(process, START)
        except (OSError, ValueError) as error:
            self.close()
            raise Fault(f"the process that checks answers does not start: {error}", reason=Reason.CRASH) from error
        if greeting.get("problem"):
            self.close()
            raise Fault(f"the process that checks answers does not start: {greeting['problem']}", reason=Reason.CRASH)
        return process

    def close(self) -> None:
        """Stop the server."""
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
    if server is None or server.owner != os.getpid():  # a forked child must not share its parent's pipes
        server = _servers[modules] = _Server(modules)
        atexit.register(server.close)
    return server


def _read_line(process: "subprocess.Popen[bytes]", seconds: float) -> dict[str, Any]:
    """Return the server's next line, decoded from JSON; a malformed line raises ValueError.

    Raises:
        OSError: the server ended or did not answer in time.
    """
    pipe = cast("IO[bytes]", process.stdout).fileno()
    line, deadline = bytearray(), time.monotonic() + seconds
    while not line.endswith(b"\n"):
        if not wait([pipe], max(deadline - time.monotonic(), 0.0)):
            raise OSError(f"no word in {seconds:.0f} s")
        piece = os.read(pipe, 65536)
        if not piece:
            raise OSError("it ended")
        line += piece
    return json.loads(line)


# The server's side


def serve() -> None:
    """Run the server: load the modules on the command line, then fork for every line of standard input."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # library output must not mix with the replies

    def say(reply: dict[str, object]) -> None:
        replies.write(json.dumps(reply).encode() + b"\n")
        replies.flush()

    try:
        for name in sys.argv[1:]:
            module, _, function = name.partition(":")
            loaded = importlib.import_module(module)
            if function:
                getattr(loaded, function)()
    except Exception as error:  # report any error to the caller
        say({"problem": f"{type(error).__name__}: {error}"})
        return
    with contextlib.suppress(ImportError):
        importlib.import_module(_SYSTEM)  # before the forks
    say({"value": "ready"})
    _end_with(os.getppid())
    for line in sys.stdin.buffer:
        request = json.loads(line)
        say(json.loads(_answered(request)) if request["trusted"] else _forked(request))


def _end_with(parent: int) -> None:
    """Exit this process within 2 seconds after its parent has ended, also during a call, once that runs Python again."""

    def look(_signal: int, _frame: object) -> None:
        if os.getppid() != parent:
            os._exit(1)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 2.0, 2.0)


def _forked(request: Request) -> dict[str, object]:
    """Run one call in a child process; return its reply, or a `problem` if it timed out or was killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _be_the_child(request, write)
    os.close(write)
    output, deadline, timed_out = bytearray(), time.monotonic() + request["seconds"], False
    while len(output) <= LONGEST_REPLY:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([read], [], [], left)[0]:
            timed_out = True
            break
        piece = os.read(read, 65536)
        if not piece:
            break
        output += piece
    os.close(read)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if timed_out:
        return {"problem": "timeout"}
    try:
        return json.loads(output)
    except ValueError:  # killed before it wrote everything
        return {"problem": "killed"}


def _be_the_child(request: Request, write: int) -> None:
    with contextlib.suppress(BaseException):
        _die_with_server()
        _limit(request["seconds"], request["memory"])
        os.write(write, _answered(request).encode())  # the parent is reading, so a long reply does not block
    os._exit(0)


def _die_with_server() -> None:
    """End this process together with the server, which enforces its time limit; only Linux supports this."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        importlib.import_module(_SYSTEM).die_with_parent()


def _answered(request: Request) -> str:
    module, _, name = request["target"].partition(":")
    try:
        value = getattr(importlib.import_module(module), name)(*request["arguments"])
        return json.dumps({"value": value})
    except MemoryError:
        return '{"problem": "memory"}'
    except BaseException as error:  # of any kind, since the hostile text caused it
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
