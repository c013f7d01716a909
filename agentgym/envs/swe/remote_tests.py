"""The two ends of a run of tests: pytest with the tests in one process, the code they test in another.

Both are kernels whose steps are messages (`deliver`), carried from one to the other by whoever has started them. The
code under test gets calls and returns what they give; sources and outcomes of tests never go there.
"""

import hashlib
import importlib.abc
import importlib.util
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

from agentgym.envs.swe.remote import Gone, Peer
from agentgym.envs.swe.remote_classes import Module
from agentgym.rewards import code_inside

DEAD = ""
"""What an end is told when the other one has ended."""
STACK = 64 << 20
_state: dict[str, Any] = {}


def deliver(message: str) -> None:
    """Give this end a message and say what it answers."""
    _state["back"].put(message)
    _state["answers"].write(_state["out"].get())


def _exchange(message: str) -> str:
    _state["out"].put(message)
    answer = _state["back"].get()
    if answer == DEAD:
        raise Gone("the code under test has ended or has no time left")
    return answer


class _Answers:
    """The standard output of before: what the code under test prints is no answer."""

    def __init__(self) -> None:
        self.file = code_inside.silence()

    def write(self, message: str) -> None:
        left = json.dumps(message).encode()
        while left:
            left = left[os.write(self.file, left) :]


def _begin(work: Callable[[], None], told: dict[str, Any]) -> None:
    _state.update(answers=_Answers(), out=queue.SimpleQueue(), back=queue.SimpleQueue())
    here = os.getcwd()
    sys.path[:] = [path for path in sys.path if path not in ("", here)]  # nothing is imported from where we are
    sys.dont_write_bytecode = True
    os.chdir(os.path.join(here, told["folder"]))
    threading.stack_size(STACK)
    threading.Thread(target=work, daemon=True).start()


# Where the code under test is


def begin_code(request: str) -> None:
    """Be ready to import the code and to do with it what the tests ask for."""
    told = json.loads(request)
    _begin(lambda: Peer(_exchange, obedient=True).serve(_state["back"].get()), told)
    sys.path[:0] = [os.path.join(os.getcwd(), part) for part in told["roots"]]


# Where the tests are


def begin_tests(request: str) -> None:
    """Run tests and answer the first request for the code, or how all of them ended."""
    told = json.loads(request)
    _begin(lambda: _run(told), told)
    _state["answers"].write(_state["out"].get())


def _run(told: dict[str, Any]) -> None:
    import pytest

    peer = Peer(_exchange, obedient=False)
    sys.meta_path.insert(0, _Importer(peer, told["names"]))
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    root = os.getcwd()
    words = ["-c", os.devnull, "--rootdir", root, *told["options"]]
    words += ["-o", "pythonpath=" + " ".join("'" + os.path.join(root, part) + "'" for part in told["roots"])]
    outcomes = _Outcomes(peer, told["exchanged"])
    try:
        pytest.main([*words, *told["paths"]], [outcomes])
    except BaseException as error:
        outcomes.problem = f"{type(error).__name__}: {error}"
    said = {"ended": outcomes.found, "judged": outcomes.judged, "heard": outcomes.heard, "problem": outcomes.problem}
    _state["out"].put(json.dumps(said))


class _Importer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of the code under test, which are at the other end."""

    def __init__(self, peer: Peer, names: list[str]) -> None:
        self.peer, self.names = peer, set(names)
        self.found: dict[str, Any] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in self.names:
            return None
        try:
            found = self.peer.request("import", name)
        except ModuleNotFoundError as error:
            if error.args and str(error.args[0]) == f"No module named {name!r}":
                return None
            raise
        if not isinstance(found, Module):
            raise ImportError(f"{name} is no module")
        self.found[name] = found
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return self.found[spec.name]

    def exec_module(self, module: Any) -> None:
        """Do nothing: it was executed at the other end."""


class _Outcomes:
    """A plug-in that keeps how tests end, and gives some tests the parameters of others."""

    def __init__(self, peer: Peer, exchanged: dict[str, list[Any]]) -> None:
        self.peer, self.exchanged = peer, exchanged
        self.found: dict[str, str] = {}
        self.judged: dict[str, list[str]] = {}
        self.heard: dict[str, str] = {}
        self.problem = ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        given = {item.nodeid: dict(item.callspec.params) for item in items if hasattr(item, "callspec")}
        for item in items:
            other, which = self.exchanged.get(item.nodeid, (None, 0))
            if other in given and item.nodeid in given:
                names = sorted(item.callspec.params)
                name = names[which % len(names)]
                item.callspec.params[name] = given[other].get(name, item.callspec.params[name])

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self.peer.judged.clear()
        self.peer.heard = hashlib.blake2b(digest_size=12)

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        from _pytest.junitxml import bin_xml_escape

        name = str(bin_xml_escape(nodeid))
        self.judged[name], self.heard[name] = sorted(self.peer.judged), self.peer.heard.hexdigest()
        try:
            self.peer.forget()
        except Gone as error:
            self.problem = str(error)

    def pytest_runtest_logreport(self, report: Any) -> None:
        from _pytest.junitxml import bin_xml_escape

        name = str(bin_xml_escape(report.nodeid))
        if report.failed or (report.skipped and self.found.get(name) != "failed"):
            self.found[name] = "failed" if report.failed else "skipped"
        elif report.when == "call":
            self.found.setdefault(name, "passed")
