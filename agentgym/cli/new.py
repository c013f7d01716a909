"""Create an installable package with your own environment: a class, tests, CI, a card and an entry point.

agentgym new frost-envs                                      frost/Frost-v0 in the folder frost-envs
agentgym new frost-envs --id frost/Lighthouse-v0 --out work/frost

`agentgym check` passes on it at once. Replace the class in env.py with yours, and check again after every change.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path

from agentgym import scaffold
from agentgym.options import Positional


@dataclass(frozen=True)
class Config:
    """Options of `agentgym new`."""

    name: Positional[str]
    """Name of the package, as `pip install` takes it: frost-envs."""
    id: str = ""
    """Id of the environment: NAMESPACE/Name-v0. By default named after the package."""
    out: str = ""
    """New or empty folder to write to. By default a folder with the package's name in the current folder."""


def run(config: Config) -> int:
    """Write the package, and print the next commands."""
    names = scaffold.names(config.name, config.id)
    folder = Path(config.out or config.name)
    for path in scaffold.write(names, folder):
        print(path)
    commands = (
        f"pip install -e {shlex.quote(f'{folder}[test]')}",
        f"agentgym check {names.id}",
        f"pytest {shlex.quote(str(folder))}",
    )
    print("\nnext:", *commands, sep="\n  ")
    return 0
