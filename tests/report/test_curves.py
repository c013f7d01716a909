"""The charts of a run in a real browser: every number of metrics.jsonl, their order, their axes, and hostile names."""

import json
import math
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ATTACKS, Watched, metrics, write_run  # pyright: ignore

from agentgym.cli import main
from agentgym.report.html import write_report
from agentgym.report.watch.run import FollowedRun
from agentgym.report.watch.server import PageServer, Watch

OWN = {
    "reward/format": 0.1, "reward/judge": 0.4, "harder_fraction": 0.2, "lr": 1e-4, "reference_kl": 0.01, "valid": 0.9,
    "parsed": 0.95, "cut": 0.03, "reply_tokens": 17.0, "groups": 16, "groups_equal": 9, "groups_alone": 0,
    "groups_trained": 7, "curriculum/difficulty/sql": 3, "curriculum/difficulty/code": 1, "curriculum/back": 2,
    "success_started": 0.6, "success_hinted": 0.7, "hint_level": 0.5, "value_explained": 0.1, "fault_share": 0.0,
}  # fmt: skip


def write_metrics(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def rich(steps: int = 60) -> list[dict[str, Any]]:
    rows = [{**row, **(OWN if row["phase"] == "rl" else {"own_of_sft": 2.0})} for row in metrics(steps)]
    return [{**row, "tokens": 900 + 10 * i} for i, row in enumerate(rows)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_run(tmp_path_factory.mktemp("runs") / "rich")
    return write_report(write_metrics(folder, rich()))


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Any]:
    watched = Watched(browser, report)
    watched.page.locator("#curves path.line").first.wait_for(state="attached")
    yield watched.page
    assert watched.trouble == []
    watched.page.close()


def titles(page: Any) -> list[str]:
    return page.locator("#curves figure strong").all_text_contents()


def chart(page: Any, title: str) -> Any:
    return page.locator("#curves figure").filter(has=page.locator("strong", has_text=re.compile(f"^{re.escape(title)}$")))


def unplaced(page: Any) -> list[str]:
    """Return what stands nowhere in the drawings: coordinates that are no numbers."""
    drawings = page.locator("#curves svg").evaluate_all("all => all.map((one) => one.outerHTML)")
    return [one for one in drawings if "NaN" in one or "Infinity" in one]


def test_every_number_of_the_file_is_on_a_chart(page: Any) -> None:
    numbers = {key for row in rich() for key, value in row.items() if isinstance(value, int | float)} - {"step"}
    notes = " ".join(
        page.locator("#curves figcaption").all_text_contents() + page.locator("#curves .legend").all_text_contents()
    )
    families = {"reward/format": "format", "reward/judge": "judge", "curriculum/back": "back"}
    families |= {f"curriculum/difficulty/{env}": env for env in ("sql", "code")}
    missing = [key for key in numbers if families.get(key, key) not in notes]
    assert not missing and len(numbers) > 35


def test_the_sections_are_in_the_order_in_which_people_look(page: Any) -> None:
    sections = page.locator("#curves h3").all_text_contents()
    assert sections == [
        "Success and reward", "Health", "Curriculum", "Speed", "Loss, credit and all other numbers", "SFT warm start",
    ]  # fmt: skip
    order = ["Success", "Success of other episodes", "Reward", "Infrastructure errors", "Valid actions, parsed replies",
             "KL, policy to reference", "KL, engine to trainer", "Entropy", "Gradient norm", "difficulty",
             "Tokens per second", "Learning rate"]  # fmt: skip
    places = [titles(page).index(title) for title in order]
    assert places == sorted(places)


def test_reward_parts_and_difficulties_by_environment_share_a_chart(page: Any) -> None:
    assert sorted(chart(page, "difficulty").locator(".key").all_inner_texts()) == ["code 1", "sql 3"]
    assert chart(page, "reward").locator("path.line").count() == 2


def test_smoothing_draws_the_running_mean_over_the_curve_as_it_was(page: Any) -> None:
    entropy = chart(page, "Tokens per second")
    last = entropy.locator(".legend b").inner_text()
    before = entropy.locator("path.line").get_attribute("d")
    page.get_by_label("smoothing").select_option("20")
    assert entropy.locator("path.line").count() == 2
    assert entropy.locator("path.faint").get_attribute("d") == before
    assert entropy.locator(".legend .key").count() == 1 and entropy.locator(".legend b").inner_text() == last
    tokens = chart(page, "Tokens")  # a straight line stays one
    assert tokens.locator("path.faint").get_attribute("d") == tokens.locator("path.line:not(.faint)").get_attribute("d")
    held_out = chart(page, "Success").locator("path.line")
    assert held_out.count() == 3  # training twice, held out as it is
    page.get_by_label("smoothing").select_option("0")
    assert entropy.locator("path.line").count() == 1


def test_time_is_the_seconds_of_the_steps_added_up(page: Any) -> None:
    success = chart(page, "Success")
    page.get_by_role("button", name="time").click()
    assert page.get_by_role("button", name="time").get_attribute("aria-pressed") == "true"
    success.locator("svg").hover(position={"x": 900, "y": 100})
    assert "after" in success.locator(".legend").inner_text() and "s" in success.locator(".legend").inner_text()
    ticks = success.locator("text.tick[text-anchor=middle]").all_text_contents()
    assert ticks[-1] == "120 s"  # 60 steps of 2 seconds
    page.get_by_role("button", name="steps").click()
    assert "s" not in success.locator("text.tick[text-anchor=middle]").all_text_contents()[-1]


def test_a_logarithmic_axis_has_decades_and_says_what_it_leaves_out(page: Any) -> None:
    kl = chart(page, "KL, engine to trainer")
    page.get_by_role("button", name="log").click()
    ticks = kl.locator("text.tick[text-anchor=end]").all_text_contents()
    assert len(ticks) > 1 and all(float(tick) > 0 for tick in ticks)
    loss = chart(page, "Loss")
    assert "values at or below 0 are not shown" in loss.locator(".legend").inner_text()
    assert unplaced(page) == []


def test_sections_fold(page: Any) -> None:
    speed = page.locator("details.chart-section").filter(has_text="Speed")
    speed.locator("summary").click()
    assert not chart(page, "Tokens per second").is_visible()
    page.get_by_label("smoothing").select_option("5")  # what is drawn again stays folded
    assert not chart(page, "Tokens per second").is_visible()
    speed.locator("summary").click()
    chart(page, "Tokens per second").locator("path.faint").wait_for(state="attached")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1400, "dark")])
