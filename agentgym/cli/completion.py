"""Print a script that completes commands and flags in your shell.

agentgym completion bash > ~/.local/share/bash-completion/completions/agentgym
agentgym completion zsh > ~/.zfunc/_agentgym      with ~/.zfunc in fpath
"""

import importlib
from dataclasses import dataclass
from typing import Literal

import tyro

from agentgym.cli.flags import unchecked


@dataclass(frozen=True)
class Config:
    """Which shell."""

    shell: tyro.conf.Positional[Literal["bash", "zsh", "tcsh"]] = "bash"
    """The shell that the script is for."""


def run(config: Config) -> int:
    """Print the script; tyro makes it from the dataclasses that the flags are read from."""
    from agentgym.cli import COMMANDS

    modules = {name: importlib.import_module(module) for name, (module, _) in COMMANDS.items()}
    configs = {name: unchecked(getattr(module, "FLAGS", module.Config)) for name, module in modules.items()}
    tyro.extras.subcommand_cli_from_dict(configs, prog="agentgym", args=["--tyro-print-completion", config.shell])
    return 0  # it has printed and exited
