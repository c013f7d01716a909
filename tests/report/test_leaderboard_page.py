"""The page of a leaderboard in a real browser."""

from pathlib import Path
from typing import Any

import pytest
from conftest import ATTACKS, Watched  # pyright: ignore

from agentgym.report.leaderboard import write_leaderboard

Gap = tuple[float, float, float]


def row(name: str, rate: float, gaps: dict[str, Gap], faults: float = 0.0) -> dict[str, Any]:
    success = {"mean": rate, "low": rate - 0.07, "high": rate + 0.07, "tasks": 134, "episodes": 134, "faults": 0}
    return {
        "name": name,
        "model": "hf:runs/" + name,
        "success": success,
        "envs": {},
        "fault_share": faults,
        "not_comparable": "faults ended 5.0% of 134 episodes" if faults > 0.01 else "",
        "differences": {
            base: dict(zip(("mean", "low", "high"), gap, strict=True)) | {"units": 134, "p_value": 0.1}
            for base, gap in gaps.items()
        },
    }


def board(*, name: str = "alfworld@verl-agent") -> dict[str, Any]:
    entries = [
        row("gigpo", 0.81, {"grpo": (0.15, 0.08, 0.22)}),
        row(ATTACKS[0], 0.78, {"gigpo": (-0.03, -0.08, 0.02), "grpo": (0.12, 0.05, 0.19)}),
        row("grpo", 0.66, {"gigpo": (-0.15, -0.22, -0.08)}),
        row("lost", 0.9, {}, 0.05),
    ]
    options = {
        "temperature": {entry["name"]: 0.4 for entry in entries},
        "prompt": {entry["name"]: ATTACKS[2] for entry in entries},
    }
    fixed = {
        "protocol": name,
        "source": ATTACKS[1],
        "task_ids": "0123456789abcdef",
        "tasks": 134,
        "envs": ["rlvr/ALFWorld-v0"],
    }
    return {**fixed, "references": ["gigpo", "grpo"], "entries": entries, "options": options}


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (1400, "dark"), (390, "light"), (390, "dark")])
def test_the_page_shows_ranks_and_who_has_none(browser: Any, tmp_path: Path, width: int, scheme: str):
    watched = Watched(browser, write_leaderboard(board(), tmp_path / "board.html"), width, 900, scheme)
    lines = watched.page.locator(".board tbody tr")
    assert [text.split()[0] for text in lines.all_inner_texts()] == ["1", "2", "3", "–"]
    second_line = lines.nth(1).inner_text()
    assert ATTACKS[0] in second_line and second_line.count("told apart") == 2 and second_line.count("not told apart") == 1
    heads = watched.page.locator(".board thead").inner_text()
    assert "minus gigpo" in heads and "minus grpo" in heads
    assert "told apart" in lines.nth(2).inner_text() and "not comparable" in lines.nth(3).inner_text()
    assert "5.0% of 134" in watched.page.locator(".notice.trouble").inner_text()
    assert "0123456789abcdef" in watched.page.locator("#head").inner_text()
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
    assert watched.trouble == []
    watched.page.close()
