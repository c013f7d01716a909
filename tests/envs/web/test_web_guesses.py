"""What guessing is worth: no answer that is always the same wins more than a stated share of any family's tasks."""

from collections import Counter

import pytest
from web_pages import made, solved

from agentgym.core.seeding import generator
from agentgym.envs.web.family import IMPOSSIBLE_SHARE, plain
from agentgym.envs.web.plan import DONE, IMPOSSIBLE
from agentgym.envs.web.sites import families

FAMILIES = families()
FEW, MANY = range(8, 20), range(60)  # among the few are impossible tasks at either difficulty
TASKS = [(0, FEW), (3, FEW), *(pytest.param((difficulty, MANY), marks=pytest.mark.slow) for difficulty in (0, 3))]
"""Difficulties, and the seeds of the tasks of each family."""
MOST_IMPOSSIBLE = 0.25
"""Of so many tasks; the share that is drawn is IMPOSSIBLE_SHARE."""
MOST_CONSTANT = 0.25
"""The share of a family's tasks that any other answer may solve, whatever it is."""
CANNOT = next(seed for seed in range(60) if generator("test", seed, 0).random() < IMPOSSIBLE_SHARE)
CAN = next(seed for seed in range(60) if generator("test", seed, 0).random() >= IMPOSSIBLE_SHARE)


@pytest.fixture(scope="module", params=TASKS)
def drawn(request):
    """Return so many tasks of each family (state, data), by its name."""
    found = {name: [] for name in FAMILIES}
    difficulty, seeds = request.param
    for seed in seeds:  # outermost, for all families of a seed have the same sites, which are filled once
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


def test_no_answer_that_is_always_the_same_solves_many_tasks_of_a_family(drawn):
    for name, tasks in drawn.items():
        right = Counter(plain(data["answers"][0]) for _, data in tasks if data["answers"])
        for answer in {"", "0", "1", "2", "3", *(answer for answer, _ in right.most_common(1))}:
            found = share(FAMILIES[name], tasks, answer)
            assert found <= (MOST_CONSTANT if right else 0), (name, answer, found)


def test_who_says_done_and_has_done_nothing_has_nothing(drawn):
    for at in range(len(drawn["shop-cart"])):
        won = [name for name, tasks in drawn.items() if share(FAMILIES[name], tasks[at : at + 1], DONE)]
        assert not won, (won, at)


@pytest.mark.parametrize("difficulty", [0, 3])
def test_numbers_of_issues_are_spread(difficulty):
    tasks = [made(FAMILIES["tracker-count"], seed, difficulty)[2] for seed in range(60)]
    right = Counter(data["answers"][0] for data in tasks if data["answers"])
    assert len(right) >= 8 and right.most_common(1)[0][1] <= 0.2 * len(tasks), right


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_drawn_as_possible_can_be_done_and_what_is_not_cannot(name):
    family = FAMILIES[name]
    for seed, possible in ((CAN, True), (CANNOT, family.always_possible)):
        browser, instruction, data = solved(family, seed)
        assert data["possible"] == possible and (browser.answer == IMPOSSIBLE) == (not possible), instruction
        assert family.check(browser.state, browser.answer, data), instruction
