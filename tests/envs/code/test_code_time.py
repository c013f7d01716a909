"""Grading has its own time: tests that are each within theirs cannot take longer together than a rollout gives a step."""

import pytest

from agentgym.envs.code.grading import checks as code_checks
from agentgym.envs.code.grading import tests as code_tests
from agentgym.envs.code.grading.checks import Checks, run_checks
from agentgym.envs.code.grading.tests import CodeTests, budget, run_tests
from agentgym.sandbox.bubblewrap.sandbox import Bubblewrap, missing

needs_sandbox = pytest.mark.skipif(bool(missing()), reason=missing())
SLOW = "import time\ntime.sleep(0.4)\nprint(input())"


def test_the_time_for_all_tests_is_below_that_of_a_step():
    assert budget(2.0) == 40.0 < 60.0
    assert budget(20.0) == 5.0 + 4 * 20.0  # a file's own tests may each take longer


@needs_sandbox
def test_many_slow_tests_of_a_program_end_when_the_time_for_all_is_over(monkeypatch):
    monkeypatch.setattr(code_tests, "budget", lambda seconds: 1.0)
    sandbox = Bubblewrap()
    try:
        tried = run_tests(sandbox, SLOW, CodeTests("program", "", [("x", "x\n")] * 40, "lines", seconds=5.0))
    finally:
        sandbox.close()
    ran = [one for one in tried if one.got != "not run: the time for all cases ran out"]
    assert len(tried) == 40 and 1 <= len(ran) <= 3 and not tried[-1].passed


@needs_sandbox
def test_the_calls_of_a_check_share_its_time_and_the_next_check_has_its_own():
    # The solution sets its clock forward, so that no machine is too slow: a call takes 20 of 30 seconds.
    code = """
import time
sleep, clock = time.sleep, [time.monotonic()]
time.monotonic = lambda: clock[0]
def f(x):
    sleep(0.1)
    clock[0] += 20
    return x
"""
    sandboxes = Bubblewrap(), Bubblewrap()
    thrice = "assert [f(1), f(2)] == [1, 2]\nassert f(3) == 3"
    try:
        tried = run_checks(
            *sandboxes, code, Checks(["f"], [["assert f(1) == 1"], ["assert f(2) == 2"], [thrice]], seconds=30.0)
        )
    finally:
        for sandbox in sandboxes:
            sandbox.close()
    assert [one.passed for one in tried] == [True, True, False]
    assert "Slow: no result within 30 s" in tried[-1].got and "f(3) failed" in tried[-1].got


@needs_sandbox
def test_many_slow_calls_of_checks_end_when_the_time_for_all_is_over(monkeypatch):
    monkeypatch.setattr(code_checks, "budget", lambda seconds: 1.0)
    sandboxes = Bubblewrap(), Bubblewrap()
    code = "import time\ndef f(x):\n    time.sleep(0.4)\n    return x"
    try:
        tried = run_checks(*sandboxes, code, Checks(["f"], [[f"assert f({n}) == {n}"] for n in range(40)], seconds=5.0))
    finally:
        for sandbox in sandboxes:
            sandbox.close()
    assert len(tried) == 40 and sum(one.passed for one in tried) <= 3
    assert "the time for all calls ran out" in tried[-1].got
