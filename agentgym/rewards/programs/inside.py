"""What runs a solution in its sandbox: inputs come in as data, values go out as data. Standard library only.

It shares its process with hostile code, so nothing here is a secret and nothing that it says is believed: whoever
compares the values does so outside, and no expected value ever comes in here.
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


class Slow(BaseException):
    """A case took longer than it may."""


def main() -> None:
    """Read a request from standard input, try its cases, write an answer a line, and end without a backward look.

    Request: `code`, `entry`, `kind`, `inputs` (packed), `seconds` for a case, `room` (characters of all answers) and
    `patience` (cases out of time before the rest is left). Answers: [number of the case, packed value or None, error or
    None]; number -1 where the code itself fails.
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
    """Return a file for answers and turn standard streams to nothing, so that what a solution prints is no answer."""
    answers, nothing = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for file in (0, 1, 2):
        os.dup2(nothing, file)
    return answers


def module() -> dict[str, object]:
    """Return the names of a new module for a solution to live in."""
    module_made = types.ModuleType(SOLUTION)
    sys.modules[SOLUTION] = module_made
    return module_made.__dict__


def compiled(code: str) -> types.CodeType:
    """Return the code of a solution, compiled."""
    return compile(code, f"<{SOLUTION}>", "exec", dont_inherit=True)


def tried(work: Callable[[], object], seconds: float, room: int) -> list[Any]:
    """Return [packed value, None], or [None, what was wrong]."""
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        value = pack(work())
        signal.setitimer(signal.ITIMER_REAL, 0)
        size = len(json.dumps(value))
        return [value, None] if size <= room else [None, f"the value takes {size} characters; at most {room} are read"]
    except Slow:
        return [None, f"Slow: no result within {seconds:g} s"]
    except BaseException as error:
        return [None, message(error)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def message(error: BaseException) -> str:
    """Return what an error says and the line of the solution that it comes from."""
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
    """Write an answer as a line of JSON; return its length."""
    left = json.dumps(answer).encode() + b"\n"
    size = len(left)
    while left:
        left = left[os.write(file, left) :]
    return size


def alarm(*_: object) -> None:
    """End a case that takes too long."""
    raise Slow
