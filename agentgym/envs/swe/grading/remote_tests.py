"""The two ends of a test run: pytest with the tests in one process, the code under test in another.

Messages go through a socket between the processes. Containers have no such socket; there, each message is a kernel step,
and the caller carries it from one end to the other (`deliver`). The code under test receives calls and returns results; it
never receives sources or outcomes of tests.
"""

import builtins
import hashlib
import importlib.abc
import importlib.util
import json
import math
import os
import queue
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from agentgym.envs.swe.grading import remote_values
from agentgym.envs.swe.grading.remote import Peer, PeerGone
from agentgym.envs.swe.grading.remote_classes import Module
from agentgym.rewards.programs import inside as code_inside

JsonObject = dict[str, Any]

DEAD = ""
"""Message that tells an end that the other end has died."""
STACK = 64 << 20
MOST_CALLS = 50_000
"""Maximum number of messages from the tests to the code under test in one run."""
LARGEST = 1 << 20
"""Maximum bytes of a message from the code under test."""
SEES = "_agentgym_sees"
"""Name of the built-in function that tests with fresh values (`fresh`) call to report a value."""
ERROR = "an error"
"""Text recorded in place of a value when an exception ends a test."""
_state: JsonObject = {}


class _Steps:
    """Connection through the process that started both ends: each kernel step delivers a message and returns the reply."""

    def __init__(self) -> None:
        self.out: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.back: queue.SimpleQueue[str] = queue.SimpleQueue()

    def receive(self) -> str:
        return self.back.get()

    def exchange(self, message: str) -> str:
        self.out.put(message)
        answer = self.receive()
        if answer == DEAD:
            raise PeerGone("the code under test has ended or has no time left")
        return answer


