"""What guessing is worth: no answer that is always the same wins more than a stated share of any family's tasks."""

import pytest
from web_pages import made, solved

from agentgym.envs.web.family import IMPOSSIBLE_SHARE
from agentgym.envs.web.plan import IMPOSSIBLE
from agentgym.envs.web.sites import families
from agentgym.seeding import generator

FAMILIES = families()
TASKS = [(0, 60), (3, 30), pytest.param((3, 60), marks=pytest.mark.slow)]
"""Difficulties, and how many tasks of each family."""
MOST_IMPOSSIBLE = 0.25
"""Of so many tasks; the share that is drawn is IMPOSSIBLE_SHARE."""
CANNOT = next(seed for seed in range(60) if generator("test", seed, 0).random() < IMPOSSIBLE_SHARE)
CAN = next(seed for seed in range(60) if generator("test", seed, 0).random() >= IMPOSSIBLE_SHARE)


@pytest.fixture(scope="module", params=TASKS)
def drawn(request):
    """Return so many tasks of each family (state, data), by its name."""
    found = {name: [] for name in FAMILIES}
    difficulty, count = request.param
    for seed in range(count):  # outermost, for all families of a seed have the same sites, which are filled once
        for name, family in FAMILIES.items():
            found[name].append(made(family, seed, difficulty)[::2])
    return found


def share(family, tasks, answer):
    """Return the share of tasks that an answer solves where nothing else is done."""
    return sum(family.check(state, answer, data) for state, data in tasks) / len(tasks)


def test_whoever_says_impossible_has_the_same_small_share_of_every_family(drawn):
    shares = {name: share(FAMILIES[name], tasks, IMPOSSIBLE) for name, tasks in drawn.items()}
    assert {name for name, found in shares.items() if not found} == {n for n, f in FAMILIES.items() if f.always_possible}
    assert len({found for found in shares.values() if found}) == 1, "one place draws it, for all families alike"
    assert max(shares.values()) <= MOST_IMPOSSIBLE


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_drawn_as_possible_can_be_done_and_what_is_not_cannot(name):
    family = FAMILIES[name]
    for seed, possible in ((CAN, True), (CANNOT, family.always_possible)):
        browser, instruction, data = solved(family, seed)
        assert data["possible"] == possible and (browser.answer == IMPOSSIBLE) == (not possible), instruction
        assert family.check(browser.state, browser.answer, data), instruction
