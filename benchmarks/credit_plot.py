"""The picture of the credit bench: efficiencies, differences of success to GRPO, and success by step of training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


def draw(path: Path, efficiency: dict[str, list[dict[str, Any]]], rows: Sequence[dict[str, Any]]) -> None:
    """Draw what there is, each number with its 95 % interval."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "credit"
    figure = Figure(figsize=(10, 0.27 * max([18, *(len(t) for t in efficiency.values())])), layout="constrained")
    panels = figure.subplot_mosaic("ab;ac", height_ratios=(1, 2))
    efficiencies(panels["a"], efficiency)
    differences(panels["b"], rows)
    curves(panels["c"], rows)
    FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None})


def efficiencies(axes: Any, efficiency: dict[str, list[dict[str, Any]]]) -> None:
    """Draw the efficiency of each credit."""
    for name, table in efficiency.items():
        values = np.array([row["efficiency"] for row in table])  # [credits, 3]
        places = np.arange(len(table))
        low, high = values[:, 0] - values[:, 1], values[:, 2] - values[:, 0]
        axes.errorbar(values[:, 0], places, xerr=np.maximum([low, high], 0), fmt="o", markersize=4, label=name)
        axes.set_yticks(places, [row["credit"] for row in table], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("efficiency: 1 is the exact advantage", fontsize=8)
    axes.set_title("what a credit says of a turn", fontsize=9)
    axes.grid(axis="x", alpha=0.25)


def differences(axes: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Draw each arm's success minus GRPO's, paired by seed."""
    from credit import ARMS, SETTINGS
    from credit_report import training

    names = {"difference": "unseen tasks", "late_difference": "last 5 steps of training"}
    labels = list[str]()
    for setting in SETTINGS:
        for row in training(rows, setting, list(ARMS)):
            if not row["run"] or len(row.get("difference", [[]])[0]) < 2:
                continue
            for shift, color, name in zip((-0.12, 0.12), ("C0", "C1"), names, strict=True):
                _, mean, half = row[name]
                place, label = [len(labels) + shift], None if labels else names[name]
                axes.errorbar([100 * mean], place, xerr=[100 * half], fmt="o", color=color, markersize=4, label=label)
            labels.append(f"{row['arm']}, penalty {row['penalty']:g}\n{setting}, {len(row['difference'][0])} pairs")
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.axvline(0, color="grey", linewidth=1)
    axes.set_xlabel("success - GRPO, percentage points", fontsize=8)
    axes.set_title("what a policy learns by it, paired by seed", fontsize=9)
    axes.grid(axis="x", alpha=0.25)
    if labels:
        axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=2, frameon=False)


def curves(axes: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Draw the mean success of each arm by step, over the seeds that all of these arms have."""
    from credit import ARMS, SETTINGS, TUNING
    from credit_report import by_variant
    from credit_tokens import chosen

    for setting in SETTINGS:
        found = by_variant(rows, setting, range(TUNING))
        variants = [v for arm in ARMS if (v := chosen(rows, setting, arm)) is not None]
        common = sorted(set.intersection(*(set(found[v]) for v in variants))) if variants else []
        for variant in variants if common else ():
            values = np.array([found[variant][seed]["train"] for seed in common])  # [seeds, steps]
            mean = 100 * values.mean(axis=0)
            axes.plot(np.arange(1, len(mean) + 1), mean, label=f"{variant[0]}, {setting}, {len(common)} seeds")
    axes.set_xlabel("step of training", fontsize=8)
    axes.set_ylabel("success, %", fontsize=8)
    axes.grid(alpha=0.25)
    if axes.lines:
        axes.legend(fontsize=7)
