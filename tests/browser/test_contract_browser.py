"""Environments of pages keep the contract in a real browser: each check by itself, those that take minutes on fewer tasks.

`./dev full` makes the long ones with the tasks that `agentgym check` takes.
"""

import pytest
from by_check import LONG, few, holds

from agentgym.browser.chromium import chromium
from agentgym.contract import CHECKS, examine

IDS = ("rlvr/Web-v0", "rlvr/MiniWoB-v0")
NOT_CHECKED = ("admissible is valid", "failure never wins", "answers stay hidden")
"""What there may be nothing to look at for: neither has a list of commands, and their oracles do not fail."""

pytestmark = pytest.mark.skipif(chromium() is None, reason="needs a Chromium: apt install chromium")


@pytest.fixture(scope="module", params=IDS)
def under_tests(request):
    """The environment under examination, with few tasks and with as many as `agentgym check` takes."""
    both = {"few": few(request.param), "many": examine(request.param)}
    yield both
    for under_test in both.values():
        under_test.env.close()


@pytest.mark.long
@pytest.mark.parametrize("name", CHECKS)
def test_a_check_holds(under_tests, name):
    holds(under_tests["few" if name in LONG else "many"], name, NOT_CHECKED)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_long_check_holds_on_more_tasks(under_tests, name):
    holds(under_tests["many"], name, NOT_CHECKED)
