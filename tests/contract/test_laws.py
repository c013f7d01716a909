"""Every law can fail: a sound world keeps them all, and for each law there is a world that only that law catches."""

import broken_worlds
import pytest

from agentgym.contract import LAWS, check
from agentgym.contract.subject import shrink


@pytest.mark.parametrize("kind", [broken_worlds.Stairs, broken_worlds.Vault])
def test_sound_worlds_keep_every_law(kind):
    report = check(f"broken/{kind.__name__}-v0")
    assert report.ok, str(report)
    assert sum(result.status == "holds" for result in report.results) >= 21


def test_there_is_a_broken_world_for_every_law():
    assert list(broken_worlds.BREAKS) == list(LAWS)


@pytest.mark.parametrize("law", LAWS)
def test_law_fails_on_its_broken_world(law):
    report = check(f"broken/{broken_worlds.BREAKS[law].__name__}-v0", laws=[law])
    assert [result.law for result in report.broken] == [law], str(report)


def broken(law):
    return check(f"broken/{broken_worlds.BREAKS[law].__name__}-v0", laws=[law]).broken[0]


def test_the_shortest_sequence_is_reported():
    assert broken("admissible is valid").actions == ["jump"]
    assert broken("nasty actions").actions == ["9" * 5000]
    assert len(broken("equal keys").actions) <= 28
    assert len(broken("info schema").actions) == 1
    assert broken("oracle recovers").actions in (["up"], ["down"])


def test_a_report_shows_long_and_hostile_actions_cut_and_escaped():
    text = str(broken("nasty actions"))
    assert "(5000 characters)" in text and len(text) < 600


def test_shrink_deletes_all_that_is_not_needed():
    found = shrink(list(range(50)), lambda some: {7, 31} <= set(some))
    assert found == [7, 31]
    assert shrink([1, 2, 3], lambda some: True) == []


def test_a_world_already_made_is_checked_with_its_own_options():
    class Fickle(broken_worlds.Stairs):
        nondeterministic = "a coin is thrown outside"

    report = check(
        Fickle(split="valid", horizon=7), laws=["same again", "snapshots here", "equal keys", "made bare", "horizons"]
    )
    assert [result.status for result in report.results] == ["skipped"] * 3 + ["holds"] * 2
    assert "a coin is thrown outside" in str(report)


def test_a_world_that_no_other_process_can_import_is_not_blamed():
    class Local(broken_worlds.Stairs):
        pass

    report = check(Local(), laws=["same elsewhere", "snapshots elsewhere"])
    assert [result.status for result in report.results] == ["skipped"] * 2 and report.ok


def test_an_unknown_law_suggests_the_closest():
    with pytest.raises(LookupError, match=r"no law 'horizon'. Did you mean 'horizons'\?"):
        check("rlvr/GuessNumber-v0", laws=["horizon"])
