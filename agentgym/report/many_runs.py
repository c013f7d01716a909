"""Curves of many training runs in one image: a line for each setting, with a band over its seeds."""

# matplotlib is typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agentgym.core.screen import printable
from agentgym.errors import BadConfig, BadData, MissingExtra, how_to_install, no_such
from agentgym.report.figures import INK, save_figure, style_axes
from agentgym.report.plots import running_mean
from agentgym.report.run_folder import RunFolder, open_run

NOT_SETTINGS = ("seed", "out", "threads", "checkpoint_every", "keep_episodes", "model")
"""Settings in which runs of one curve may differ."""
COLORS = ("#2563c9", "#c2610c", "#2c8a4b", "#9b3bb0", "#b3261e", "#5b6472", "#0f7f8c", "#8a6d00")
DASHES = ("solid", "dashed", "dotted", "dashdot")


@dataclass(frozen=True, slots=True)
class Curve:
    """A metric averaged over the runs with one setting, at the steps that all of them have."""

    label: str
    runs: int
    steps: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    """Lowest value among the runs, at each step."""
    high: tuple[float, ...]
    """Highest value among the runs, at each step."""


def curves(folders: Sequence[str | Path], metric: str, by: Sequence[str] = (), smooth: int = 1) -> list[Curve]:
    """Return a curve for each group of runs with equal settings.

    Runs with equal values of the settings `by` (such as `credit.name`) share a curve. By default `by` is every setting that
    differs between runs, except NOT_SETTINGS. `smooth` is the width of each run's running mean in steps.

    Raises:
        BadConfig: a run has no such metric or setting, or the runs of a curve have no step in common.
    """
    runs = [open_run(folder) for folder in folders]
    settings = [_settings(run) for run in runs]
    known = {name for values in settings for name in values}
    for name in by:
        if name not in known:
            raise BadConfig(no_such("setting of these runs:", name, sorted(known)))
    different = {name for name in known if len({str(values.get(name)) for values in settings}) > 1}
    names = list(by) or sorted(different - {*NOT_SETTINGS})
    grouped: dict[str, list[dict[float, float]]] = {}
    for run, values in zip(runs, settings, strict=True):
        label = ", ".join(f"{name} {values.get(name, '-')}" for name in names) or "all runs"
        grouped.setdefault(printable(label), []).append(_series(run, metric, smooth))
    return [_curve(label, series, metric) for label, series in sorted(grouped.items())]


def draw(found: Sequence[Curve], metric: str, path: str | Path) -> Path:
    """Draw curves into a PNG file and return its path.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import PercentFormatter
    except ImportError as error:
        raise MissingExtra(f"plots need matplotlib: {how_to_install('train')}") from error
    figure = Figure(figsize=(9, 5), dpi=150, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for number, curve in enumerate(found):
        color, dash = COLORS[number % len(COLORS)], DASHES[number // len(COLORS) % len(DASHES)]
        label = f"{curve.label} ({curve.runs} {'run' if curve.runs == 1 else 'runs'})"
        axes.plot(curve.steps, curve.mean, color=color, linestyle=dash, linewidth=2, label=label)
        axes.fill_between(curve.steps, curve.low, curve.high, color=color, alpha=0.15, linewidth=0)
    if metric.partition("/")[0].startswith("success"):
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    style_axes(axes, f"{printable(metric)}: mean of the runs, band from the lowest to the highest")
    legend = figure.legend(loc="outside lower center", ncols=min(len(found), 2), frameon=False, labelcolor=INK, fontsize=9)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return save_figure(figure, Path(path))


def _settings(run: RunFolder) -> dict[str, object]:
    """Return a run's settings by dotted name.

    Raises:
        BadData: the configuration is not TOML.
    """
    try:
        return dict(_flat(tomllib.loads(run.config or "")))
    except tomllib.TOMLDecodeError as error:
        raise BadData(f"config.toml of {run.name} is not TOML ({error})") from error


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterable[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(cast("dict[str, object]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _series(run: RunFolder, metric: str, smooth: int) -> dict[float, float]:
    rows: list[dict[str, Any]] = [row for row in run.metrics if row.get("phase") != "sft"]
    pairs = [(row["step"], row.get(metric)) for row in rows]
    measured = [(float(x), float(y)) for x, y in pairs if isinstance(y, int | float) and math.isfinite(y)]
    if not measured:
        names = {name for row in rows for name, value in row.items() if isinstance(value, int | float)}
        raise BadConfig(no_such(f"metric of {run.name}:", metric, sorted(names - {"step", "x"})))
    steps, values = zip(*measured, strict=True)
    return dict(zip(steps, running_mean(list(values), smooth), strict=True))


def _curve(label: str, series: Sequence[Mapping[float, float]], metric: str) -> Curve:
    steps = sorted(set.intersection(*({*one} for one in series)))
    if not steps:
        raise BadConfig(f"the runs of {label!r} have {metric} at no common step; name runs that were measured alike")
    columns = [[one[step] for one in series] for step in steps]
    mean = tuple(sum(column) / len(column) for column in columns)
    return Curve(label, len(series), tuple(steps), mean, tuple(map(min, columns)), tuple(map(max, columns)))
