"""Learning curves as images."""

# matplotlib is typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from pathlib import Path
from typing import Any

from agentgym.errors import MissingExtra, how_to_install
from agentgym.report.figures import INK, SOFT, save_figure, style_axes
from agentgym.report.run_folder import RunFolder, open_run

BLUE, ORANGE = "#2563c9", "#c2610c"
SMOOTH = 5  # steps in the running mean of the training curve


def learning_curve(run_dir: str | Path) -> Path:
    """Draw success over steps from `metrics.jsonl`; return the path of the image, `learning_curve.png` in the run folder.

    Training success is drawn raw and as a running mean, held-out success as a line with dots. Horizontal lines mark success
    before and after the SFT warm start and at the end, if `summary.json` has these numbers.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import PercentFormatter
    except ImportError as error:
        raise MissingExtra(f"learning curves need matplotlib: {how_to_install('train')}") from error
    run = open_run(run_dir)
    figure = Figure(figsize=(8, 4.5), dpi=150, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _curves(axes, run)
    _levels(axes, run.summary or {})
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    style_axes(axes, _title(run))
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, labelcolor=INK, fontsize=9)
    return save_figure(figure, Path(run_dir) / "learning_curve.png")


def _curves(axes: Any, run: RunFolder) -> None:
    train, valid = (_series(run, key) for key in ("success_train", "success_valid"))
    if train:
        steps, values = zip(*train, strict=True)
        axes.plot(steps, values, color=ORANGE, alpha=0.3, linewidth=1)
        axes.plot(steps, running_mean(list(values), SMOOTH), color=ORANGE, linewidth=2, label="training")
    if valid:
        steps, values = zip(*valid, strict=True)
        axes.plot(steps, values, color=BLUE, linewidth=2, marker="o", markersize=5, label="held out")
    if not train and not valid:
        axes.text(0.5, 0.5, "no success was measured yet", transform=axes.transAxes, ha="center", color=SOFT)


def _levels(axes: Any, summary: dict[str, object]) -> None:
    names = {"success_before": "before", "success_sft": "after SFT warm start", "success_after": "after training"}
    levels = [(summary.get(key), name) for key, name in names.items()]
    free = -1.0  # labels of close levels are stacked upwards from here
    for value, name in sorted((float(v), n) for v, n in levels if isinstance(v, (int, float)) and v == v):
        axes.axhline(value, color=SOFT, linewidth=1, linestyle=(0, (5, 4)))
        free = max(free, value)
        beside = {"transform": axes.get_yaxis_transform(), "ha": "left", "va": "center"}
        axes.text(1.01, free, f"{100 * value:.1f} % {name}", color=SOFT, fontsize=8.5, **beside)
        free += 0.045


def _series(run: RunFolder, key: str) -> list[tuple[float, float]]:
    rows = [(row["step"], row.get(key)) for row in run.metrics if row.get("phase") != "sft"]
    return [(step, value) for step, value in rows if isinstance(value, (int, float)) and value == value]


def running_mean(values: list[float], width: int) -> list[float]:
    """Return the running mean: each value is averaged with equally many neighbours on both sides, at most `width // 2`."""
    means: list[float] = []
    for i in range(len(values)):
        reach = min(width // 2, i, len(values) - 1 - i)
        near = values[i - reach : i + reach + 1]
        means.append(sum(near) / len(near))
    return means


def _title(run: RunFolder) -> str:
    credit = (run.summary or {}).get("credit")
    return f"Success · {run.name}{f' ({credit})' if credit else ''}"