class _Line:
    """Connection through a socket, which is the standard input of both ends."""

    def __init__(self, seconds: float | None) -> None:
        self.socket = socket.socket(fileno=os.dup(0))
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self.left = MOST_CALLS if seconds is not None else math.inf
        self.open = True

    def exchange(self, message: str) -> str:
        self.left -= 1
        body = message.encode()
        try:
            if self.open and self.left >= 0:
                self._wait()
                self.socket.sendall(struct.pack("I", len(body)) + body)
                return self.receive()
        except OSError:
            pass
        self.open = False
        raise PeerGone("the code under test has ended or has no time left")

    def receive(self) -> str:
        (length,) = struct.unpack("I", self._bytes(4))
        if length > LARGEST and self.deadline is not None:
            raise OSError("a message that is too large")
        return self._bytes(length).decode()

    def _bytes(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            self._wait()
            piece = self.socket.recv(min(count - len(received), 1 << 16))
            if not piece:
                raise OSError("the other end has closed the line")
            received += piece
        return bytes(received)

    def _wait(self) -> None:
        if self.deadline is not None:
            self.socket.settimeout(max(self.deadline - time.monotonic(), 0.001))


def deliver(message: str) -> None:
    """Deliver a message to this end and print the reply; for containers."""
    _state["way"].back.put(message)
    _say(_state["way"].out.get())


def _say(message: str) -> None:
    left = json.dumps(message).encode()
    while left:
        left = left[os.write(_state["answers"], left) :]


def _begin(work: Callable[[], None], request: JsonObject) -> None:
    _state["way"] = _Line(request.get("seconds")) if request["linked"] else _Steps()
    _state["answers"] = code_inside.silence()  # output of the code under test is not an answer
    here = os.getcwd()
    sys.path[:] = [path for path in sys.path if path not in ("", here)]  # never import from the current folder
    sys.dont_write_bytecode = True
    os.chdir(os.path.join(here, request["folder"]))
    threading.stack_size(STACK)
    threading.Thread(target=work, daemon=True).start()


# The end of the code under test


def begin_code(request: str) -> None:
    """Set up `sys.path` for the code under test, and execute the tests' requests in a thread."""
    message = json.loads(request)
    _begin(lambda: Peer(_state["way"].exchange, obedient=True).serve(_state["way"].receive()), message)
    sys.path[:0] = [os.path.join(os.getcwd(), part) for part in message["roots"]]


# The end of the tests


def begin_tests(request: str) -> None:
    """Start the tests and print all outcomes; without a socket, print the first request to the code under test."""
    message = json.loads(request)
    ended: queue.SimpleQueue[str] = queue.SimpleQueue()
    _begin(lambda: _run(message, ended if message["linked"] else _state["way"].out), message)
    _say((ended if message["linked"] else _state["way"].out).get())


def _run(request: JsonObject, ended: queue.SimpleQueue[str]) -> None:
    import pytest

    peer = Peer(_state["way"].exchange, obedient=False)
    sys.meta_path.insert(0, _Importer(peer, request["names"]))
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    root = os.getcwd()
    words = ["-c", os.devnull, "--rootdir", root, *request["options"]]
    words += ["-o", "pythonpath=" + " ".join("'" + os.path.join(root, part) + "'" for part in request["roots"])]
    outcomes = _Outcomes(peer, request["exchanged"])
    setattr(builtins, SEES, outcomes.see)
    try:
        pytest.main([*words, *request["paths"]], [outcomes])
    except BaseException as error:
        outcomes.problem = f"{type(error).__name__}: {error}"
    report: dict[str, object] = {"ended": outcomes.ended, "judged": outcomes.judged, "seen": outcomes.seen}
    report |= {"problem": outcomes.problem, "last": outcomes.last}
    ended.put(json.dumps(report))


class _Importer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules of the code under test as proxies of the modules at the other end."""

    def __init__(self, peer: Peer, names: list[str]) -> None:
        self.peer, self.names = peer, set(names)
        self.modules: JsonObject = {}

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.partition(".")[0] not in self.names:
            return None
        try:
            module = self.peer.request("import", name)
        except ModuleNotFoundError as error:
            if error.args and str(error.args[0]) == f"No module named {name!r}":
                return None
            raise
        if not isinstance(module, Module):
            raise ImportError(f"{name} is not a module")
        self.modules[name] = module
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return self.modules[spec.name]

    def exec_module(self, module: object) -> None:
        """Do nothing: the module was executed at the other end."""


class _Outcomes:
    """Pytest plugin that records outcomes and exchanges parameters between tests (`exchanged`)."""

    def __init__(self, peer: Peer, exchanged: dict[str, tuple[str, int]]) -> None:
        self.peer, self.exchanged = peer, exchanged
        self.ended: dict[str, str] = {}
        self.judged: dict[str, list[str]] = {}
        self.seen: dict[str, list[str]] = {}
        self.now: list[str] = []
        self.problem, self.last = "", ""

    def see(self, value: object) -> None:
        """Record a hash of a value that the current test observes."""
        text = remote_values.written(value, _stable_repr).encode("utf-8", "replace")
        self.now.append(hashlib.blake2b(text, digest_size=9).hexdigest())

    def pytest_runtest_makereport(self, item: object, call: Any) -> None:
        if call.excinfo is not None:
            self.now.append(ERROR)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        parameters = {item.nodeid: dict(item.callspec.params) for item in items if hasattr(item, "callspec")}
        for item in items:
            other, which = self.exchanged.get(item.nodeid, (None, 0))
            if other in parameters and item.nodeid in parameters:
                names = sorted(item.callspec.params)
                name = names[which % len(names)]
                item.callspec.params[name] = parameters[other].get(name, item.callspec.params[name])

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        self.peer.judged.clear()
        self.now = []

    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
        from _pytest.junitxml import bin_xml_escape

        name = str(bin_xml_escape(nodeid))
        self.judged[name], self.seen[name] = sorted(self.peer.judged), self.now
        try:
            self.peer.forget()
        except PeerGone as error:
            self.problem, self.last = str(error), self.last or name

    def pytest_runtest_logreport(self, report: Any) -> None:
        from _pytest.junitxml import bin_xml_escape

        name = str(bin_xml_escape(report.nodeid))
        if report.failed or (report.skipped and self.ended.get(name) != "failed"):
            self.ended[name] = "failed" if report.failed else "skipped"
        elif report.when == "call":
            self.ended.setdefault(name, "passed")


def _stable_repr(value: object) -> str:
    """Return an object's class and `repr` without memory addresses."""
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", f"{type(value).__name__} {value!r}")
    except Exception:
        return type(value).__name__
