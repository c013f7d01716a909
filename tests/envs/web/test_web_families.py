"""Every task family: its plan solves it through the pages, and nothing less does."""

from datetime import date, timedelta

import pytest
from web_pages import TextBrowser, made, solved

from agentgym.core.seeding import generator
from agentgym.envs.web.family import IMPOSSIBLE_SHARE, NoSubject, TaskFamily, absent, plain
from agentgym.envs.web.plan import DONE, IMPOSSIBLE
from agentgym.envs.web.sites import families
from agentgym.envs.web.sites.calendar.data import KINDS
from agentgym.envs.web.state import EpisodeState
from agentgym.envs.web.words import NOUNS
from agentgym.errors import BadConfig

FAMILIES = families()
SEEDS = range(3)


@pytest.mark.parametrize("name", FAMILIES)
def test_plan_solves_the_task(name):
    for difficulty, seeds in {0: 1, 2: 1}.items():
        follow(FAMILIES[name], difficulty, range(seeds))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_plan_solves_many_tasks(name):
    for difficulty in (0, 1, 2, 5):
        follow(FAMILIES[name], difficulty, range(10, 60))


def follow(family, difficulty, seeds):
    for seed in seeds:
        browser, instruction, data = solved(family, seed, difficulty)
        assert family.check(browser.state, browser.answer, data), (seed, instruction, data, browser.answer)


@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_done_is_not_enough(name):
    family = FAMILIES[name]
    for seed in SEEDS:
        state, instruction, data = made(family, seed)
        assert not family.check(state, DONE, data), (seed, instruction)
        assert family.check(state, IMPOSSIBLE, data) == (not data["possible"]), (seed, instruction)
        if data["answers"]:
            assert data["answers"][0] not in instruction


@pytest.mark.parametrize("name", FAMILIES)
def test_any_other_change_fails(name):
    family = FAMILIES[name]
    browser, _, data = solved(family, 0)
    for site in family.sites:
        browser.state.db(site).execute("INSERT INTO session VALUES ('somebody')")
        assert not family.check(browser.state, browser.answer, data)
        browser.state.db(site).execute("DELETE FROM session WHERE username = 'somebody'")
    assert family.check(browser.state, browser.answer, data)


@pytest.mark.parametrize("name", FAMILIES)
def test_tasks_differ_and_making_one_changes_nothing(name):
    family = FAMILIES[name]
    instructions = set()
    for seed in SEEDS:
        state, instruction, data = made(family, seed)
        assert state.digest() == state.fresh().digest()
        assert (instruction, data) == made(family, seed)[1:]
        instructions.add(instruction)
    assert len(instructions) > 1


def test_start_pages_are_there():
    for family in FAMILIES.values():
        state, _, _ = made(family, 0)
        browser = TextBrowser(state)
        assert browser.request("GET", f"http://{family.sites[0]}.test/").has("link", "Restore demo data")


@pytest.mark.parametrize(
    "date_text", ["5 March 2026", "Thursday, 5 March 2026.", "March 5, 2026", "2026-03-05", " 05 MARCH 2026"]
)
def test_a_date_is_right_however_it_is_written(date_text):
    assert plain(date_text) == plain("5 March 2026") != plain("6 March 2026")


def test_what_is_no_date_stays_as_it_is():
    assert [plain(text) for text in ("$1,234.50", '"Done."', "March", "2026-02-30")] == [
        "1234.50",
        "done",
        "march",
        "2026-02-30",
    ]


def test_whole_sums_and_hours_of_one_digit_are_the_same_in_either_form():
    assert plain("$400") == plain("$400.00") != plain("$400.05")
    assert plain("9:30") == plain("09:30") != plain("19:30")
    assert plain("1.005") == "1.005"


@pytest.mark.parametrize(
    "amount_text",
    ["$1,299.50", "1299.50", "1,299.5", "$ 1299.5", "US$1,299.50", "USD 1299.50", "1,299.50 USD", "1299.50 dollars",
     "1,299 dollars and 50 cents", "1299 dollars, 50 cents.", '"$1,299.50"'],
)  # fmt: skip
def test_an_amount_is_right_however_it_is_written(amount_text):
    assert plain(amount_text) == plain("$1,299.50")


@pytest.mark.parametrize(
    "amount_text", ["$12", "12 dollars", "12.0", "12.00 USD", "12 dollars and 0 cents", "$12.", "US $12"]
)
def test_an_amount_without_cents_too(amount_text):
    assert plain(amount_text) == plain("$12.00") == plain("12")


@pytest.mark.parametrize(
    "amount_text, meant",
    [
        ("$5k", "$5,000.00"),
        ("5 thousand dollars", "$5,000.00"),
        ("1.299,50", "$1,299.50"),
        ("1299,50", "$1,299.50"),
        ("12,99", "$1,299.00"),
        ("1 299", "$1,299.00"),
        ("€12.50", "$12.50"),
        ("12.50 euros", "$12.50"),
        ("about $12.50", "$12.50"),
        ("$12.50 or $13", "$12.50"),
        ("-$12.50", "$12.50"),
        ("$12.505", "$12.50"),
        ("12 dollars and 5 cents", "$12.50"),
        ("1250 cents", "$12.50"),
        ("012", "12"),
    ],
)
def test_an_amount_that_is_rounded_vague_or_another_is_wrong(amount_text, meant):
    assert plain(amount_text) != plain(meant)


def test_all_families_draw_tasks_however_large_the_sites_are():
    for possible in (True, False):
        for name, family in FAMILIES.items():
            if possible or not family.always_possible:
                _, data = family.draw_one(generator("test", 0, 12), 12, possible)
                assert data["possible"] == possible, name


def test_days_and_titles_of_large_calendars_do_not_run_out():
    state = EpisodeState(0, 15)
    titles = [row["title"] for row in state.rows("calendar", "SELECT title FROM event ORDER BY day")]
    last = state.one("calendar", "SELECT max(day) FROM event")
    assert len(titles) == len(set(titles)) > len(NOUNS) * len(KINDS)
    assert date.fromisoformat(last) > state.now.date() + timedelta(weeks=18)


def test_families_that_find_nothing_say_so():
    class Nowhere(TaskFamily):
        name = "nowhere"

        def make(self, rng, difficulty, state, possible):
            return absent(["only"], lambda: "only"), {}

    with pytest.raises(BadConfig, match="no task of nowhere that can be done"):
        Nowhere().draw_one(generator("test", 0), 0, True)


def test_no_event_is_moved_where_one_cannot_be():
    impossible = [seed for seed in range(10, 40) if generator("test", seed, 5).random() < IMPOSSIBLE_SHARE]
    assert len(impossible) > 2
    follow(FAMILIES["calendar-move"], 5, impossible)


@pytest.mark.parametrize(
    ("name", "table"),
    {
        "calendar-next": "event",
        "calendar-move": "event",
        "calendar-delete": "event",
        "calendar-reply": "event",
        "calendar-invite": "event",
        "forum-delete": "comment",
        "mail-tidy": "message",
        "tracker-busiest": "issue",
    }.items(),
)
def test_sites_without_a_subject_give_no_task_of_nothing(name, table):
    state = EpisodeState(0, 0)
    state.change(name.partition("-")[0], f"DELETE FROM {table}")
    with pytest.raises(NoSubject):
        FAMILIES[name].make(generator("test"), 0, state, True)
    state.close()
