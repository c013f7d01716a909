"""The page and the picture of the credit bench, from the rows that are there; what was not run is printed so."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

HALF_WIDTH = 0.03
"""Half of the 95 % interval of a paired difference that a cell should have at most."""
Variant = tuple[str, float, float]
"""Arm, penalty, learning rate."""


def quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t."""
    return float(stats.t.ppf(0.975, freedom))


def paired(ours: dict[int, float], theirs: dict[int, float]) -> tuple[list[float], float, float]:
    """Return the differences of the seeds that both have, their mean, and half of its 95 % interval by Student's t."""
    both = [ours[seed] - theirs[seed] for seed in sorted(ours) if seed in theirs]
    if len(both) < 2:
        return both, float(np.mean(both)) if both else math.nan, math.nan
    return both, float(np.mean(both)), quantile(len(both) - 1) * float(np.std(both, ddof=1)) / math.sqrt(len(both))


def seeds_needed(differences: Sequence[float]) -> int:
    """Return how many seeds would bring the interval to the wanted half-width, at the spread seen so far."""
    spread = float(np.std(differences, ddof=1))
    number = 2
    while quantile(number - 1) * spread / math.sqrt(number) > HALF_WIDTH:
        number += 1
    return number


def by_variant(rows: Sequence[dict[str, Any]], setting: str, seeds: range) -> dict[Variant, dict[int, dict[str, Any]]]:
    """Return the rows of a setting by variant and seed."""
    found: dict[Variant, dict[int, dict[str, Any]]] = {}
    for row in rows:
        if row["setting"] == setting and row["seed"] in seeds:
            found.setdefault((row["arm"], row["penalty"], row["lr"]), {})[row["seed"]] = row
    return found


def best(rows: Sequence[dict[str, Any]], setting: str, arm: str, tuning: range) -> Variant | None:
    """Return the variant of an arm with the highest mean success over tuning seeds; None where none was tuned."""
    found = {v: by for v, by in by_variant(rows, setting, tuning).items() if v[0] == arm}
    return max(found, key=lambda v: (np.mean([r["success"] for r in found[v].values()]), v[1:])) if found else None


