"""Draw the curves of many training runs in one picture: a line for each setting, a band over its seeds.

agentgym curves runs/grpo-* runs/gigpo-*                          success on held-out tasks, a line for each credit
agentgym curves runs/* --by credit.name --metric entropy --out entropy.png
"""

from dataclasses import dataclass
from pathlib import Path

from agentgym.errors import BadConfig
from agentgym.options import Positional
from agentgym.report.many_runs import curves, draw


@dataclass(frozen=True)
class Config:
    """Options of `agentgym curves`."""

    runs: Positional[tuple[str, ...]]
    """Folders of training runs."""
    metric: str = "success_valid"
    """Metric to draw, by its name in metrics.jsonl."""
    by: tuple[str, ...] = ()
    """Settings that distinguish the lines, such as credit.name or lr; by default all that differ, except seed and folder."""
    smooth: int = 1
    """Width of each run's running mean, in steps."""
    out: str = "curves.png"
    """The picture to write."""


def run(config: Config) -> int:
    """Draw the picture and print its path.

    Raises:
        BadConfig: an option is invalid.
    """
    if Path(config.out).is_dir() or not Path(config.out).parent.is_dir():
        raise BadConfig(f"--out is {config.out}; expected the name of a file in a folder that exists")
    if not config.runs:
        raise BadConfig("no runs are named; expected folders of training runs, for example runs/grpo-0 runs/grpo-1")
    if config.smooth < 1:
        raise BadConfig(f"--smooth is {config.smooth}; expected at least 1")
    found = curves(config.runs, config.metric, config.by, config.smooth)
    for curve in found:
        low, high = 100 * curve.low[-1], 100 * curve.high[-1]
        end = f"{curve.mean[-1]:.4g} ({curve.low[-1]:.4g} to {curve.high[-1]:.4g})"
        if config.metric.startswith("success"):
            end = f"{100 * curve.mean[-1]:.1f} % ({low:.1f} to {high:.1f})"
        print(f"{curve.label}: {end} at step {curve.steps[-1]:.0f}, {curve.runs} runs")
    print(draw(found, config.metric, config.out))
    return 0
