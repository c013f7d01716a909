"""Run tests in one sandbox and the code under test in another, and relay the calls between them."""

import json
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agentgym.envs.swe.grading import remote, remote_classes, remote_tests, remote_values
from agentgym.envs.swe.tasks.pytest_run import FOLDER
from agentgym.envs.swe.tasks.source import pack
from agentgym.envs.swe.tasks.suite import is_protected, roots
from agentgym.rewards.programs import inside as code_inside
from agentgym.rewards.programs import values
from agentgym.rewards.programs.program import program
from agentgym.sandbox.local.fork_server_sandbox import ForkServerSandbox
from agentgym.sandbox.protocol import ExitReason, Kernel, Result, Sandbox

SHIPPED = (values, code_inside, remote_values, remote_classes, remote, remote_tests)
START = 10.0
"""Extra seconds for the start of a sandbox's process, beyond the time limit of the code under test."""
_STEP = "__import__('sys').modules[{name!r}].{call}"
_OPTIONS = [
    *("-q", "--no-header", "--tb=no", "--show-capture=no", "-p", "no:cacheprovider", "--import-mode=importlib"),
    *("--assert=plain", "--continue-on-collection-errors", "-p", "no:unraisableexception", "-p", "no:threadexception"),
    *("-o", "python_files=test_*.py *_test.py"),
]


@dataclass(slots=True)
class Clock:
    """Time limit of the code under test over all runs: seconds left and spent, and the number of runs."""

    left: float
    spent: float = 0.0
    worked: float = 0.0
    """CPU seconds used by the code under test; 0 where the sandbox cannot measure them."""
    runs: int = 0
    longest: float = 0.0
    """Seconds of the longest run in a process shared by tests and code."""

    def spend(self, seconds: float) -> None:
        """Subtract a step's duration in seconds from the time left, and add it to the time spent."""
        self.left -= seconds
        self.spent += seconds


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of one run of tests."""

    outcomes: Mapping[str, str] = field(default_factory=dict[str, str])
    """`passed`, `failed` or `skipped`, by test id."""
    judged: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Test id -> comparisons of the code under test that may have decided the test, with the operands' classes."""
    seen: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Test id -> hashes of the values that the test observed (`fresh`), in order; `ERROR` if an exception ended the test."""
    calls: int = 0
    problem: str = ""
    last: str = ""
    """Test in which the code under test died or ran out of time, else empty; `seen` is meaningless for later tests."""
    seconds: float = 0.0


def run_in_two_sandboxes(
    ours: Sandbox,
    theirs: Sandbox,
    tree: Mapping[str, bytes],
    files: Iterable[str],
    names: Iterable[str],
    clock: Clock,
    *,
    conftest: bool = False,
    exchanged: Mapping[str, list[object]] | None = None,
) -> RunOutcome:
    """Run the tests of `files` in `ours`, with the code under test in `theirs`, and return the outcome.

    `names` are the top-level modules of the code under test. `conftest` loads the repository's `conftest.py` files.
    `exchanged` gives tests parameters of other tests (`alterations`). Whatever the code under test does to time, memory or
    output appears only in the outcome.

    Raises:
        OSError: the repository does not fit a sandbox.
    """
    ours.restore(
        pack({f"{FOLDER}/{path}": content for path, content in tree.items() if is_protected(path) or not _is_code(path)})
    )
    theirs.restore(pack({f"{FOLDER}/{path}": content for path, content in tree.items() if not is_protected(path)}))
    code_request: dict[str, object] = {"folder": FOLDER, "roots": roots(tree)}
    tests_request = code_request | {
        "names": sorted(names),
        "options": [*_OPTIONS, *([] if conftest else ["--noconftest"])],
        "paths": [f"./{path}" for path in files if path in tree],
        "exchanged": dict(exchanged or {}),
    }
    clock.runs += 1
    kernel, other_kernel, linked = _kernels(ours, theirs)
    before = _worked(theirs)
    try:
        other_kernel.run(program(f"begin_code({json.dumps(code_request | {'linked': linked})!r})", SHIPPED), START)
        tests_request |= {"linked": linked, "seconds": max(clock.left, 0)}
        started = time.monotonic()
        code = program(f"begin_tests({json.dumps(tests_request)!r})", SHIPPED)
        result = kernel.run(code, max(clock.left, 0) + START)
        clock.spend(time.monotonic() - started)
        return _MessageRelay(kernel, other_kernel, clock).run(_message_of(result))
    finally:
        clock.worked += max(_worked(theirs) - before, 0.0)
        kernel.close()
        other_kernel.close()


def _kernels(ours: Sandbox, theirs: Sandbox) -> tuple[Kernel, Kernel, bool]:
    """Return a kernel of each sandbox, and True if a socket connects them; containers have no such socket."""
    if isinstance(ours, ForkServerSandbox) and isinstance(theirs, ForkServerSandbox):
        mine, yours = socket.socketpair()
        with mine, yours:  # the kernels receive copies
            return ours.kernel(mine.fileno()), theirs.kernel(yours.fileno()), True
    return ours.kernel(), theirs.kernel(), False


def _worked(end: Sandbox) -> float:
    return end.group.worked() if isinstance(end, ForkServerSandbox) else 0.0


def _is_code(path: str) -> bool:
    return path.endswith((".py", ".pyi"))


class _MessageRelay:
    """Relays messages between the tests and the code under test."""

    def __init__(self, tests: Kernel, code: Kernel, clock: Clock) -> None:
        self.tests, self.code, self.clock = tests, code, clock
        self.calls = 0

    def run(self, message: str | None) -> RunOutcome:
        """Relay messages, beginning with `message` from the tests, until the tests report their outcomes.

        With a socket between both ends, the first message is that report.
        """
        while message is not None and not message.startswith('{"ended"'):
            self.calls += 1
            answer = self._step(self.code, self._delivering(message)) if self.calls <= remote_tests.MOST_CALLS else None
            message = self._step(self.tests, self._delivering(answer or remote_tests.DEAD))
        if message is None:
            return RunOutcome(calls=self.calls, problem="the tests came to no end")
        reply = json.loads(message)
        judged = {test: frozenset(operations) for test, operations in reply["judged"].items()}
        return RunOutcome(reply["ended"], judged, reply["seen"], self.calls, reply["problem"], reply["last"])

    def _delivering(self, message: str) -> str:
        return _STEP.format(name=remote_tests.__name__, call=f"deliver({message!r})")

    def _step(self, end: Kernel, code: str) -> str | None:
        """Run code at one end and return its message; None if the end died, ran out of time or sent no valid message."""
        seconds = max(self.clock.left, 0) + (START if end is self.tests else 0)
        if not end.alive or seconds <= 0:
            return None
        started = time.monotonic()
        result = end.run(code, seconds)
        self.clock.spend(time.monotonic() - started)
        if result.reason != ExitReason.EXIT:
            end.close()
        return _message_of(result)


def _message_of(result: Result) -> str | None:
    try:
        message = json.loads(result.stdout) if result.reason == ExitReason.EXIT else None
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, str) and message else None