def training(rows: Sequence[dict[str, Any]], setting: str, arms: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each variant that was run, and for each arm that was not, against GRPO at its best."""
    from credit import TUNING

    tuning = range(TUNING, 1 << 30)
    found = by_variant(rows, setting, range(TUNING))
    chosen = best(rows, setting, "grpo", tuning)
    base = chosen if chosen in found else next((v for v in sorted(found) if v[0] == "grpo"), None)
    table: list[dict[str, Any]] = []
    for arm in arms:
        variants = sorted(v for v in found if v[0] == arm)
        if not variants:
            table.append({"arm": arm, "run": False})
        for variant in variants:
            by = found[variant]
            row = {"arm": arm, "run": True, "penalty": variant[1], "lr": variant[2], "seeds": len(by)}
            row |= {name: float(np.mean([r[name] for r in by.values()])) for name in ("success", "tokens", "entropy")}
            row["late"] = float(np.mean([np.mean(r["train"][-5:]) for r in by.values()]))
            row["best"] = variant == best(rows, setting, arm, tuning)
            if base and variant != base:
                for name, of in (
                    ("difference", lambda r: r["success"]),
                    ("late_difference", lambda r: np.mean(r["train"][-5:])),
                ):
                    ours, theirs = ({seed: float(of(r)) for seed, r in found[v].items()} for v in (variant, base))
                    row[name] = paired(ours, theirs)
            table.append(row)
    return table


def percent(value: float, sign: str = "") -> str:
    """Return a share in percentage points."""
    return f"{100 * value:{sign}.1f}"


def training_lines(table: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of a setting's training runs."""
    columns = (
        "credit",
        "penalty",
        "learning rate",
        "seeds",
        "success",
        "- GRPO, 95 % interval",
        "in the last 5 steps of training",
    )
    columns += ("- GRPO, 95 % interval", "tokens", "entropy")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in table:
        if not row["run"]:
            lines.append(f"| `{row['arm']}` | not run | | | | | | | | |")
            continue
        cells = [
            f"`{row['arm']}`",
            f"{row['penalty']:g}",
            f"{row['lr']:g}",
            str(row["seeds"]),
            percent(row["success"]) + " %",
        ]
        cells += [said(row["difference"]) if "difference" in row else "(base)", percent(row["late"]) + " %"]
        cells += [said(row["late_difference"]) if "late_difference" in row else "(base)"]
        cells += [f"{row['tokens'] / 1e3:.0f} k", f"{row['entropy']:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def said(difference: tuple[list[float], float, float]) -> str:
    """Return a paired difference in words: its interval, and how many seeds it would take where that is too wide."""
    values, mean, half = difference
    if not values:
        return "no seed in common"
    if len(values) < 2:
        return f"{percent(mean, '+')} (one seed)"
    needed = "" if half <= HALF_WIDTH else f"; needs {seeds_needed(values)} seeds"
    return f"{percent(mean, '+')} ({percent(mean - half, '+')} to {percent(mean + half, '+')}{needed})"


def efficiency_lines(measured: Any) -> list[str]:
    """Return the table of what each credit carries."""
    lines = ["| credit | efficiency | over GRPO's |", "|---|---|---|"]
    for row in measured.table():
        value, low, high = row["efficiency"]
        ratio = "1" if row["credit"] == "grpo" else "{:.2f} ({:.2f} to {:.2f})".format(*row["ratio"])
        lines.append(f"| {row['credit']} | {value:.3f} ({low:.3f} to {high:.3f}) | {ratio} |")
    for k in (1, 4, 16, 64):
        lines.append(f"| Q - V by {k} + {k} continuations at every turn | {measured.branch_efficiency(k):.3f} | |")
    return lines


def where_lines(measured: Any) -> list[str]:
    """Return the table of where credits carry what they carry."""
    credits = ("grpo", "gigpo, state", "state_td")
    lines = [f"| turns | of all | of E[A^2] | {' | '.join(credits)} |", "|---" * (3 + len(credits)) + "|"]
    for row in measured.where(credits):
        cells = [row["kind"], f"{percent(row['turns'])} %", f"{percent(row['power'])} %"]
        for value, low, high in (row[name] for name in credits):
            cells.append(f"{value:.3f} ({low:.3f} to {high:.3f})" if high <= 1 else f"{value:.3f} (from {low:.3f})")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def ladder_lines(out: Path) -> list[str]:
    """Return the table of the ladder, which is computed once."""
    from credit_ladder import CREDITS, GROUPS, SIZE, table

    path = out / "ladder.json"
    if not path.exists():
        path.write_text(json.dumps(table()))
    lines = [f"{GROUPS} groups of {SIZE} in each case.", "", f"| ladder | success | {' | '.join(CREDITS)} |"]
    lines.append("|---" * (2 + len(CREDITS)) + "|")
    for row in json.loads(path.read_text()):
        cells = [row["case"], f"{percent(row['success'])} %", *(f"{row[name]:.3f}" for name in CREDITS)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def write(out: Path, page: Path) -> None:
    """Write PAGE.svg, and put the tables between the two marks of PAGE.md (a page without marks gets them at its end)."""
    from credit import ARMS, SETTINGS, lines
    from credit_efficiency import Measured, files

    rows = lines(out / "train.jsonl")
    text: list[str] = []
    measured = {name: Measured(out, name) for name in SETTINGS if files(out, name)[1].exists()}
    for name in SETTINGS:
        text += [f"### {name}: efficiency", ""]
        if name in measured:
            found = measured[name]
            text += [f"{len(found.rows)} turns of {len(found.members)} groups.", "", *efficiency_lines(found), ""]
            text += ["By kind of turn:", "", *where_lines(found), ""]
        else:
            text += ["Not run.", ""]
        text += [f"### {name}: training", ""]
        table = training(rows, name, list(ARMS))
        text += [*(training_lines(table) if any(row["run"] for row in table) else ["Not run."]), ""]
    text += ["### a ladder, whose advantages are known", "", *ladder_lines(out), ""]
    path, (first, last) = page.with_suffix(".md"), ("<!-- tables -->", "<!-- end of the tables -->")
    old = path.read_text() if path.exists() else ""
    if first not in old:
        old += f"\n{first}\n{last}\n"
    head, tail = old.split(first)[0], old.split(last)[1]
    path.write_text(head + first + "\n\n" + "\n".join(text) + last + tail)
    draw(page.with_suffix(".svg"), {name: m.table() for name, m in measured.items()}, rows)
    print(f"{path}, {page.with_suffix('.svg')}")


def draw(path: Path, efficiency: dict[str, list[dict[str, Any]]], rows: Sequence[dict[str, Any]]) -> None:
    """Draw efficiencies with their intervals, and differences of success to GRPO."""
    import matplotlib as mpl
    from credit import ARMS, SETTINGS
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "credit"
    figure = Figure(figsize=(9, 0.4 * max([8, *(len(t) for t in efficiency.values())])), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, table in efficiency.items():
        values = np.array([row["efficiency"] for row in table])  # [credits, 3]
        places = np.arange(len(table))
        low, high = values[:, 0] - values[:, 1], values[:, 2] - values[:, 0]
        left.errorbar(values[:, 0], places, xerr=np.maximum([low, high], 0), fmt="o", label=name)
        left.set_yticks(places, [row["credit"] for row in table], fontsize=7)
    left.invert_yaxis()
    left.set_xlabel("efficiency, 95 % interval")
    place, labels = 0, list[str]()
    for name in SETTINGS:
        for row in training(rows, name, list(ARMS)):
            if row["run"] and "difference" in row and len(row["difference"][0]) > 1:
                _, mean, half = row["difference"]
                right.errorbar([100 * mean], [place], xerr=[100 * half], fmt="o", color="C1")
                labels.append(
                    f"{name}: {row['arm']}, penalty {row['penalty']:g}, lr {row['lr']:g}, n = {len(row['difference'][0])}"
                )
                place += 1
    right.set_yticks(range(place), labels, fontsize=7)
    right.axvline(0, color="grey", linewidth=1)
    right.invert_yaxis()
    right.set_xlabel("success - GRPO, percentage points")
    FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None})
