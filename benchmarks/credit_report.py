"""The page and the picture of the credit bench, from the rows that are there; what was not run is printed so."""

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

HALF_WIDTH = 0.03
"""Half of the 95 % interval of a paired difference that a cell should have at most."""
Variant = tuple[str, float, float]
"""Arm, penalty, learning rate."""
Run = tuple[int, str]
"""Seed, and what its warm start is told by."""


def unseen(row: dict[str, Any]) -> float:
    """Return the success of a run's last policy on unseen tasks."""
    return float(row["success"])


def late(row: dict[str, Any]) -> float:
    """Return the success of a run's last five steps of training."""
    return float(np.mean(row["train"][-5:]))


MEASURES = {"success": unseen, "late": late}


def quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t."""
    return float(stats.t.ppf(0.975, freedom))


def paired(ours: Mapping[Any, float], theirs: Mapping[Any, float]) -> tuple[list[float], float, float]:
    """Return the differences of the runs that both have, their mean, and half of its 95 % interval by Student's t."""
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


def by_variant(rows: Sequence[dict[str, Any]], setting: str, seeds: range) -> dict[Variant, dict[Run, dict[str, Any]]]:
    """Return the rows of a setting by variant and run: only runs of one seed and one warm start are a pair."""
    found: dict[Variant, dict[Run, dict[str, Any]]] = {}
    for row in rows:
        if row["setting"] == setting and row["seed"] in seeds and not row.get("level", 0):
            found.setdefault((row["arm"], row["penalty"], row["lr"]), {})[row["seed"], row.get("warm", "")] = row
    return found


def best(rows: Sequence[dict[str, Any]], setting: str, arm: str, tuning: range) -> Variant | None:
    """Return the variant of an arm with the highest mean `score` over tuning seeds; None where none was tuned."""
    found = {v: by for v, by in by_variant(rows, setting, tuning).items() if v[0] == arm}
    return max(found, key=lambda v: (np.mean([score(r) for r in found[v].values()]), v[1:])) if found else None


