"""Losses side by side on what their papers claim: eight paired seeds, a policy of a few thousand numbers, no GPU.

python benchmarks/losses.py --out runs/losses.jsonl                           train what is missing; resumes where it stopped
python benchmarks/losses.py --out runs/losses.jsonl --report                  print the tables of what is there

A row of `--out` is one loss in one setting: all seeds at once, at most 60 CPU seconds. All losses of a setting start from
the same warm starts and get the same prompts. `refuel` and `turn_dpo` are left out: they compare continuations of
one turn, which tests/trainers/losses/test_refuel.py and test_turn_dpo.py have.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

sys.path.append(str(Path(__file__).parent))

from losses_settings import ARMS, SETTINGS, run

SEEDS = 8
STUDENT = 2.365  # 97.5 % quantile of Student's t with 7 degrees of freedom
MEASURES: Mapping[str, str] = {
    "plans": "Entropy in nats per token at three points of training, and pass@k on new prompts",
    "collapse": "Collapse: success at most half of its best, and pass@1 on new prompts",
    "stale": "Success on new prompts, trained on tokens of weights that are 0, 1 and 4 steps old",
}

Row = dict[str, Any]


def rows_of(path: Path) -> list[Row]:
    """Return the rows of a file of JSON lines; a last line cut off by a kill is left out."""
    lines = path.read_text().split("\n") if path.exists() else []
    whole = lines[:-1] if lines and lines[-1] else lines
    return [json.loads(line) for line in whole if line]


def train(out: Path, settings: Sequence[str], arms: Sequence[str]) -> None:
    """Run what has no row yet; a row of other settings or options counts as missing."""
    rows = rows_of(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for setting in settings:
        for arm in arms:
            about = {"about": asdict(SETTINGS[setting]), "options": dict(ARMS[arm])}
            if any((row["setting"], row["loss"]) == (setting, arm) and about.items() <= row.items() for row in rows):
                continue
            start = time.process_time()
            row = {**run(setting, arm, SEEDS), **about, "cpu_seconds": round(time.process_time() - start, 1)}
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{setting} {arm}: {row['cpu_seconds']} CPU s", flush=True)


def collapsed(row: Row) -> npt.NDArray[np.bool_]:
    """Return by seed: the success of the last tenth of the steps is at most half of the best tenth's."""
    tenths = np.array([part.mean(0) for part in np.array_split(np.array(row["success"]), 10)])
    return tenths[-1] <= tenths.max(0) / 2


def entropy_at(row: Row, share: float) -> npt.NDArray[np.float64]:
    """Return the entropy by seed, the mean of five steps that end at a share of the steps."""
    curve = np.array(row["entropy"])
    end = max(5, round(share * len(curve)))
    return curve[end - 5 : end].mean(0)


def entropy_when(row: Row, level: float = 0.4) -> npt.NDArray[np.float64]:
    """Return the entropy by seed at the first step where the success of five steps reaches a level, else the last one.

    It compares losses at equal success: one that learns more slowly has more entropy at every step for that alone.
    """
    success, entropy = np.array(row["success"]), np.array(row["entropy"])
    means = np.stack([success[end - 5 : end].mean(0) for end in range(5, len(success) + 1)])
    reached = means >= level
    first = np.where(reached.any(0), reached.argmax(0), len(means) - 1) + 4
    return entropy[first, np.arange(entropy.shape[1])]


def interval(values: npt.NDArray[np.float64], scale: float, digits: int) -> str:
    """Return mean and 95 % interval of Student over the seeds."""
    half = STUDENT * values.std(ddof=1) / len(values) ** 0.5
    return f"{scale * values.mean():.{digits}f} ± {scale * half:.{digits}f}"


def against(row: Row, base: Row, measure: Callable[[Row], npt.NDArray[np.float64]], scale: float, digits: int) -> str:
    """Return the paired difference to `clip` with its interval, bold if the interval excludes 0."""
    if row is base:
        return "—"
    difference = measure(row) - measure(base)
    text = interval(difference, scale, digits)
    half = STUDENT * difference.std(ddof=1) / len(difference) ** 0.5
    sign = "+" if difference.mean() > 0 else ""
    return f"**{sign}{text}**" if abs(difference.mean()) > half else f"{sign}{text}"


def passed(k: int) -> Callable[[Row], npt.NDArray[np.float64]]:
    """Return the measure pass@k on new prompts."""
    return lambda row: np.array(row["pass_at"][str(k)])


