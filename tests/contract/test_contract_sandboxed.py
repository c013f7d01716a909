"""Environments that lean on a sandbox keep the contract: each check by itself, those that take long on fewer tasks.

`./dev full` makes all of them with more tasks still: tests/contract/test_contract.py, `thoroughly`.
"""

import os

import pytest
from by_check import LONG, few, holds

from agentgym.contract import CHECKS, examine
from agentgym.rewards import expressions
from agentgym.sandbox.bubblewrap.sandbox import missing

OPTIONS = {
    "rlvr/Code-v0": {},
    "rlvr/CodeDialogue-v0": {},
    "rlvr/Math-v0": {} if expressions.installed() else {"preset": "numbers"},
    "rlvr/SWE-v0": {},
    "rlvr/Terminal-v0": {"families": "rename,csv,ini,links", "difficulty": 0},  # quick ones
}
NOT_CHECKED = {
    "rlvr/Code-v0": ("admissible is valid",),
    "rlvr/CodeDialogue-v0": ("admissible is valid",),
    "rlvr/Math-v0": ("admissible is valid", "failure never wins"),
    "rlvr/SWE-v0": ("admissible is valid", "expert is fair", "expert is good"),
    "rlvr/Terminal-v0": ("admissible is valid", "failure never wins"),
}
"""What there is nothing to look at for: none has a list of commands, SWE has no expert, and two have no measures."""
SEED = int(os.environ["AGENTGYM_CHECK_SEED"])

pytestmark = pytest.mark.skipif(bool(missing()), reason=str(missing()))


@pytest.fixture(scope="module", params=OPTIONS)
def under_tests(request):
    """The environment under examination, with few tasks and with as many as `agentgym check` takes."""
    options = OPTIONS[request.param]
    both = {"few": few(request.param, seed=SEED, **options), "many": examine(request.param, seed=SEED, **options)}
    yield both
    for under_test in both.values():
        under_test.env.close()


@pytest.mark.long
@pytest.mark.parametrize("name", CHECKS)
def test_a_check_holds(under_tests, name):
    holds(under_tests["few" if name in LONG else "many"], name, NOT_CHECKED[under_tests["few"].id])


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_long_check_holds_on_more_tasks(under_tests, name):
    holds(under_tests["many"], name, NOT_CHECKED[under_tests["few"].id])
