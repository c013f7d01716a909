"""Write a run as one HTML page that needs nothing else: curves, results by task type, episodes turn by turn.

agentgym view runs/demo                 a training run or an evaluation: writes runs/demo/report.html
agentgym view runs/eval.jsonl           a file of episodes: writes runs/eval.html
agentgym view runs/demo --open          and opens it in the browser
"""

import webbrowser
from dataclasses import dataclass

import tyro

from agentgym.errors import BadConfig
from agentgym.report.html import write_report


@dataclass(frozen=True)
class Config:
    """What to write."""

    run: tyro.conf.Positional[str]
    """Folder of a run, or a file of episodes."""
    open: bool = False
    """Open the page in the browser."""
    episodes: int = 300
    """Most episodes on the page; of more, a sample that prefers failures is shown, and the page says so."""


def run(config: Config) -> int:
    """Write the page and say where it is."""
    if config.episodes < 1:
        raise BadConfig(f"--episodes is {config.episodes}; expected at least 1")
    path = write_report(config.run, limit=config.episodes)
    print(path)
    if config.open and not webbrowser.open(path.resolve().as_uri()):
        print("no browser could be started here: open the file yourself")
    return 0
