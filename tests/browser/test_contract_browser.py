"""Environments of pages keep the contract in a real browser: each check by itself, those that take minutes on fewer tasks.

`./dev full` makes the long ones with the tasks that `agentgym check` takes.
"""

from dataclasses import replace

import pytest

from agentgym.browser.chromium import chromium
from agentgym.contract import LAWS, examine, look

IDS = ("rlvr/Web-v0", "rlvr/MiniWoB-v0")
FEW = {"count": 1, "steps": 3, "plays": 2}
LONG = ("equal keys", "snapshots here", "snapshots elsewhere", "oracle solves", "oracle recovers", "expert is fair")
LONG += ("expert is good", "cheaters fail", "chance is poor", "same again", "same elsewhere", "nasty actions", "spellings")
"""Checks that take 5 to 90 s of a core with the tasks of `agentgym check`."""
NOT_CHECKED = {"admissible is valid", "failure never wins", "answers stay hidden"}
"""What there may be nothing to look at for: neither has a list of commands, and their oracles do not fail."""

pytestmark = pytest.mark.skipif(chromium() is None, reason="needs a Chromium: apt install chromium")


@pytest.fixture(scope="module", params=IDS)
def subjects(request):
    """The environment under examination, with few tasks and with as many as `agentgym check` takes."""
    subject = examine(request.param)
    both = {"few": replace(subject, **FEW), "many": subject}
    yield both
    for subject in both.values():
        subject.env.close()


def holds(subject, name):
    result = look(subject, name)
    assert result.status == "holds" or (result.status == "skipped" and name in NOT_CHECKED), str(result)


@pytest.mark.parametrize("name", LAWS)
def test_a_check_holds(subjects, name):
    holds(subjects["few" if name in LONG else "many"], name)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_long_check_holds_on_more_tasks(subjects, name):
    holds(subjects["many"], name)
