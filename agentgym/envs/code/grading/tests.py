"""Grading of programs: results are computed in a sandbox and compared with the expected results outside it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.envs.code.grading.compare import COMPARISONS
from agentgym.rewards.programs import inside as code_inside
from agentgym.rewards.programs.program import program
from agentgym.rewards.programs.values import NotData, as_source, pack, unpack
from agentgym.sandbox.protocol import ExitReason, Result, Sandbox

PATIENCE = 3
"""Number of timed-out cases after which a solution's remaining cases are skipped."""
START = 5.0
"""Extra seconds of a run beyond the time limits of its cases."""
ALL = 40.0
"""Minimum of `budget`, in seconds; less than a rollout's time limit per step."""


@dataclass(frozen=True, slots=True)
class CodeTests:
    """A task's tests as pairs of input and expected result."""

    kind: str
    """`function` (inputs are lists of arguments), `class` (constructor and calls) or `program` (standard input)."""
    entry: str
    """Name of the function or class."""
    cases: Sequence[Sequence[object]]
    """[input, expected result] pairs: packed values (see `agentgym.rewards.programs.values`), or text for a program."""
    compare: str = "exact"
    tolerance: float = 0.0
    seconds: float = 2.0
    """Time limit per case, in seconds."""
    total: float | None = None
    """Time limit for all cases, in seconds; None: derived from `seconds`."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one case."""

    passed: bool
    got: str
    """The solution's result or error, for display."""


def run_tests(sandbox: Sandbox, code: str, tests: CodeTests) -> list[CaseResult]:
    """Run the cases in `sandbox`, which must be fresh, and return their results; only inputs enter the sandbox."""
    if tests.kind == "program":
        return _programs(sandbox, code, tests)
    inputs = [arguments for arguments, _ in tests.cases]
    request = {
        "code": code,
        "entry": tests.entry,
        "kind": tests.kind,
        "inputs": inputs,
        "seconds": tests.seconds,
        "room": sandbox.limits.output // 2,
        "patience": PATIENCE,
    }
    limit = tests.total or START + tests.seconds * (1 + min(len(inputs), PATIENCE))
    result = sandbox.python(program("main()"), stdin=json.dumps(request).encode(), timeout=limit)
    answers = read_answers(result.stdout, len(inputs))
    if isinstance(answers, str):
        return [CaseResult(False, answers)] * len(inputs)
    tried: list[CaseResult] = []
    for number, (_, expected) in enumerate(tests.cases):
        if number < len(answers):
            tried.append(_judged(answers[number], expected, tests))
        else:
            tried.append(CaseResult(False, ended(result)))
    return tried


def _judged(answer: list[object], expected: object, tests: CodeTests) -> CaseResult:
    value, error = answer
    if error is not None:
        return CaseResult(False, str(error))
    try:
        return CaseResult(COMPARISONS[tests.compare](expected, value, tests.tolerance), as_source(value))
    except (NotData, TypeError, ValueError, RecursionError, OverflowError) as wrong:
        return CaseResult(False, f"no value that can be compared ({wrong})")


def read_answers(output: bytes, most: int) -> list[list[object]] | str:
    """Return [packed value, error or None] of each case, up to the first malformed line; the error if the code failed.

    The solution may have forged the output, so each value is validated and packed again.
    """
    answers: list[list[object]] = []
    for line in output.split(b"\n")[: most + 1]:
        try:
            number, value, error = json.loads(line)
            if number == -1 and not answers:
                return str(error)[: code_inside.LONGEST_MESSAGE + 20]
            if type(number) is not int or number != len(answers) or not (error is None or isinstance(error, str)):
                break
            answers.append([pack(unpack(value)), error and error[: code_inside.LONGEST_MESSAGE + 20]])
        except (ValueError, TypeError, RecursionError):
            break
    return answers[:most]


def ended(result: Result) -> str:
    """Return a message about why a run has no result for a case."""
    why = {
        "timeout": "the time for all cases ran out",
        "memory": "it took more memory than it may",
        "output": "it printed more than it may",
        "killed": "it was killed by a signal",
    }
    return f"no result: {why.get(result.reason, 'the program ended, or its answers are unreadable')}"


def budget(seconds: float) -> float:
    """Return the total time limit, in seconds, of a program's cases or of the checks' calls, given the limit of each."""
    return max(ALL, START + seconds * (1 + PATIENCE))


def _programs(sandbox: Sandbox, code: str, tests: CodeTests) -> list[CaseResult]:
    """Run a program once per case, each time in an empty folder."""
    tried: list[CaseResult] = []
    slow, left, empty = 0, tests.total or budget(tests.seconds), sandbox.snapshot()
    for number, (stdin, expected) in enumerate(tests.cases):
        if slow >= PATIENCE:
            tried.append(CaseResult(False, "not run: too many cases before it ran out of time"))
            continue
        if left <= 0:
            tried.append(CaseResult(False, "not run: the time for all cases ran out"))
            continue
        if number:
            sandbox.restore(empty)
        result = sandbox.python(code, stdin=str(stdin).encode(), timeout=tests.seconds)
        left -= result.seconds
        slow += result.reason == ExitReason.TIMEOUT
        printed = result.stdout.decode("utf-8", "backslashreplace")
        right = result.ok and COMPARISONS[tests.compare](expected, printed, tests.tolerance)
        tried.append(CaseResult(right, printed if result.ok else _failure(result, tests.seconds)))
    return tried


def _failure(result: Result, seconds: float) -> str:
    if result.reason == ExitReason.TIMEOUT:
        return f"no result within {seconds:g} s"
    last = result.stderr.decode("utf-8", "backslashreplace").strip().rpartition("\n")[2]
    return f"exit code {result.exit_code}: {last}" if result.reason == ExitReason.EXIT else ended(result)
