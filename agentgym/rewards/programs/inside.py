"""Run a solution in its sandbox, with inputs and outputs as data. Uses only the standard library.

This module shares its process with hostile code, so it has no secrets and its output is not trusted: values are compared
outside, and no expected value ever enters the sandbox.
"""

import json
import os
import signal
import sys
import types
from collections.abc import Callable
from typing import Any

from agentgym.rewards.programs.values import pack, respond, unpack

LONGEST_MESSAGE = 300
SOLUTION = "solution"


class CaseTimeout(BaseException):
    """A case exceeded its time limit."""


def main() -> None:
    """Read a request from standard input, run its cases, write one answer per line, and exit without cleanup.

    A request has `code`, `entry`, `kind`, `inputs` (packed), `seconds` per case, `room` (characters of all answers) and
    `patience` (number of timeouts before the remaining cases are skipped). An answer is [case number, packed value or None,
    error or None]; its number is -1 if the code itself fails.
    """
    request = json.loads(sys.stdin.buffer.read())
    answers = silence()
    signal.signal(signal.SIGALRM, alarm)
    space = module()
    failed = tried(lambda: exec(compiled(request["code"]), space), request["seconds"], request["room"])
    if failed[1] is None and request["entry"] not in space:
        failed[1] = f"NameError: the code defines no {request['entry']!r}"
    if failed[1] is not None:
        write(answers, [-1, *failed])
        os._exit(0)
    slow, left = 0, request["room"]
    for number, packed in enumerate(request["inputs"]):

        def call(packed: object = packed) -> Any:
            return respond(request["kind"], space[request["entry"]], unpack(packed))

        answer = tried(call, request["seconds"], max(left, 0))
        left -= write(answers, [number, *answer])
        slow += answer[1] is not None and answer[1].startswith("Slow")
        if slow >= request["patience"]:
            break
    os._exit(0)


def silence() -> int:
    """Return a file descriptor for answers, and redirect the standard streams to /dev/null, as a solution may print."""
    answers, nothing = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for file in (0, 1, 2):
        os.dup2(nothing, file)
    return answers


def module() -> dict[str, object]:
    """Return the namespace of a new module, importable as `solution`, for running a solution."""
    module_made = types.ModuleType(SOLUTION)
    sys.modules[SOLUTION] = module_made
    return module_made.__dict__


def compiled(code: str) -> types.CodeType:
    """Return the compiled code of a solution."""
    return compile(code, f"<{SOLUTION}>", "exec", dont_inherit=True)


def tried(work: Callable[[], object], seconds: float, room: int, spent: float = 0.0) -> list[Any]:
    """Run `work` for at most `seconds`, of which `spent` are over; return [packed value, None], or [None, error].

    A packed value with more than `room` characters is an error.
    """
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds - spent, 0.001))
        value = pack(work())
        signal.setitimer(signal.ITIMER_REAL, 0)
        size = len(json.dumps(value))
        return [value, None] if size <= room else [None, f"the value takes {size} characters; at most {room} are read"]
    except CaseTimeout:
        return [None, f"Slow: no result within {seconds:g} s"]
    except BaseException as error:
        return [None, message(error)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def message(error: BaseException) -> str:
    """Return an error's type and message, with the line of the solution where it was raised."""
    try:
        text = f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE]
    except BaseException:
        text = "an error that cannot be shown"
    line, frame = None, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == f"<{SOLUTION}>":
            line = frame.tb_lineno
        frame = frame.tb_next
    return text if line is None else f"{text} (line {line})"


def write(file: int, answer: object) -> int:
    """Write an answer as a line of JSON; return its length in bytes."""
    left = json.dumps(answer).encode() + b"\n"
    size = len(left)
    while left:
        left = left[os.write(file, left) :]
    return size


def alarm(*_: object) -> None:
    """Interrupt a case that takes too long.

    Raises:
        CaseTimeout: always.
    """
    raise CaseTimeout