def test_the_head_of_a_run_names_what_it_was_trained_with(browser: Any, report: Path, width: int, scheme: str) -> None:
    folder = report.parent
    config = 'env = "rlvr/Household-v0"\nmodel = "org/<b>x"\n[credit]\nname = "gigpo"\n[agent]\nname = "chat"\n'
    (folder / "config.toml").write_text(config + 'prompt = "react"\ntemperature = 0.7\n')
    sessions = [{"started": "2026-11-27T10:00:00+00:00", "agentgym": "0.1.0"}]
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "sessions": sessions}))
    watched = Watched(browser, write_report(folder), width, 900, scheme)
    page = watched.page
    facts = dict(fact.split("\n") for fact in page.locator("#head .played-with > div").all_inner_texts())
    assert facts == {
        "environment": "rlvr/Household-v0", "model": "org/<b>x", "agent": "chat", "prompt": "react", "temperature": "0.7",
        "credit": "gigpo", "date": "2026-11-27", "agentgym": "0.1.0",
    }  # fmt: skip
    assert "sampled in training" in page.locator("#head").inner_text()
    for control in ("log", "time"):
        page.get_by_role("button", name=control, exact=True).click()
    page.get_by_label("every step").select_option("eval/50")
    watched.rows().first.click()
    page.get_by_role("button", name="next").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert watched.trouble == []
    page.close()


