"""How many sampled tokens a credit takes to reach GRPO's final success, as a ratio to GRPO, paired by seed."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from credit_report import Variant, best, by_variant, not_run, percent

WINDOW = 5
"""Steps of training whose mean success is one point of a curve."""
DRAWS = 2000
Floats = npt.NDArray[np.float64]


def curve(rows: Sequence[dict[str, Any]]) -> tuple[Floats, Floats]:
    """Return by step, from step `WINDOW` on, the tokens sampled so far and the success of the last steps: means over runs.

    Both have shape [steps - WINDOW + 1]; the tokens are those of the window's end.
    """
    success = successes(rows)
    steps = min(len(row["train"]) for row in rows)
    tokens = np.mean([np.cumsum(row["tokens_by_step"][:steps]) for row in rows], axis=0)
    return tokens[-len(success) :], success


def successes(rows: Sequence[dict[str, Any]]) -> Floats:
    """Return by step, from step `WINDOW` on, the success of the last steps: means over runs, [steps - WINDOW + 1]."""
    steps = min(len(row["train"]) for row in rows)
    window = min(WINDOW, steps)
    return np.convolve(np.nanmean([row["train"][:steps] for row in rows], axis=0), np.ones(window) / window, mode="valid")


def reached(tokens: Floats, success: Floats, target: float) -> float:
    """Return how many tokens it took until the success was first at the target, by a line between steps; inf if never."""
    above = np.flatnonzero(success >= target)
    if not len(above):
        return math.inf
    place = int(above[0])
    if place == 0:
        return float(tokens[0])
    share = (target - success[place - 1]) / (success[place] - success[place - 1])
    return float(tokens[place - 1] + share * (tokens[place] - tokens[place - 1]))


def ratio(ours: Sequence[dict[str, Any]], grpo: Sequence[dict[str, Any]]) -> float:
    """Return our tokens to GRPO's last point over GRPO's own, both counted to the first time that a curve is there."""
    base = curve(grpo)
    target = float(base[1][-1])
    return reached(*curve(ours), target) / reached(*base, target)


def compared(ours: dict[Any, dict[str, Any]], grpo: dict[Any, dict[str, Any]]) -> dict[str, Any] | None:
    """Return the ratio over the runs that both have, its 95 % interval by a bootstrap over pairs; None without a pair."""
    both = [key for key in sorted(ours) if key in grpo and all("tokens_by_step" in by[key] for by in (ours, grpo))]
    if not both:
        return None
    mine, theirs = ([by[key] for key in both] for by in (ours, grpo))
    chance = np.random.default_rng(0)
    draws = [chance.integers(len(both), size=len(both)) for _ in range(DRAWS if len(both) > 1 else 0)]
    ratios = [ratio([mine[n] for n in draw], [theirs[n] for n in draw]) for draw in draws]
    interval = (
        tuple(float(value) for value in np.quantile(ratios, [0.025, 0.975], method="inverted_cdf")) if ratios else None
    )
    ends = [float(curve(rows)[1][-1]) for rows in (mine, theirs)]
    tokens = [float(curve(rows)[0][-1]) for rows in (mine, theirs)]
    return {"pairs": len(both), "ratio": ratio(mine, theirs), "interval": interval, "ends": ends, "tokens": tokens}


def chosen(rows: Sequence[dict[str, Any]], setting: str, arm: str) -> Variant | None:
    """Return the variant of an arm that is compared: as its tuning seeds chose, else the one with the most runs."""
    from credit import TUNING

    found = {variant: by for variant, by in by_variant(rows, setting, range(TUNING)).items() if variant[0] == arm}
    tuned = best(rows, setting, arm, range(TUNING, 1 << 30))
    return tuned if tuned in found else max(found, key=lambda v: (len(found[v]), v), default=None)


def tokens_lines(rows: Sequence[dict[str, Any]], setting: str, arms: Sequence[str]) -> list[str]:
    """Return the table of a setting; nothing where GRPO was not run with its tokens by step."""
    from credit import TUNING

    found, variants = by_variant(rows, setting, range(TUNING)), {arm: chosen(rows, setting, arm) for arm in arms}
    base = variants.get("grpo")
    if base is None or not any("tokens_by_step" in row for row in found[base].values()):
        return []
    columns = (
        "credit",
        "pairs",
        "final success",
        "GRPO's",
        "tokens per run",
        "GRPO's",
        "tokens to GRPO's final success, ratio",
    )
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    missing: list[str] = []
    for arm, variant in variants.items():
        row = compared(found[variant], found[base]) if variant and arm != "grpo" else None
        if row:
            cells = [f"`{arm}`", str(row["pairs"]), *(f"{percent(end)} %" for end in row["ends"])]
            cells += [*(f"{number / 1e3:.0f} k" for number in row["tokens"]), in_words(row)]
            lines.append(f"| {' | '.join(cells)} |")
        elif arm != "grpo":
            missing.append(arm)
    return lines + not_run(missing)


def in_words(row: dict[str, Any]) -> str:
    """Return a ratio in words."""
    value, *bounds = (f"{n:.2f}" if n < math.inf else "not reached" for n in (row["ratio"], *(row["interval"] or ())))
    return f"{value} ({' to '.join(bounds)})" if bounds else f"{value} (one pair)"
