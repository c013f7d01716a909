"""Style of all plots, and the function that writes them."""

# matplotlib is typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from pathlib import Path
from typing import Any

INK, SOFT, LINE = "#1c1f23", "#626973", "#e2e3de"


def style_axes(axes: Any, title: str) -> None:
    """Give axes over a run's steps a title and the style of all plots."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step", color=SOFT)
    axes.set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold", parse_math=False)
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=SOFT, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(LINE)


def save_figure(figure: Any, path: Path) -> Path:
    """Write a figure as PNG, atomically, and return its path."""
    part = path.with_name(path.name + ".part")
    figure.savefig(part, format="png")
    return part.replace(path)
