"""What tokens of older policies cost: Household at several `async_level`, paired by seed, on the credit bench's runs."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parent))

import credit
from credit_report import MEASURES, paired, percent

SETTING = "household"
ARMS = {"state_td": 1e-3, "gigpo": 2e-3}
"""Credits by the learning rate that the credit bench's tuning seeds chose for them, both without penalty."""
SHOWN = {
    "versions_behind": "versions behind, mean of all tokens",
    "mismatch_ess": "effective sample size, share of the tokens",
}
Runs = dict[int, dict[int, dict[str, Any]]]
"""By level and seed: the row of the run."""


def cells(arm: str, lr: float, seeds: Sequence[int], levels: Sequence[int]) -> list[credit.Cell]:
    """Return the runs, all levels of a seed one after another."""
    return [credit.Cell(SETTING, arm, 0.0, lr, seed, level) for seed in seeds for level in levels]


def found(out: Path, arm: str, lr: float) -> Runs:
    """Return the rows that are there, of seeds that are in comparisons."""
    runs: Runs = {}
    for row in credit.lines(out / "train.jsonl"):
        same = (row["setting"], row["arm"], row["penalty"], row["lr"]) == (SETTING, arm, 0.0, lr)
        if same and row["seed"] < credit.TUNING:
            runs.setdefault(row.get("level", 0), {})[row["seed"]] = row
    return dict(sorted(runs.items()))


def difference(runs: Runs, level: int, of: Any) -> tuple[int, float, float]:
    """Return of a level minus level 0: how many pairs there are, their mean, and half of its 95 % interval."""
    ours, theirs = ({seed: float(of(row)) for seed, row in runs[which].items()} for which in (level, 0))
    values, mean, half = paired(ours, theirs)
    return len(values), mean, half


def table(runs: Runs, before: float) -> list[str]:
    """Return the table of the page."""
    columns = ("k", "seeds", "versions behind", "effective sample size", "success before", "success after", "- k = 0")
    columns += ("in the last 5 steps of training", "- k = 0")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for level, by in runs.items():
        behind, size = (np.mean([row.get(name, other) for row in by.values()]) for name, other in
                        (("versions_behind", 0.0), ("mismatch_ess", 1.0)))  # fmt: skip
        cells = [str(level), str(len(by)), f"{behind:.2f}", f"{size:.4f}", f"{percent(before)} %"]
        for of in MEASURES.values():
            cells.append(f"{percent(float(np.mean([of(row) for row in by.values()])))} %")
            number, mean, half = difference(runs, level, of) if level and 0 in runs else (0, 0.0, 0.0)
            pairs = f", {number} pairs" if number != len(by) else ""
            interval = f" ({percent(mean - half, '+')} to {percent(mean + half, '+')}{pairs})" if number > 1 else ""
            cells.append(percent(mean, "+") + interval if number else "")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def draw(runs: Runs, before: float, path: Path) -> None:
    """Draw staleness, effective sample size and success by level: each run a dot, the mean a line."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "overlap"
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    panels = figure.subplots(1, 3)
    labels = {**SHOWN, "success": "success on 400 unseen houses, %"}
    for axes, (name, title) in zip(panels, labels.items(), strict=True):
        factor, other = (100 if name == "success" else 1), float(name == "mismatch_ess")
        means = [factor * float(np.mean([row.get(name, other) for row in by.values()])) for by in runs.values()]
        for level, by in runs.items():
            values = [factor * row.get(name, other) for row in by.values()]
            axes.plot(level + np.linspace(-0.12, 0.12, len(values)), values, "o", color="C0", alpha=0.35, markersize=4)
        axes.plot(list(runs), means, "-", color="C0", linewidth=1)
        if name == "success":
            axes.set_xticks(list(runs), [f"{level}\n{len(by)} runs" for level, by in runs.items()])
        axes.plot(list(runs), means, "D", color="C0", markersize=6)
        if name != "success":
            axes.set_xticks(list(runs))
        axes.set_xlabel("async_level k")
        axes.set_title(title, fontsize=9)
        axes.grid(alpha=0.25)
    panels[2].axhline(100 * before, color="grey", linewidth=1, linestyle="--")
    panels[2].annotate("warm start", (0, 100 * before), fontsize=8, color="grey", va="bottom")
    FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None})


def main(
    out: Path, arm: str, lr: float | None, seeds: Sequence[int], levels: Sequence[int], until: float, picture: Path | None
) -> dict[str, Any]:
    """Run what is missing, print the table, draw the picture, and return every run's row."""
    lr = lr or ARMS[arm]
    credit.train_all(cells(arm, lr, seeds, levels), out, until)
    runs, before = found(out, arm, lr), credit.warm_success(out, SETTING)
    print("\n".join(table(runs, before)), flush=True)
    if picture:
        draw(runs, before, picture)
    return {"before": before, "runs": json.loads(json.dumps(runs))}
