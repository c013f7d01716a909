"""Checks written in Python (`assert f(1) == 2`, or a function `check`), hidden from the code that they check.

Checks and solution run in two sandboxes. Each call of the solution passes through this module as data.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agentgym.envs.code.grading import calls_inside as code_calls_inside
from agentgym.envs.code.grading.tests import PATIENCE, START, CaseResult, budget, ended
from agentgym.rewards.programs import inside as code_inside
from agentgym.rewards.programs import values
from agentgym.rewards.programs.program import program
from agentgym.rewards.programs.values import NotData, as_source, pack, unpack
from agentgym.sandbox.protocol import Kernel, Sandbox

MOST_CALLS = 20_000
"""Maximum number of calls over all checks of a task."""
SHIPPED = (values, code_inside, code_calls_inside)


@dataclass(frozen=True, slots=True)
class Checks:
    """A task's tests as code."""

    names: Sequence[str]
    """Names that the solution defines and the checks call."""
    checks: Sequence[Sequence[str]]
    """The checks: each is [statements], or [expression, repr of its expected value]."""
    before: str = ""
    """The task's opening code, which runs first in both sandboxes."""
    setup: str = ""
    """Code that runs only in the checks' sandbox, before the checks."""
    seconds: float = 2.0
    """Time limit of a check, in seconds: for the run of the solution's code and the check's calls together."""
    seed: int = 0


def run_checks(theirs: Sandbox, ours: Sandbox, code: str, checks: Checks) -> list[CaseResult]:
    """Run the checks in the sandbox `ours` on a solution in the sandbox `theirs`, and return the result of each check."""
    expected, got = theirs.kernel(), ours.kernel()
    try:
        return _Conversation(expected, got, checks, theirs.limits.output // 4).results(code)
    finally:
        expected.close()
        got.close()


class _Conversation:
    """Relays calls from the checks to the solution."""

    def __init__(self, theirs: Kernel, ours: Kernel, checks: Checks, room: int) -> None:
        self.theirs, self.ours, self.checks, self.room = theirs, ours, checks, room
        self.slow, self.left = 0, budget(checks.seconds)
        self.last = ""

    def results(self, code: str) -> list[CaseResult]:
        count, checks = len(self.checks.checks), self.checks
        solution_request = {"code": code, "seconds": checks.seconds, "room": self.room}
        _, error = self._theirs(program(f"serve({json.dumps(solution_request)!r})", SHIPPED), START)
        if error is not None:
            return [CaseResult(False, error)] * count
        checks_request = {
            "before": checks.before,
            "setup": checks.setup,
            "names": list(checks.names),
            "seed": checks.seed,
            "checks": [list(check) for check in checks.checks],
        }
        message = self._ours(program(f"begin({json.dumps(checks_request)!r})", SHIPPED))
        for _ in range(MOST_CALLS):
            if "call" not in message:
                break
            answer = self._call(message["call"])
            message = self._ours(_step(f"go_on({json.dumps(answer)!r})"))
        outcomes: list[str | None] = message.get("results", [])
        tried = [CaseResult(error is None, self._described_error(error)) for error in outcomes]
        return tried + [CaseResult(False, f"not checked: {message.get('error', 'too many calls')}")] * (count - len(tried))

    def _call(self, request: list[Any]) -> list[Any]:
        if self.slow >= PATIENCE:
            return [None, "RuntimeError: too many calls before ran out of time"]
        if self.left <= 0:
            return [None, "RuntimeError: the time for all calls ran out"]
        name, positional, named, _ = request
        answer = self._theirs(_step(f"call({json.dumps(request)!r})"), self.checks.seconds)
        self.slow += answer[1] is not None and answer[1].startswith("Slow")
        arguments = [as_source(argument) for argument in positional] + [
            f"{key}={as_source(argument)}" for key, argument in named["d"]
        ]
        self.last = f"{name}({', '.join(arguments)}) {'gave ' + as_source(answer[0]) if answer[1] is None else 'failed'}"
        return answer

    def _described_error(self, error: str | None) -> str:
        return "" if error is None else f"{error}; the last call: {self.last}" if self.last else error

    def _theirs(self, code: str, more: float) -> list[Any]:
        """Run a step in the solution's sandbox and return [packed value, error or None].

        The answer is untrusted: a malformed one becomes an error.
        """
        if not self.theirs.alive:
            return [None, "RuntimeError: the program has ended"]
        result = self.theirs.run(code, START + more)
        self.left -= result.seconds
        with suppress(NotData, ValueError, TypeError, RecursionError):
            value, error = json.loads(result.stdout)
            if error is None or isinstance(error, str):
                return [pack(unpack(value)), error and error[: code_inside.LONGEST_MESSAGE + 20]]
        return [None, f"RuntimeError: {ended(result)}"]

    def _ours(self, code: str) -> dict[str, Any]:
        result = self.ours.run(code, START + self.checks.seconds) if self.ours.alive else None
        try:
            return json.loads(result.stdout) if result is not None else {"error": "the checks ended"}
        except (ValueError, RecursionError):
            return {"error": "the checks ended without a result, or took too long"}


def _step(call: str) -> str:
    return f"__import__('sys').modules[{code_calls_inside.__name__!r}].{call}"
