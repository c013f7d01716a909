"""Run the checks in a separate process, so that an environment that hangs, exits or writes partial output cannot pass.

The process that reports and writes certificates runs no code of the environment. It reads and validates lines of
JSON, and kills the other process and its descendants when a check takes too long.
"""

import contextlib
import json
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast

from agentgym.contract.checks import CHECKS
from agentgym.contract.report import Result
from agentgym.core.beside import find, safe_start, started
from agentgym.errors import BadConfig
from agentgym.registry import module_named

Message = dict[str, Any]
"""A message between the processes, as a JSON object."""
SECONDS = 600.0
"""Default time limit of one check in seconds."""
HANGS = 2
"""Number of checks that may hang before the remaining checks are skipped."""
LARGEST = 1 << 26
"""Maximum bytes of a message."""
Heard = queue.SimpleQueue[bytes | None]
"""Messages from the checking process, followed by None."""
Examined = Message
"""Description of the checked environment from the checking process: the result of `certificate.subject`."""
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class CheckRequest:
    """The environment to check, its options, and the checks to run."""

    name: str
    options: Mapping[str, object]
    checks: Sequence[str]
    thorough: bool = False
    seed: int = 0


def supervised(request: CheckRequest, report: Callable[[Examined], None], seconds: float = SECONDS) -> Generator[Result]:
    """Yield the result of each check, in order; `report` receives the environment's description before the first result.

    `seconds` limits each check. If the checking process exits or hangs, the current check is broken, and a new process
    runs the remaining checks; after `HANGS` hung checks, the remaining ones are skipped.

    Raises:
        BadConfig: the environment cannot be created with these options.
    """
    left, done, hangs = list(request.checks), list[Result](), 0
    while left:
        if hangs == HANGS:
            yield from (_result(name, "skipped", f"not looked at: {hangs} checks before it did not end") for name in left)
            return
        for result in _sitting(replace(request, checks=left), report, done, seconds):
            done.append(result)
            yield result
        looked = len(done) - (len(request.checks) - len(left))
        hangs += done[-1].note == _hung(seconds)
        left = left[looked:]


def _sitting(
    request: CheckRequest, report: Callable[[Examined], None], done: Sequence[Result], seconds: float
) -> Iterator[Result]:
    """Run the requested checks in one new process and yield their results.

    The last result is that of the check in which the process exits or hangs, if any. If it does so before the first
    check, the first check is broken and the others are skipped. `done` has the results from earlier processes.

    Raises:
        BadConfig: the environment cannot be created with these options.
    """
    here, there = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_examine, args=(there, request, [asdict(result) for result in done]), name="check")
    _adopt(True)
    find(module_named(request.name))  # the process inherits the path
    with safe_start():
        process.start()
    there.close()
    ours, heard = _children(), _listened(here, len(request.checks) + 1)
    try:
        subject = _receive(heard, process, seconds)
        if "refused" in subject:
            raise BadConfig(str(subject["refused"]))
        if "broken" not in subject and not _is_subject(subject, request):
            subject = {"broken": "the process did not print the requested result"}
        if "broken" in subject:  # it would break every check, so the first check reports it
            yield _result(
                request.checks[0], "broken", f"it cannot be created, or its tasks cannot be listed: {subject['broken']}"
            )
            yield from (_result(name, "skipped", "not looked at") for name in request.checks[1:])
            return
        report(subject)
        for name in request.checks:
            message = _receive(heard, process, seconds)
            yield _read(message, name)
            if "broken" in message:
                return
    finally:
        _end(process, ours)


def _listened(here: Connection, messages: int) -> Heard:
    """Return a queue that a thread fills with up to `messages` messages, then None.

    The thread is needed because reading an incomplete message would block forever.
    """
    heard: Heard = queue.SimpleQueue()

    def read() -> None:
        with contextlib.suppress(EOFError, OSError), here:
            for _ in range(messages):
                heard.put(here.recv_bytes(LARGEST))
        heard.put(None)

    threading.Thread(target=read, name="check", daemon=True).start()
    return heard


