"""Write a run as one self-contained HTML page: curves, results by task type, episodes turn by turn.

agentgym view runs/demo                 a training run or an evaluation: writes runs/demo/report.html
agentgym view runs/eval.jsonl           a file of episodes: writes runs/eval.html
agentgym view logs/arith.eval           a log: inspect_ai's .eval file, a Harbor job's folder, ATIF documents
agentgym view runs/demo --open          and opens it in the browser
"""

import webbrowser
from dataclasses import dataclass

from agentgym.errors import BadConfig
from agentgym.options import Positional
from agentgym.report.html import write_report


@dataclass(frozen=True)
class Config:
    """Options of `agentgym view`."""

    run: Positional[str]
    """Folder of a run, a file of episodes, or a log."""
    open: bool = False
    """Open the page in the browser."""
    episodes: int = 300
    """Maximum number of episodes on the page; if there are more, it shows a sample that prefers failures, and says so."""


def run(config: Config) -> int:
    """Write the page and print its path.

    Raises:
        BadConfig: --episodes is below 1.
    """
    if config.episodes < 1:
        raise BadConfig(f"--episodes is {config.episodes}; expected at least 1")
    path = write_report(config.run, limit=config.episodes)
    print(path)
    if config.open and not webbrowser.open(path.resolve().as_uri()):
        print("no browser could be started here: open the file yourself")
    return 0