def name_of(row: Row) -> str:
    """Return the cell of a loss with its options."""
    return f"`{row['loss']}`" + "".join(f", {name} {value}" for name, value in row["options"].items())


def plans_table(rows: Mapping[str, Row]) -> list[str]:
    """Return entropy and pass@k, each with its difference to `clip`."""
    base = rows["clip"]
    warm = {k: np.mean(base["warm"][str(k)]) for k in (1, 4, 16)}
    points = (0.25, 0.5, 1.0)
    lines = [
        f"Warm start: entropy {np.mean(base['entropy'][0]):.2f}, "
        + ", ".join(f"pass@{k} {100 * value:.1f} %" for k, value in warm.items())
        + ".",
        "",
        "| loss | entropy at 25 % | 50 % | 100 % | at 50 %, less `clip` | at 40 % success, less `clip` "
        "| pass@1 | less `clip` | pass@16 | less `clip` |",
        "|---" * 10 + "|",
    ]
    for row in rows.values():
        cells = [interval(entropy_at(row, point), 1, 3) for point in points]
        cells += [against(row, base, lambda r: entropy_at(r, 0.5), 1, 3), against(row, base, entropy_when, 1, 3)]
        for k in (1, 16):
            cells += [interval(passed(k)(row), 100, 1), against(row, base, passed(k), 100, 1)]
        lines.append(f"| {name_of(row)} | {' | '.join(cells)} |")
    return lines


def collapse_table(rows: Mapping[str, Row]) -> list[str]:
    """Return the number of seeds that collapsed, and what is left."""
    base = rows["clip"]
    lines = [
        f"Warm start: pass@1 {100 * np.mean(base['warm']['1']):.1f} %.",
        "",
        "| loss | seeds of 8 that collapsed | pass@1 at the end | less `clip` | entropy at the end |",
        "|---|---|---|---|---|",
    ]
    for row in rows.values():
        cells = [str(int(collapsed(row).sum())), interval(passed(1)(row), 100, 1), against(row, base, passed(1), 100, 1)]
        lines.append(f"| {name_of(row)} | {' | '.join([*cells, interval(entropy_at(row, 1.0), 1, 3)])} |")
    return lines


def stale_table(ages: Mapping[int, Mapping[str, Row]]) -> list[str]:
    """Return pass@1 by staleness, and how much the oldest tokens cost."""
    oldest = max(ages)
    heads = [f"staleness {age} | less `clip`" for age in ages]
    lines = [
        f"Warm start: pass@1 {100 * np.mean(ages[0]['clip']['warm']['1']):.1f} %.",
        "",
        f"| loss | {' | '.join(heads)} | {oldest} less 0 |",
        "|---" * (2 * len(ages) + 2) + "|",
    ]
    for name, row in ages[0].items():
        cells: list[str] = []
        for rows in ages.values():
            cells += [interval(passed(1)(rows[name]), 100, 1), against(rows[name], rows["clip"], passed(1), 100, 1)]
        cells.append(against(ages[oldest][name], row, passed(1), 100, 1))
        lines.append(f"| {name_of(row)} | {' | '.join(cells)} |")
    return lines


def report(rows: Sequence[Row]) -> str:
    """Return the tables of all settings with a row for every loss that is there."""
    named = {setting: {row["loss"]: row for row in rows if row["setting"] == setting} for setting in SETTINGS}
    ages = {SETTINGS[name].staleness: found for name, found in named.items() if name.startswith("stale-") and found}
    common = set.intersection(*map(set, ages.values())) if ages else set[str]()
    ages = {age: {name: found[name] for name in ARMS if name in common} for age, found in ages.items()}
    parts: list[str] = []
    tables = {"plans": plans_table, "collapse": collapse_table}
    for setting, title in MEASURES.items():
        found = {name: named[setting][name] for name in ARMS if name in named[setting]} if setting in tables else {}
        if found and "clip" in found:
            parts += [f"## `{setting}`", "", f"{title}.", "", *tables[setting](found), ""]
        elif setting == "stale" and 0 in ages and "clip" in common:
            parts += [f"## `{setting}`", "", f"{title}.", "", *stale_table(ages), ""]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/losses.jsonl"))
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--losses", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--report", action="store_true", help="print the tables of what is there, and train nothing")
    config = parser.parse_args()
    torch.set_num_threads(1)
    if not config.report:
        train(config.out, config.settings, config.losses)
    print(report(rows_of(config.out)))


if __name__ == "__main__":
    main()
