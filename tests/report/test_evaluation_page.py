"""The page of an evaluation in a real browser: measures, plots, contamination, and hostile text in every one of them."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import ATTACKS, Watched  # pyright: ignore

import agentgym
from agentgym import Episode, Turn
from agentgym.evaluate import manifest
from agentgym.evaluate.run import EvaluationPlan, evaluate
from agentgym.evaluate.summary import summarize
from agentgym.report.html import write_report

LAKE, GUESS = "rlvr/FrozenLake-v0", "rlvr/GuessNumber-v0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "two environments"
    own = {LAKE: {"difficulties": (0, 1)}}
    evaluate(agentgym.ExpertAgent(), EvaluationPlan((LAKE, GUESS), tasks=4, attempts=4, own=own), path)
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an evaluation whose environments, types, reasons, tasks, model and checks all attack the page."""
    path = tmp_path_factory.mktemp("runs") / "<img src=x onerror=alert(1)>"
    path.mkdir()
    a, b, c, d, e = ATTACKS
    chance = random.Random(0)
    episodes: list[Episode] = []
    for i in range(40):
        turn = Turn(chance.choice(ATTACKS), action=b, text=c, error=d, valid=False, rewards={a: 0.5})
        turn.messages = [{"role": a, "content": e}]
        won = bool(i % 3)
        made = Episode(a if i % 2 else b, f"{c} {i // 4}", a, i, attempt=i % 4, turns=[turn], instruction=d, success=won)
        made.labels, made.reason, made.metrics = (
            {"type": chance.choice(ATTACKS), "difficulty": chance.choice(ATTACKS)},
            a,
            {a: 1},
        )
        episodes.append(made)
    (path / "episodes.jsonl").write_text("".join(e.to_json() + "\n" for e in episodes), encoding="utf-8")
    check = {"checked": 3, "found": 2, "examples": list(ATTACKS), "how": b, "why": c}
    found = {"contamination": {a: {"split_overlap": check, "answer_in_prompt": check}}, "comparable": a}
    manifest.start(path, {"model": a, "protocol": {"name": b}})
    (path / "summary.json").write_text(json.dumps({**summarize(episodes), **found}))
    return path


@pytest.fixture
def page(browser: Any, folder: Path) -> Any:
    watched = Watched(browser, write_report(folder))
    yield watched.page
    assert watched.trouble == []
    watched.page.close()


def test_the_table_says_what_the_summary_says(page: Any, folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    rows = page.locator("#measures tbody tr").all_inner_texts()
    names = [row.split("\t")[0] for row in rows]
    assert names == [LAKE, "difficulty 0", "difficulty 1", GUESS, "all"]
    first, last = rows[0].split("\t"), rows[-1].split("\t")
    lake = summary["envs"][LAKE]
    assert first[1] == f"{100 * lake['success']['mean']:.1f} %" and last[-3] == str(summary["success"]["episodes"]) == "48"
    assert first[3:5] == [f"{100 * lake['pass_at']['4']:.1f} %", f"{100 * lake['pass_hat']['4']:.1f} %"]
    bars = page.locator("#types .bar .name").all_inner_texts()
    assert bars == names[:-1]
    whole = page.locator("#types .bar").first.inner_text()
    assert f"{100 * lake['success']['low']:.0f} % to {100 * lake['success']['high']:.0f} %" in whole


def test_plots_and_sentences(page: Any, folder: Path) -> None:
    charts = page.locator("#measures figure")
    assert charts.locator("strong").all_inner_texts() == ["Several attempts at a task", "Performance profile"]
    assert charts.nth(0).locator("path.line").count() == 3
    assert charts.nth(1).locator("circle").count() == 10 and charts.nth(1).locator("path.band").count() == 1
    charts.nth(0).locator("svg").hover(position={"x": 60, "y": 60})
    assert "k = 1" in charts.nth(0).locator(".legend").inner_text()
    assert "NaN" not in page.content() and "undefined" not in page.locator("main").inner_text()
    measures = page.locator("#measures").inner_text()
    assert "no protocol: not comparable with published numbers" in measures
    assert "Contamination: 0 of 12 tasks are also in the training split" in measures
    page.locator("#measures summary").click()
    assert page.locator("#measures li").count() == 4
    assert "not checked whether tasks show the answer at once" in page.locator("#measures li").nth(1).inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1400, "dark")])
def test_nothing_is_cut_off_and_controls_work(browser: Any, folder: Path, hostile: Path, width: int, scheme: str) -> None:
    for path in (folder, hostile):
        watched = Watched(browser, write_report(path), width, 900, scheme)
        page = watched.page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        everything = watched.rows().count()
        page.get_by_role("button", name="succeeded").first.click()
        assert 0 < watched.rows().count() <= everything
        page.get_by_placeholder("find").fill("nothing has this")
        assert watched.rows().count() == 0
        page.get_by_placeholder("find").fill("")
        page.get_by_role("button", name="next").click()
        assert "#episode-" in page.url
        for details in page.locator("details").all():
            details.evaluate("element => element.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert watched.trouble == []
        page.close()


def test_the_head_names_what_was_played_with(browser: Any, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "episodes.jsonl").write_text((folder / "episodes.jsonl").read_text())
    (tmp_path / "summary.json").write_text((folder / "summary.json").read_text())
    manifest.start(tmp_path, {
        "model": "org/<b>model", "agent": "chat", "prompt": {"a": "react", "b": "react"}, "temperature": 0.7, "seed": 3,
    })  # fmt: skip
    watched = Watched(browser, write_report(tmp_path), 390)
    head = watched.page.locator("#head .played-with > div").all_inner_texts()
    facts = dict(fact.split("\n") for fact in head)
    assert facts["model"] == "org/<b>model" and facts["prompt"] == "react" and facts["temperature"] == "0.7"
    assert facts["agentgym"] == agentgym.__version__ and len(facts["date"]) == 10
    assert watched.trouble == []
    watched.page.close()


def test_hostile_text_is_text_in_every_measure(browser: Any, hostile: Path) -> None:
    watched = Watched(browser, write_report(hostile))
    page = watched.page
    for details in page.locator("details").all():
        details.evaluate("element => element.open = true")
    assert page.locator("h1").inner_text() == hostile.name
    text = page.locator("#measures").inner_text()
    for attack in ATTACKS[:3]:
        assert attack in text
        assert attack in page.locator("#types").inner_text()
    assert page.locator("#measures li.wrong").count() == 2
    watched.rows().nth(2).click()
    assert page.locator("main img, main iframe, main script, svg[onload]").count() == 0
    page.wait_for_timeout(100)
    assert watched.trouble == []
    page.close()


def test_pages_of_older_evaluations_still_open(browser: Any, folder: Path, tmp_path: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    del summary["contamination"], summary["comparable"], summary["iqm"], summary["profile"]
    for row in summary["envs"].values():
        del row["by_difficulty"]
    (tmp_path / "episodes.jsonl").write_text((folder / "episodes.jsonl").read_text())
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    watched = Watched(browser, write_report(tmp_path))
    assert watched.page.locator("#measures tbody tr").count() == 3
    assert watched.trouble == []
    watched.page.close()
