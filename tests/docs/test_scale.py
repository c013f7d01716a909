"""The arithmetic of results/what_has_run.md: its products are right, and what they multiply was measured."""

import re
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "results"
UNITS = {"µs": 1e-6, "kB": 1e3, "GB": 1e9, "s": 1.0}
VALUE = r"\**([\d,.]+)\**(?: (µs|kB|GB|s)\b)?"
TABLE = (RESULTS / "what_has_run.md").read_text().partition("## 64 GPUs and 10,000 environments")[2].partition("\n## ")[0]
SUMS = re.findall(rf"{VALUE} (x|/) {VALUE}[a-z ]*= {VALUE}", TABLE)


def number(digits: str, unit: str) -> float:
    return float(digits.replace(",", "")) * UNITS.get(unit, 1.0)


def test_products_and_quotients_are_right() -> None:
    assert len(SUMS) >= 7
    for a, of_a, sign, b, of_b, result, unit in SUMS:
        left, right = number(a, of_a), number(b, of_b)
        computed = left * right if sign == "x" else left / right
        assert number(result, unit) == pytest.approx(computed, rel=0.07), f"{a} {sign} {b} = {result}"


@pytest.mark.parametrize(
    "section, rows",
    [
        ("What a turn costs the process that plays", ["114 µs", "130 µs", "33 kB"]),
        ("Steps a second over genuine ALFWorld", ["31,541 a second"]),
        ("Browser", ["memory for each of eight environments | 93 MiB"]),
    ],
)
def test_what_is_multiplied_was_measured(section: str, rows: list[str]) -> None:
    measured = (RESULTS / "benchmarks.md").read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    for row in rows:
        assert row in measured
        assert row.rpartition("| ")[2].split()[0] in TABLE