HOSTILE: list[dict[str, Any]] = [
    *({"step": i, "phase": "rl", "success_train": 0.5, name: i} for i, name in enumerate(ATTACKS)),
    *({"step": 5 + i, "seconds": 3, name: 1.0} for i, name in enumerate(("__proto__", "constructor", "", "Success", "x"))),
    {"step": 10, "huge": 1e308, "small": -1e308, "tiny": 5e-324, "close": 1e20, "seconds": 1e308, "success_train": "<b>"},
    {"step": 11, "huge": 1e99, "small": math.inf, "tiny": 1e-323, "close": 1e20 + 16384, "seconds": -5, "lr": math.nan},
    {"step": 12, "huge": -1e99, "small": -math.inf, "tiny": 0.0, "close": 1e20, "valid": True, "parsed": None, "cut": [1]},
    {"step": 13, "x" * 5000: 1.0, "a/" * 50: 1.0, "curriculum/": 2.0, "reward/": 3.0, "success_train/": 0.5, "/": 1.0},
]  # fmt: skip


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
def test_hostile_names_and_numbers_are_shown_as_text_or_left_out(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    watched = Watched(browser, write_report(write_metrics(tmp_path / "run", HOSTILE)), width, 900, scheme)
    page = watched.page
    for details in page.locator("details").all():
        details.evaluate("element => element.open = true")
    for control in ("log", "time", "linear", "steps"):
        page.get_by_role("button", name=control, exact=True).click()
        page.get_by_label("smoothing").select_option("5" if control == "log" else "100")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert unplaced(page) == []
    chart_titles = titles(page)
    assert (
        ATTACKS[2].partition("/")[0] in " ".join(chart_titles)
        and "__proto__" in chart_titles
        and "constructor" in chart_titles
    )
    assert chart_titles.count("Success") == 2 and "(no name)" in chart_titles and max(map(len, chart_titles)) <= 100
    assert page.locator("main img, main iframe, main script, svg[onload]").count() == 0
    assert watched.trouble == []
    page.close()


def test_a_stranger_with_ten_thousand_numbers_gets_a_page_that_says_so(browser: Any, tmp_path: Path) -> None:
    rows = [{"step": i, "phase": "rl", **{f"n{j}": i * j for j in range(1000)}} for i in range(3)]
    watched = Watched(browser, write_report(write_metrics(tmp_path / "run", rows)))
    assert watched.page.locator("#curves figure").count() == 200
    assert "800 more charts are left out" in watched.page.locator("#curves").inner_text()
    assert watched.trouble == []
    watched.page.close()


def test_runs_of_older_versions_open(browser: Any, tmp_path: Path) -> None:
    rows = [{"step": i, "success_train": 0.1 * i, "loss": 1.0} for i in range(5)]
    watched = Watched(browser, write_report(write_metrics(tmp_path / "run", rows)))
    assert titles(watched.page) == ["Success", "Loss"]
    assert watched.page.get_by_role("button", name="time").count() == 0  # nothing says how long a step took
    assert watched.trouble == []
    watched.page.close()


def test_the_charts_of_two_runs_have_the_same_controls(browser: Any, tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name, steps=20) for name in "ab"]
    for folder in folders:
        write_metrics(folder, rich(20))
    assert main(["compare", *map(str, folders)]) == 0
    watched = Watched(browser, folders[1] / "compare-with-a.html")
    page = watched.page
    chart(page, "Learning rate").locator("path.line").first.wait_for(state="attached")
    assert chart(page, "Learning rate").locator("path.line").count() == 2
    page.get_by_role("button", name="log").click()
    page.get_by_label("smoothing").select_option("5")
    assert chart(page, "Entropy").locator("path.line").count() == 4
    assert watched.trouble == []
    page.close()


IDLE = {
    "step": 1,
    "phase": "rl",
    "success_train": 0.0,
    "groups": 4,
    "groups_equal": 4,
    "groups_alone": 0,
    "groups_trained": 0,
}


def test_a_run_without_updates_says_so_on_its_page(browser: Any, tmp_path: Path) -> None:
    folder = write_metrics(tmp_path / "run", [{**IDLE, "step": step} for step in (1, 2, 3)])
    watched = Watched(browser, write_report(folder), 390)
    head = watched.page.locator("#head").inner_text()
    assert "step 3: no update: all 4 groups had equal returns. 3 steps in a row without an update" in head
    assert "--group-size" in watched.page.locator("#head code").all_inner_texts()
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 390
    watched.page.close()


def test_watch_has_every_number_its_controls_and_the_word_of_an_idle_step(browser: Any, tmp_path: Path) -> None:
    folder = write_metrics(write_run(tmp_path / "run"), rich(20))
    server = PageServer(Watch([FollowedRun(folder)]), "127.0.0.1", 0, None)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(server.address)
    chart(page, "harder_fraction").locator("path.line").wait_for(state="attached")
    assert chart(page, "difficulty").locator(".key").count() == 2
    page.get_by_role("button", name="log").click()
    page.get_by_label("smoothing").select_option("5")
    page.locator("#episodes .list").click()
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({**IDLE, "step": 30, "entropy": 0.5}) + "\n")
    page.get_by_text("step 30: no update: all 4 groups had equal returns").wait_for()
    assert page.get_by_role("button", name="log").get_attribute("aria-pressed") == "true"
    assert chart(page, "Entropy").locator("path.faint").count() == 1  # the choice outlives new rows
    assert errors == []
    page.close()
    server.shutdown()
    server.server_close()
