"""The page in a real browser: attacks do nothing, no errors, and a failed episode is three clicks away."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ATTACKS, Watched, write_run  # pyright: ignore

from agentgym.report.html import write_report


@pytest.fixture(scope="module")
def report(run_folder: Path) -> Path:
    return write_report(run_folder)


@pytest.fixture
def watched(browser: Any, report: Path) -> Iterator[Watched]:
    made = Watched(browser, report)
    yield made
    assert made.trouble == []
    made.page.close()


def test_a_failed_episode_is_two_clicks_away(watched: Watched):
    page = watched.page
    everything = watched.rows().count()
    page.get_by_role("button", name="failed").click()  # one
    assert 0 < watched.rows().count() < everything
    watched.rows().nth(1).click()  # two
    detail = page.locator("#episodes .detail")
    assert detail.locator(".badge").inner_text() == "failed"
    assert detail.locator(".turn").count() >= 3
    assert page.locator("#episodes .mark.succeeded").count() == 0


def test_every_hostile_text_is_shown_as_text(watched: Watched):
    page = watched.page
    page.get_by_placeholder("find").fill(ATTACKS[0])
    assert watched.rows().count() == 1
    watched.rows().first.click()
    shown = page.locator("#episodes .detail").inner_text()
    for attack in ATTACKS[:3]:
        assert attack in shown
    assert page.locator("main img, main iframe, main script, .detail svg[onload]").count() == 0
    for details in page.locator("details").all():
        details.evaluate("element => element.open = true")
    page.wait_for_timeout(100)


def test_injected_markup_would_not_run_even_if_it_got_in(browser: Any, report: Path):
    watched = Watched(browser, report)
    watched.page.evaluate("""() => {
        const host = document.createElement("div");
        host.innerHTML = "<img src=x onerror=alert(1)><a id=trap href='javascript:alert(2)'>x</a>";
        document.body.append(host);
        const script = document.createElement("script");
        script.textContent = "alert(3)";
        document.body.append(script);
        document.getElementById("trap").click();
    }""")
    watched.page.wait_for_timeout(200)
    assert not [line for line in watched.trouble if line.startswith("dialog")]
    assert len([line for line in watched.trouble if "Content Security Policy" in line]) >= 3
    watched.page.close()


def test_filters_by_type_and_step_and_their_combination(watched: Watched):
    page = watched.page
    page.get_by_label("every task type").select_option("clean")
    some = watched.rows().count()
    assert all("clean" in text for text in watched.rows().all_inner_texts())
    page.get_by_label("every step").select_option("eval/50")
    assert watched.rows().count() < some
    page.get_by_placeholder("find").fill("nothing has this")
    assert page.get_by_text("No episode fits these filters.").is_visible()


def test_keys_and_buttons_walk_through_the_list(watched: Watched):
    page = watched.page
    watched.rows().first.click()
    first = page.locator(".facts").inner_text()
    page.get_by_role("button", name="next").click()
    second = page.locator(".facts").inner_text()
    assert second != first
    page.locator("#episodes .list").press("k")
    assert page.locator(".facts").inner_text() == first
    assert page.url.endswith("#episode-0")


def test_the_address_of_an_episode_opens_it(browser: Any, report: Path):
    page = browser.new_page()
    page.goto(report.as_uri() + "#episode-3")
    assert page.locator("#episodes .row").nth(3).get_attribute("aria-selected") == "true"
    page.close()


def test_curves_show_what_was_measured(watched: Watched):
    page = watched.page
    charts = page.locator("#curves figure")
    assert charts.count() == 14
    success = charts.first
    success.locator("path.line").first.wait_for(state="attached")  # drawn after the page has loaded
    assert success.locator("path.line").count() == 2
    assert success.locator("circle").count() == 6
    assert "NaN" not in page.content()
    success.locator("svg").hover(position={"x": 200, "y": 100})
    assert "step" in success.locator(".legend").inner_text()
    assert "53.3 points" in page.locator("#head").inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (820, "light"), (1400, "dark")])
def test_nothing_is_wider_than_the_screen(browser: Any, report: Path, width: int, scheme: str):
    watched = Watched(browser, report, width, 844, scheme)
    watched.page.get_by_role("button", name="failed").click()
    watched.rows().nth(1).click()
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
    assert watched.trouble == []
    watched.page.close()


def test_a_run_without_episodes_and_one_without_metrics(browser: Any, tmp_path: Path):
    for absent in ("episodes.jsonl", "metrics.jsonl", "summary.json", "config.toml"):
        folder = write_run(tmp_path / absent)
        (folder / absent).unlink()
        watched = Watched(browser, write_report(folder))
        assert watched.page.locator("h1").inner_text() == absent
        assert watched.trouble == []
        watched.page.close()
