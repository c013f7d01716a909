"""Help of `agentgym train`: its switches, then every field of a run in groups, at most 80 columns wide."""

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast, get_args, get_origin

from agentgym.cli.help_text import docs
from agentgym.trainers.branching.interface import BRANCHINGS
from agentgym.trainers.config.checks import types
from agentgym.trainers.config.settings import TABLES
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import CREDITS
from agentgym.trainers.generation.interface import GENERATIONS
from agentgym.trainers.learners.interface import LEARNERS
from agentgym.trainers.loggers.interface import LOGGERS
from agentgym.trainers.losses.interface import LOSSES
from agentgym.trainers.needs.interface import NEEDS
from agentgym.trainers.rewards.interface import REWARDS
from agentgym.trainers.samplers.interface import SAMPLERS
from agentgym.trainers.selections.interface import SELECTIONS

WIDTH = 80
INDENT = 6
USAGE = """\
usage: agentgym train [RECIPE] [--plan [--on GPU] [--json]] [OPTIONS]
       agentgym train --resume RUN [--steps MORE]
       agentgym train --list

Train an agent by a recipe: a TOML file of the package, or your own.

examples:
  agentgym train household
      a small policy from scratch, on the CPU
  agentgym train household-1.5b --plan --on 80GB
      whether a run of a pretrained model fits the GPU of another machine
"""
SWITCHES = {
    "RECIPE": "The run to start from: a name (see --list) or a .toml file of your own. The flags below override it, and "
    "--help after it shows its values as defaults.",
    "--list": "List the recipes.",
    "--resume RUN": "Continue the run in this folder with its own configuration. Where and how it runs is never taken from "
    "the folder (engine, workers, loggers, MODULE:NAME, files, sandboxes): if it sets any, the error has the whole command.",
    "--resume RUN --steps MORE": "Continue a run, finished or not, until it has taken MORE updates in all.",
    "--plan": "Print how much memory and time the run would take and whether it fits, without starting it.",
    "--plan --on GPU": "The same for the GPU of another machine: 24GB, 80GB, 2x80GB.",
    "--plan --json": "The same as JSON.",
    "--watch": "Serve a page that follows the run (docs/guides/watch.md); its address is the first line.",
}
STAGES = {
    "sampler": SAMPLERS,
    "generation": GENERATIONS,
    "branching": BRANCHINGS,
    "reward": REWARDS,
    "select": SELECTIONS,
    "needs_options": NEEDS,
    "credit": CREDITS,
    "loss": LOSSES,
    "learner": LEARNERS,
    "loggers": LOGGERS,
}
"""Registry of allowed names, by field."""
METAVARS = {int: "INT", float: "FLOAT", str: "TEXT"}


def help_text(default: Mapping[str, Any]) -> str:
    """Return the whole help, with the values of a run as defaults."""
    lines = [USAGE, "options of the command:"]
    for name, text in SWITCHES.items():
        lines += [f"  {name}", *_wrapped(text)]
    for kind, table in TABLES.items():
        purpose = str(kind.__doc__).rstrip(".")
        lines += ["", *textwrap.wrap(f"{f'[{table}] ' if table else ''}{purpose}:", WIDTH)]
        for field in dataclasses.fields(kind):
            if field.name != "envs":
                lines += _entry(kind, field.name, default[field.name])
    return "\n".join(lines)


def _entry(kind: type, name: str, default: Any) -> Iterator[str]:
    text = docs(kind)[name]
    if name.endswith("_options"):
        yield f"  --{name.removesuffix('_options')}.KEY VALUE"
        value = " ".join(f"{key}={value}" for key, value in default.items())
    else:
        flag = f"--{name.replace('_', '-')}"
        yield from _flag(flag, types(TrainConfig)[name])
        value = " ".join(map(str, cast("tuple[object, ...]", default))) if isinstance(default, tuple) else str(default)
    if name in STAGES:
        text = f"{text} The package's: {', '.join(STAGES[name].names())}."
    yield from _wrapped(f"{text} (default: {value})" if value else text)


def _flag(flag: str, kind: Any) -> Iterator[str]:
    if kind is bool:
        yield f"  {flag}, --no-{flag[2:]}"
    elif get_origin(kind) is Literal:
        yield from textwrap.wrap(
            f"{flag} {{{','.join(get_args(kind))}}}", WIDTH - 4, initial_indent="  ", subsequent_indent=" " * INDENT
        )
    elif get_origin(kind) is tuple:
        yield f"  {flag} [{METAVARS.get(get_args(kind)[0], 'VALUE')} ...]"
    else:
        yield f"  {flag} {METAVARS.get(kind, 'VALUE')}"


def _wrapped(text: str) -> list[str]:
    space = " " * INDENT
    return textwrap.wrap(text, WIDTH, initial_indent=space, subsequent_indent=space, break_on_hyphens=False)
