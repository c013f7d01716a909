"""The picture of the credit bench: efficiencies, differences of success to GRPO, and success by step of training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

WIDEST = 15
"""Percentage points that a difference is drawn up to; longer intervals are cut."""
CURVES = ("grpo", "gigpo", "state_td", "state_td-undiscounted", "oracle", "oracle-8", "oracle-4", "branch-td")
"""Arms whose success by step is drawn."""


def draw(path: Path, efficiency: dict[str, list[dict[str, Any]]], rows: Sequence[dict[str, Any]]) -> None:
    """Draw what there is, each number with its 95 % interval."""
    import matplotlib as mpl
    from credit import SETTINGS
    from credit_tokens import WINDOW
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "credit"
    found = [(name, same) for name in SETTINGS if (same := same_seeds(rows, name))]
    differences_shown = compared(rows)
    figure = Figure(figsize=(14, max(8.0, 2.2 * len(found), 0.3 * len(differences_shown))), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=(1.1, 1, 0.8))
    efficiencies(left.subplots(), efficiency)
    differences(middle.subplots(), differences_shown)
    panels = right.subplots(max(len(found), 1), 1, squeeze=False)[:, 0]
    panels[0].set_title(f"success in training, means of {WINDOW} steps", fontsize=9)
    panels[-1].set_xlabel("step of training", fontsize=8)
    colors = {arm: f"C{n}" for n, arm in enumerate(dict.fromkeys(arm for _, same in found for arm in same))}
    for panel, (name, same) in zip(panels, found, strict=False):
        curves(panel, name, same, colors)
    FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None})


def efficiencies(axes: Any, efficiency: dict[str, list[dict[str, Any]]]) -> None:
    """Draw the efficiency of each credit, the settings under each other."""
    for number, (name, table) in enumerate(efficiency.items()):
        values = np.array([row["efficiency"] for row in table])  # [credits, 3]
        places = np.arange(len(table)) + 0.16 * (number - (len(efficiency) - 1) / 2)
        low, high = values[:, 0] - values[:, 1], values[:, 2] - values[:, 0]
        bars = np.maximum([low, high], 0)
        axes.errorbar(values[:, 0], places, xerr=bars, fmt="o", markersize=3, linewidth=1, label=name)
        axes.set_yticks(np.arange(len(table)), [row["credit"] for row in table], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("efficiency: 1 is the exact advantage", fontsize=8)
    axes.set_title("what a credit says of a turn", fontsize=9)
    axes.grid(axis="x", alpha=0.25)
    if efficiency:
        axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.05), ncols=4, frameon=False)


def compared(rows: Sequence[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the variants that have at least two pairs with GRPO, by setting from the best to the worst."""
    from credit import ARMS, SETTINGS
    from credit_report import training

    found: list[tuple[str, dict[str, Any]]] = []
    for setting in SETTINGS:
        table = [row for row in training(rows, setting, list(ARMS)) if len(row.get("difference", [[]])[0]) > 1]
        found += [(setting, row) for row in sorted(table, key=lambda row: -row["difference"][1])]
    return found


def differences(axes: Any, rows: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Draw each arm's success minus GRPO's, paired by seed."""
    names = {"difference": "after training", "late_difference": "last 5 steps of training"}
    labels = list[str]()
    for setting, row in rows:
        for shift, color, name in zip((-0.14, 0.14), ("C0", "C1"), names, strict=True):
            _, mean, half = row[name]
            place, label = [len(labels) + shift], None if labels else names[name]
            axes.errorbar([100 * mean], place, xerr=[100 * half], fmt="o", color=color, markersize=3, label=label)
        how = f"lr {row['lr']:g}" + f", penalty {row['penalty']:g}" * (row["penalty"] > 0)
        labels.append(f"{setting}: {row['arm']}\n{how}, {len(row['difference'][0])} pairs")
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.set_xlim(-WIDEST, WIDEST)
    axes.axvline(0, color="grey", linewidth=1)
    axes.set_xlabel("success - GRPO, percentage points", fontsize=8)
    axes.set_title("what a policy learns by it, paired by seed", fontsize=9)
    axes.grid(axis="x", alpha=0.25)
    if labels:
        axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.05), ncols=2, frameon=False)


def same_seeds(rows: Sequence[dict[str, Any]], setting: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each arm of a setting, of the seeds that all of these have in common."""
    from credit import ARMS, TUNING
    from credit_report import by_variant
    from credit_tokens import chosen

    found = by_variant(rows, setting, range(TUNING))
    variants = [v for arm in ARMS if arm in CURVES and (v := chosen(rows, setting, arm)) is not None]
    common = sorted(set.intersection(*(set(found[v]) for v in variants))) if variants else []
    return {v[0]: [found[v][seed] for seed in common] for v in variants} if common else {}


def curves(axes: Any, setting: str, arms: dict[str, list[dict[str, Any]]], colors: dict[str, str]) -> None:
    """Draw the mean success of each arm by step."""
    from credit_tokens import successes

    for arm, rows in arms.items():
        mean, steps = 100 * successes(rows), min(len(row["train"]) for row in rows)
        axes.plot(np.arange(steps - len(mean), steps) + 1, mean, label=arm, color=colors[arm], linewidth=1.2)
    seeds = len(next(iter(arms.values())))
    axes.set_ylabel(f"{setting}, %\n{seeds} seeds", fontsize=7)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=6, ncols=2)
