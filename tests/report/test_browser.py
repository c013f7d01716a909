"""The page in a real browser: attacks do nothing, no errors, and a failed episode is three clicks away."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ATTACKS, Watched, episode, write_run  # pyright: ignore

from agentgym.cli import main
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
    text = page.locator("#episodes .detail").inner_text()
    for attack in ATTACKS[:3]:
        assert attack in text
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
    row_count = watched.rows().count()
    assert all("clean" in text for text in watched.rows().all_inner_texts())
    page.get_by_label("every step").select_option("eval/50")
    assert watched.rows().count() < row_count
    page.get_by_placeholder("find").fill("nothing has this")
    assert page.get_by_text("No episode fits these filters.").is_visible()


def test_keys_and_buttons_walk_through_the_list(watched: Watched):
    page = watched.page
    watched.rows().first.click()
    first = page.locator(".detail .facts").inner_text()
    page.get_by_role("button", name="next").click()
    second = page.locator(".detail .facts").inner_text()
    assert second != first
    page.locator("#episodes .list").press("k")
    assert page.locator(".detail .facts").inner_text() == first
    assert page.url.endswith("#episode-0")


def test_the_last_evaluation_comes_first(watched: Watched):
    page = watched.page
    assert "evaluation at step 50" in watched.rows().first.inner_text()
    assert page.locator("#types select option").first.inner_text() == "evaluation at step 50"
    assert page.locator("#types select").input_value() == "0"


def test_counts_follow_the_filters(watched: Watched):
    page = watched.page
    page.get_by_label("every step").select_option("eval/50")
    counts = [int(text) for text in page.locator("#episodes .count").all_inner_texts()]
    assert counts[0] == watched.rows().count() == sum(counts[1:]) == 4
    page.get_by_role("button", name="failed").click()
    assert [int(text) for text in page.locator("#episodes .count").all_inner_texts()] == counts


def test_observations_and_replies_are_searched(watched: Watched):
    page = watched.page
    page.get_by_placeholder("find").fill("looking quickly around you")
    assert watched.rows().count() > 20
    page.get_by_placeholder("find").fill("the mug may be in cabinet 12.")
    assert 0 < watched.rows().count() < 30


def test_a_group_is_shown_side_by_side(watched: Watched):
    page = watched.page
    page.get_by_label("every step").select_option("train/50")
    watched.rows().first.click()
    group = page.locator(".detail .group")
    assert "Group of 2 attempts" in group.inner_text()
    turns = [int(text) for text in group.locator("tbody td:nth-child(3)").all_inner_texts()]
    assert len(turns) == 2 and group.locator(".cell").count() == sum(turns)
    assert group.locator(".cell.p1, .cell.p2, .cell.p3, .cell.p4, .cell.n1, .cell.n2, .cell.n3, .cell.n4").count() > 0
    group.get_by_text("Actions side by side").click()
    group.locator(".actions tbody tr").first.wait_for()  # drawn when it is opened
    assert group.locator(".actions tbody tr").first.locator("td").count() == 2
    group.get_by_role("button", name="attempt 1").click()
    assert group.locator("tr.here").inner_text().strip().startswith("attempt 1")
    assert page.url.endswith("#episode-" + str(page.locator('.row[aria-selected="true"]').get_attribute("data-index")))


def test_tokens_are_shown_one_by_one(browser: Any, tmp_path: Path):
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed (extra `train`)")
    folder = write_run(tmp_path / "run", steps=10)
    (folder / "init").mkdir()
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"<b>{i}": i for i in range(12)}, unk_token="<b>0"))
    words.save(str(folder / "init" / "tokenizer.json"))
    watched = Watched(browser, write_report(folder))
    view = watched.page.locator(".detail .token-view").first
    view.locator("summary").click()
    assert view.locator(".token").all_inner_texts() == [f"<b>{i}" for i in range(12)]
    assert "log-probability -0.300, advantage" in (view.locator(".token").first.get_attribute("title") or "")
    view.locator("select").select_option(label="log-probability")
    assert view.locator(".token.n4").count() == 12
    assert watched.trouble == []
    watched.page.close()


def test_two_runs_are_compared_on_one_page(browser: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folders = [write_run(tmp_path / name, steps=10 + 10 * i) for i, name in enumerate("ab")]
    for folder in folders:  # the same tasks at the end: of B all solved, of A none
        episodes = [episode(i, f"success_after/{i}", folder.name == "b", np.random.default_rng(i)) for i in range(7)]
        with (folder / "episodes.jsonl").open("a") as file:
            file.writelines(e.to_json() + "\n" for e in episodes)
    assert main(["compare", *map(str, folders)]) == 0
    output = capsys.readouterr().out
    assert "B is better" in output and "compare-with-a.html" in output
    watched = Watched(browser, folders[1] / "compare-with-a.html")
    page = watched.page
    assert "+100.0 points" in page.locator("#head").inner_text()
    page.locator("#curves path.line").first.wait_for(state="attached")
    assert page.locator("#curves figure").first.locator("path.line").count() == 4  # training and held out, of each
    assert page.locator("#flips option").count() == 7
    assert page.locator("#flips article .badge").all_inner_texts() == ["failed", "succeeded"]
    assert watched.trouble == []
    page.close()


def test_the_address_of_an_episode_opens_it(browser: Any, report: Path):
    page = browser.new_page()
    page.goto(report.as_uri() + "#episode-3")
    assert page.locator("#episodes .row").nth(3).get_attribute("aria-selected") == "true"
    assert page.evaluate("scrollY") > 500
    page.evaluate("location.hash = '#episode-9'")
    page.locator('#episodes .row[data-index="9"][aria-selected="true"]').wait_for()
    page.close()


def test_curves_show_what_was_measured(watched: Watched):
    page = watched.page
    charts = page.locator("#curves figure")
    assert charts.count() == 18
    assert charts.filter(has_text="Prefix caches of servers").locator("svg").count() == 1
    assert charts.filter(has_text="Success in the SFT warm start").locator("circle").count() == 2
    success = charts.first
    success.locator("path.line").first.wait_for(state="attached")  # drawn after the page has loaded
    assert success.locator("path.line").count() == 2
    assert success.locator("circle").count() == 6
    assert "NaN" not in page.content()
    success.locator("svg").hover(position={"x": 200, "y": 100})
    assert "step" in success.locator(".legend").inner_text()
    assert "53.3 points" in page.locator("#head").inner_text()


@pytest.mark.long
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