def score(row: dict[str, Any]) -> float:
    """Return what a tuning run is chosen by: the mean of its two successes, which is surer than either."""
    return float(np.mean([of(row) for of in MEASURES.values()]))


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
            row["late"] = float(np.mean([MEASURES["late"](r) for r in by.values()]))
            row["best"] = variant == best(rows, setting, arm, tuning)
            if base and variant != base:
                for name, of in zip(("difference", "late_difference"), MEASURES.values(), strict=True):
                    row[name] = paired(*({seed: of(r) for seed, r in found[v].items()} for v in (variant, base)))
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
            continue
        cells = [
            f"`{row['arm']}`",
            f"{row['penalty']:g}",
            f"{row['lr']:g}",
            str(row["seeds"]),
            percent(row["success"]) + " %",
        ]
        cells += [in_words(row["difference"]) if "difference" in row else "(base)", percent(row["late"]) + " %"]
        cells += [in_words(row["late_difference"]) if "late_difference" in row else "(base)"]
        cells += [f"{row['tokens'] / 1e3:.0f} k", f"{row['entropy']:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines + not_run([row["arm"] for row in table if not row["run"]])


def not_run(arms: Sequence[str]) -> list[str]:
    """Return what stands under a table: the arms that were not run in its setting."""
    return ["", f"Not run: {', '.join(f'`{arm}`' for arm in arms)}."] if arms else []


def in_words(difference: tuple[list[float], float, float]) -> str:
    """Return a paired difference in words: its interval, and how many seeds it would take where that is too wide."""
    values, mean, half = difference
    if not values:
        return "no shared seed"
    if len(values) < 2:
        return f"{percent(mean, '+')} (one seed)"
    needed = "" if half <= HALF_WIDTH else f"; needs {seeds_needed(values)} seeds"
    return f"{percent(mean, '+')} ({percent(mean - half, '+')} to {percent(mean + half, '+')}{needed})"


def efficiency_lines(measured: Any) -> list[str]:
    """Return the table of what each credit carries."""
    lines = ["| credit | efficiency | relative to GRPO |", "|---|---|---|"]
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
            if row["power"] <= 0:  # nothing there to be said of
                cells.append("")
                continue
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


def tuning_lines(rows: Sequence[dict[str, Any]], setting: str, arms: Sequence[str]) -> list[str]:
    """Return the table of the runs that chose each arm's penalty and learning rate."""
    from credit import TUNING

    seeds = range(TUNING, 1 << 30)
    lines = [
        "| credit | penalty | learning rate | seeds | success | in the last 5 steps of training | chosen |",
        "|---" * 7 + "|",
    ]
    for arm in arms:
        for variant, by in sorted(by_variant(rows, setting, seeds).items()):
            if variant[0] == arm:
                success, late = (np.mean([of(row) for row in by.values()]) for of in MEASURES.values())
                cells = [f"`{arm}`", f"{variant[1]:g}", f"{variant[2]:g}", str(len(by)), f"{percent(success)} %"]
                cells += [f"{percent(late)} %", "yes" if variant == best(rows, setting, arm, seeds) else ""]
                lines.append(f"| {' | '.join(cells)} |")
    return lines if len(lines) > 2 else []


def pair_lines(rows: Sequence[dict[str, Any]], setting: str, arms: Sequence[str]) -> list[str]:
    """Return the table of each two arms, both as their tuning seeds chose."""
    from credit import TUNING

    found = by_variant(rows, setting, range(TUNING))
    chosen = [v for arm in arms if (v := best(rows, setting, arm, range(TUNING, 1 << 30))) in found]
    lines = ["| pair | shared seeds | success | in the last 5 steps of training |", "|---" * 4 + "|"]
    for first, second in itertools.combinations(chosen, 2):
        both = [paired(*({s: of(r) for s, r in found[v].items()} for v in (second, first))) for of in MEASURES.values()]
        lines.append(f"| `{second[0]}` - `{first[0]}` | {len(both[0][0])} | {in_words(both[0])} | {in_words(both[1])} |")
    return lines if len(lines) > 2 else []


def sections(page: str) -> dict[str, list[str]]:
    """Return the lines of each section of a page that begins with `### `, by its title."""
    found: dict[str, list[str]] = {}
    for part in page.split("\n### ")[1:]:
        title, _, text = part.partition("\n")
        found[title] = text.strip().split("\n")
    return found


def efficiency_of(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the table of `efficiency_lines` says, from the page."""
    row = re.compile(r"\| ([^|]+?) \| ([\d.]+) \(([\d.]+) to ([\d.]+)\) \| [^|]+ \|")
    matches = [match for line in lines if (match := row.fullmatch(line))]
    return [{"credit": match[1], "efficiency": tuple(float(match[n]) for n in (2, 3, 4))} for match in matches]


def training_section(rows: Sequence[dict[str, Any]], name: str, arms: Sequence[str]) -> list[str]:
    """Return the tables of a setting's training runs; nothing where there are none."""
    table = training(rows, name, arms)
    if not any(row["run"] for row in table):
        return []
    text = training_lines(table)
    if pairs := pair_lines(rows, name, arms):
        text += ["", "Each arm at its own penalty and learning rate, paired by seed:", "", *pairs]
    if tuned := tuning_lines(rows, name, arms):
        text += ["", "Tuning runs behind these choices, on seeds that are part of no comparison:", "", *tuned]
    return text


def together(stored: Path, new: Path) -> list[dict[str, Any]]:
    """Return the rows of both files, and write those of the second that the first lacks to its end."""
    from credit import append, lines

    def which(row: dict[str, Any]) -> tuple[object, ...]:
        return tuple(row.get(name) for name in ("setting", "arm", "penalty", "lr", "seed", "warm"))

    rows = {which(row): row for row in lines(stored)}
    for row in lines(new):
        if not row.get("level", 0) and which(row) not in rows:
            rows[which(row)] = row
            append(stored, row)
    return list(rows.values())


def write(out: Path, page: Path, stored: Path) -> None:
    """Write PAGE.svg, and put the tables between the two marks of PAGE.md (a page without marks gets them at its end).

    The rows are those of `out` and of the file `stored`, which holds all of them afterwards. A section that has none
    stays as it is on the page.
    """
    from credit import ARMS, SETTINGS
    from credit_efficiency import Measured, files
    from credit_plot import draw
    from credit_tokens import tokens_lines

    path, (first, last) = page.with_suffix(".md"), ("<!-- tables -->", "<!-- end of the tables -->")
    old = path.read_text() if path.exists() else ""
    if first not in old:
        old += f"\n{first}\n{last}\n"
    head, tail = old.split(first)[0], old.split(last)[1]
    known = sections(old.split(first)[1].split(last)[0])
    rows, new = together(stored, out / "train.jsonl"), dict[str, list[str]]()
    for name in SETTINGS:
        if files(out, name)[1].exists():
            found = Measured(out, name)
            text = [f"{len(found.rows)} turns of {len(found.members)} groups.", "", *efficiency_lines(found), ""]
            new[f"{name}: efficiency"] = [*text, "By kind of turn:", "", *where_lines(found)]
        new[f"{name}: training"] = training_section(rows, name, list(ARMS))
        new[f"{name}: tokens"] = tokens_lines(rows, name, list(ARMS))
    ladder = "a ladder, whose advantages are known"
    if ladder not in known or (out / "ladder.json").exists():
        new[ladder] = ladder_lines(out)
    titles = [f"{name}: {kind}" for name in SETTINGS for kind in ("efficiency", "training", "tokens")] + [ladder]
    text = {title: new.get(title) or known.get(title) or ["Not run."] for title in titles}
    tables = "\n".join(line for title in titles for line in (f"### {title}", "", *text[title], ""))
    path.write_text(head + first + "\n\n" + tables + last + tail)
    draw(page.with_suffix(".svg"), _efficiencies(text), rows)
    print(f"{path}, {page.with_suffix('.svg')}")


def picture(path: Path, page: Path, stored: Path) -> None:
    """Draw the picture of a page from its tables and its rows."""
    from credit import lines
    from credit_plot import draw

    draw(path, _efficiencies(sections(page.read_text(encoding="utf-8"))), lines(stored))


def _efficiencies(text: Mapping[str, Sequence[str]]) -> dict[str, list[dict[str, Any]]]:
    from credit import SETTINGS

    tables = {name: efficiency_of(text.get(f"{name}: efficiency", [])) for name in SETTINGS}
    return {name: table for name, table in tables.items() if table}
