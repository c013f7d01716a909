"""docs/reference/algorithms.md has the tested effect beside every method, and every number of it is in results/."""

import re
from pathlib import Path

import pytest

from agentgym.trainers.branching.interface import BRANCHINGS
from agentgym.trainers.credit.interface import CREDITS
from agentgym.trainers.generation.interface import GENERATIONS
from agentgym.trainers.losses.interface import LOSSES
from agentgym.trainers.rewards.interface import REWARDS
from agentgym.trainers.samplers.interface import SAMPLERS
from agentgym.trainers.selections.interface import SELECTIONS

ROOT = Path(__file__).parents[2]
SEAMS = {
    "Credit": CREDITS,
    "Losses": LOSSES,
    "Generations": GENERATIONS,
    "Selections": SELECTIONS,
    "Branching": BRANCHINGS,
    "Task samplers": SAMPLERS,
    "Rewards": REWARDS,
}
NUMBER = r"[+-]\d+\.\d+"
INTERVAL = re.compile(rf"({NUMBER})\(({NUMBER}),({NUMBER})\)$")
EFFECT = re.compile(rf"(the baseline|not shown|CPU time x[\d.]+\([\d.]+,[\d.]+\)|([`@\w]+ )?{NUMBER}\({NUMBER},{NUMBER}\))$")
ARMS = {
    "arpo": "branch-arpo",
    "aepo": "branch-aepo",
    "relative_future": "branch-future",
    "branch_td": "branch_td-alone",
    "treerl": "branch-uncertain",
    "sweet_head": "sweet",
}
"""Arms of the credit bench with another name than their credit."""


def effects(section: str) -> dict[str, str]:
    """Return the last cell of each row of a section's table, by the name in the first."""
    page = (ROOT / "docs/reference/algorithms.md").read_text()
    [body] = re.findall(rf"(?ms)^## {section}\n(.*?)(?=^## |\Z)", page)
    rows = [line.strip("|").split("|") for line in body.splitlines() if line.startswith("|")]
    assert rows[0] == ["name", "source", "settled by", "effect"]
    return {cells[0].strip("`"): cells[-1] for cells in rows[2:]}


@pytest.mark.parametrize("section", SEAMS)
def test_every_method_has_an_effect_or_says_that_none_was_shown(section: str) -> None:
    cells = effects(section)
    assert set(cells) == set(SEAMS[section].table)
    assert {name: cell for name, cell in cells.items() if not EFFECT.match(cell)} == {}


def test_methods_that_are_no_stage_have_one_too() -> None:
    assert {name: cell for name, cell in effects("Elsewhere").items() if not EFFECT.match(cell)} == {}


def test_effects_of_credits_are_those_of_the_bench() -> None:
    bench = (ROOT / "results/credit_bench.md").read_text()
    [shelf] = re.findall(r"(?ms)^\| - GRPO \| pairs \| over all steps of training \| after training \|.*?\n\n(?=- )", bench)
    for name, cell in effects("Credit").items():
        if name != "mars" and (match := INTERVAL.match(cell)):
            after = "{} ({} to {})".format(*match.groups())
            [row] = re.findall(rf"(?m)^\| `{ARMS.get(name, name)}` \|.*$", shelf)
            assert row.split(" | ")[3] == after, name


def test_effects_of_losses_are_those_of_the_benchmark() -> None:
    page = (ROOT / "results/benchmarks.md").read_text()
    [section] = re.findall(r"(?ms)^## Losses side by side\n(.*?)^## ", page)
    for name, cell in effects("Losses").items():
        if match := INTERVAL.search(cell):
            mean, low, high = map(float, match.groups())
            rows = re.findall(rf"(?m)^\| `{name}`(?:, [^|]*)? \|.*$", section)
            found = [tuple(map(float, pair)) for row in rows for pair in re.findall(r"([+-]?\d+\.\d+) ± (\d+\.\d+)", row)]
            assert (mean, round(high - mean, 3)) in found and mean - low == pytest.approx(high - mean), name
