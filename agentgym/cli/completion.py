"""Print a script that completes commands and flags in your shell.

agentgym completion bash > ~/.local/share/bash-completion/completions/agentgym
agentgym completion zsh > ~/.zfunc/_agentgym      with ~/.zfunc in fpath
"""

import argparse
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from agentgym.cli.flags import flags_of, parser
from agentgym.options import Positional


@dataclass(frozen=True)
class Config:
    """Options of `agentgym completion`."""

    shell: Positional[Literal["bash", "zsh", "tcsh"]] = "bash"
    """The shell that the script is for."""


def run(config: Config) -> int:
    """Print the script, which shtab generates from the flags of every command."""
    from agentgym.cli import COMMANDS

    root = argparse.ArgumentParser("agentgym")
    commands = root.add_subparsers()
    for name, (module, purpose) in COMMANDS.items():
        command = importlib.import_module(module)
        flags = flags_of(getattr(command, "FLAGS", command.Config))
        commands.add_parser(name, help=purpose, parents=[parser(flags, positionals=True)], conflict_handler="resolve")
    complete: Callable[..., str] = importlib.import_module("shtab").complete  # it has no types
    print(complete(root, config.shell))
    return 0
