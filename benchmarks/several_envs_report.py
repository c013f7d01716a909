"""The tables and the picture of a policy in six environments, from the rows that are there."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from several_envs import JOINT, LADDER, LEVELS, RECIPE, WARM

from agentgym.evaluate.statistics import Interval, mean_interval, paired_difference
from agentgym.trainers.config.recipe_files import read_recipe

FIRST, LAST = "<!-- tables -->", "<!-- end of the tables -->"
Rows = Sequence[dict[str, Any]]
Outcomes = dict[str, list[float]]


def outcomes(rows: Rows, run: str, env: str) -> Outcomes:
    """Return the outcomes of a run's policies in an environment by seed and task, faults left out."""
    return {
        f"{row['seed']}/{task}": [float(digit)]
        for row in rows
        if row["run"] == run and env in row["success"]
        for task, digit in enumerate(row["success"][env])
        if digit != "-"
    }


def share(rows: Rows, run: str, env: str) -> str:
    """Return a success as text."""
    found = outcomes(rows, run, env)
    return f"{100 * mean_interval(found, resamples=200).mean:.1f} %" if found else "not run"


def difference(rows: Rows, one: str, other: str, env: str) -> Interval | None:
    """Return the success of one run minus another's in an environment, paired by seed and task; None without both."""
    ours, theirs = outcomes(rows, one, env), outcomes(rows, other, env)
    return paired_difference(ours, theirs) if ours and theirs else None


def points(interval: Interval | None) -> str:
    """Return a difference in percentage points as text."""
    if interval is None:
        return "not run"
    return f"{100 * interval.mean:+.1f} ({100 * interval.low:+.1f} to {100 * interval.high:+.1f})"


def tokens(rows: Rows, run: str, env: str) -> str:
    """Return the mean number of tokens that a run sampled in an environment as text."""
    found = [row["tokens"].get(env, 0) for row in rows if row["run"] == run]
    return f"{np.mean(found) / 1000:.0f} k" if found else "not run"


def at(env: str) -> str:
    """Return what an environment's success at its own difficulty is called in a row."""
    return f"{env} {LEVELS[0]}" if env == LADDER else env


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as Markdown."""
    rows = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(row)} |" for row in rows] + [""]


def joint_lines(rows: Rows, envs: Sequence[str]) -> list[str]:
    """Return the joint run against a run in each environment."""
    body: list[list[str]] = []
    for env in envs:
        shares = [share(rows, run, at(env)) for run in (WARM, env, JOINT)]
        spent = [tokens(rows, run, env) for run in (env, JOINT)]
        body.append([f"`{env}`", *shares, points(difference(rows, JOINT, env, at(env))), *spent])
    head = ["environment", "warm start", "its own run", "joint run", "joint - own", "tokens, own", "tokens, joint"]
    return table(head, body)


def transfer_lines(rows: Rows, envs: Sequence[str]) -> list[str]:
    """Return what each run changes in each environment, against the warm start."""
    body = [
        [f"`{run}`", *(points(difference(rows, run, WARM, at(env))) for env in envs)]
        for run in (*envs, JOINT)
        if any(row["run"] == run for row in rows)
    ]
    return table(["trained on", *envs], body)


def ladder_lines(rows: Rows) -> list[str]:
    """Return a difficulty that moves against fixed ones."""
    names = {
        WARM: "warm start",
        LADDER: f"fixed at {LEVELS[0]}",
        f"{LADDER}-{LEVELS[1]}": f"fixed at {LEVELS[1]}",
        f"{LADDER}-window": "moved by `window`",
    }
    body = [
        [
            text,
            *(share(rows, run, f"{LADDER} {level}") for level in LEVELS),
            "" if run == WARM else tokens(rows, run, LADDER),
        ]
        for run, text in names.items()
    ]
    moved, fixed = f"{LADDER}-window", f"{LADDER}-{LEVELS[1]}"
    body.append(
        [
            f"moved - fixed at {LEVELS[1]}",
            *(points(difference(rows, moved, fixed, f"{LADDER} {level}")) for level in LEVELS),
            "",
        ]
    )
    return table(["difficulty in training", *(f"success at {level}" for level in LEVELS), "tokens"], body)


def write(rows: Rows, page: Path) -> None:
    """Write PAGE.svg, and put the tables between the two marks of PAGE.md."""
    envs = [env.name for env in read_recipe(RECIPE).mix]
    parts: dict[str, list[str]] = {
        "A joint run against a run in each": joint_lines(rows, envs),
        "What a run changes elsewhere": transfer_lines(rows, envs),
        "Difficulty": ladder_lines(rows),
    }
    text = "\n".join(line for title, lines in parts.items() for line in (f"### {title}", "", *lines))
    path = page.with_suffix(".md")
    old = path.read_text() if path.exists() else f"{FIRST}\n{LAST}\n"
    path.write_text(old.split(FIRST)[0] + FIRST + "\n\n" + text + LAST + old.split(LAST)[1])
    draw(page.with_suffix(".svg"), envs, lambda run, env: difference(rows, run, WARM, at(env)))
    print(f"{path}, {page.with_suffix('.svg')}")


def draw(path: Path, envs: Sequence[str], changed: Callable[[str, str], Interval | None]) -> None:
    """Draw the transfer matrix: points gained over the warm start, a row for each run; bold where the interval is off 0."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "several"
    runs = [run for run in (*envs, JOINT) if any(changed(run, env) for env in envs)]
    found = [[changed(run, env) for env in envs] for run in runs]
    values = np.array([[np.nan if cell is None else 100 * cell.mean for cell in row] for row in found])
    figure = Figure(figsize=(7.2, 0.5 * len(runs) + 1.6), layout="constrained")
    axes = figure.add_subplot()
    most = max(10.0, float(np.nanmax(np.abs(values)))) if values.size else 10.0
    axes.imshow(values, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
    for row, cells in enumerate(found):
        for column, cell in enumerate(cells):
            if cell is not None:
                sure, deep = cell.low > 0 or cell.high < 0, abs(100 * cell.mean) > 0.6 * most
                axes.text(
                    column, row, f"{100 * cell.mean:+.1f}", ha="center", va="center", fontsize=9,
                    fontweight="bold" if sure else "normal", color="white" if deep else "black",
                )  # fmt: skip
    axes.set_xticks(range(len(envs)), envs, fontsize=9)
    axes.set_yticks(range(len(runs)), [f"{run} (joint)" if run == JOINT else run for run in runs], fontsize=9)
    axes.set_xlabel("played", fontsize=9)
    axes.set_ylabel("trained on", fontsize=9)
    axes.set_title("success after RL minus the warm start's, percentage points", fontsize=10)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None})