def _receive(heard: Heard, process: BaseProcess, seconds: float) -> Message:
    """Return the next message, or `{"broken": REASON}` if it is invalid or does not arrive within `seconds`."""
    try:
        content = heard.get(timeout=min(seconds, threading.TIMEOUT_MAX))
        if content is None:
            process.join(10)
            return {"broken": f"the environment ended the process that checks it, with code {process.exitcode}"}
        message: Any = json.loads(content)
        json.dumps(message, allow_nan=False)  # NaN and infinity are not JSON and would break readers of a certificate
    except queue.Empty:
        return {"broken": _hung(seconds)}
    except (ValueError, RecursionError):
        message = None
    return (
        cast("Message", message)
        if isinstance(message, dict)
        else {"broken": "the process printed something that is not a result"}
    )


def _hung(seconds: float) -> str:
    """Return the note of a check that did not end in time."""
    return f"it did not end within {seconds:g} s"


def _is_subject(message: Message, request: CheckRequest) -> bool:
    """Return True if a message has the form of the result of `certificate.subject`, for the requested environment."""
    parts = {"environment", "budget", "tasks", "splits"}
    if set(message) != parts or not all(isinstance(part, dict) for part in message.values()):
        return False
    return message["environment"].get("name") == request.name and isinstance(message["environment"].get("id"), str)


def _read(message: Message, name: str) -> Result:
    """Return the result in a message; a broken result if the message is not a result of the check `name`."""
    if "broken" in message:
        return _result(name, "broken", str(message["broken"]))
    kinds = {
        "check": str,
        "status": str,
        "note": str,
        "task": str,
        "actions": list,
        "cause": str,
        "numbers": dict,
        "applies": bool,
    }
    fits = all(isinstance(message.get(key), kind) for key, kind in kinds.items()) and isinstance(
        message.get("seconds"), float
    )
    if not fits or message["check"] != name or message["status"] not in ("holds", "broken", "skipped"):
        return _result(name, "broken", "the process printed something that is not a result of this check")
    fields = {key: message[key] for key in (*kinds, "seconds")}
    return Result(promise=CHECKS[name][0], seed=message.get("seed"), **fields)


def _result(name: str, status: str, note: str) -> Result:
    return Result(name, CHECKS[name][0], status, note)


def _end(process: BaseProcess, ours: set[int]) -> None:
    """Kill the process and its descendants, including those that left its process group and that we adopted."""
    with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
        if process.pid is not None:
            os.killpg(process.pid, signal.SIGKILL)  # its own group, see `_examine`
    process.kill()
    process.join()
    for _ in range(100):  # their children are adopted in the next round
        for orphan in _children() - ours:
            try:
                os.kill(orphan, signal.SIGKILL)
                os.waitpid(orphan, 0)
            except OSError:  # another user's: left alone
                ours.add(orphan)
    _adopt(False)


def _adopt(whether: bool) -> None:
    """Start or stop adopting orphaned descendants of this process (a child subreaper); only Linux supports this."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        from agentgym.sandbox.inside import system

        system.prctl(system.ADOPT, int(whether))


def _children() -> set[int]:
    """Return the process ids of this process's children; empty without /proc."""
    pids: set[int] = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(file.read_text(errors="replace").rpartition(")")[2].split()[1]) == os.getpid():
                pids.add(int(file.parent.name))
    return pids


def _examine(there: Connection, request: CheckRequest, done: list[Message]) -> None:
    """Run the checks in the child process, send their results and exit; `done` has results from earlier processes."""
    started()
    from agentgym.contract import examine, looks
    from agentgym.contract.certificate import subject
    from agentgym.errors import Fault, MissingExtra
    from agentgym.registry import OURS, make

    with contextlib.suppress(OSError, AttributeError):
        os.setsid()
    with contextlib.suppress(ImportError, OSError, AttributeError):
        from agentgym.sandbox.inside import system

        system.die_with_parent()
    os.dup2(2, 1)  # output of the environment must not be read as a result

    def say(message: Mapping[str, object]) -> None:
        there.send_bytes(json.dumps(message, default=repr).encode())

    try:
        try:
            under_test = examine(make(request.name, **request.options), thorough=request.thorough, seed=request.seed)
            say(subject(request.name, under_test))
        except (*OURS, MissingExtra, Fault) as error:
            say({"refused": str(error)})
            return
        broken = {row["check"]: Result(**row) for row in done if row["status"] == "broken"}
        for result in looks(under_test, request.checks, broken):
            say(asdict(result))
        under_test.env.close()
    except BaseException as error:  # KeyboardInterrupt and the like, which an environment may raise anywhere
        say({"broken": f"raised {type(error).__name__}: {error}"})
    finally:
        there.close()
        os._exit(0)  # without waiting for threads that the environment left behind
