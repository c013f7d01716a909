"""The `agentgym` command: a table of subcommands, each a module imported only when it is called.

A command is one file `agentgym/cli/NAME.py` and one line in `COMMANDS`. The file defines

- `Config`: one flat frozen dataclass with a doc line under each field. Each field is a flag, except that a field annotated
  `Positional[…]` is a positional argument. A field `NAME_options: Options` takes `--NAME.KEY VALUE`;
- `run(config) -> int`: does the work and returns the exit code; an error of `OUR_ERRORS` is printed as one line;
- a module docstring, which `--help` shows above the flags: a sentence, then examples;
- if the flags' defaults depend on an argument (such as a recipe), also `read(arguments) -> Config`, which calls
  `read_flags` with `default=`.
"""

import errno
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import ModuleType

from agentgym.cli.flags import read_flags
from agentgym.core.beside import leave_folder
from agentgym.core.garbage import uncollected
from agentgym.core.screen import printable
from agentgym.errors import BadConfig, BadData, EpisodeOver, Fault, MissingExtra, UnknownName, no_such

COMMANDS: dict[str, tuple[str, str]] = {
    # name: (module, summary)
    "envs": ("agentgym.cli.envs", "list the environments, or show the card of one"),
    "play": ("agentgym.cli.play", "play an environment yourself, or watch a policy play it"),
    "new": ("agentgym.cli.new", "start a package with an environment of yours"),
    "check": ("agentgym.cli.check", "check an environment against the contract"),
    "package": ("agentgym.cli.package", "package an environment for OpenEnv, verifiers or NeMo Gym"),
    "doctor": ("agentgym.cli.doctor", "show what is installed, what is missing and how to get it"),
    "init-policy": ("agentgym.cli.init_policy", "make a small policy and tokenizer from an environment's own text"),
    "train": ("agentgym.cli.train", "train an agent by a recipe"),
    "sft": ("agentgym.cli.sft", "imitate stored episodes"),
    "qualify": ("agentgym.cli.qualify", "find out what a training server computes"),
    "export": ("agentgym.cli.export", "write episodes as Parquet or ATIF, or tasks as Harbor's folders"),
    "import": ("agentgym.cli.import_logs", "read logs of Harbor, inspect_ai and ATIF as episodes"),
    "eval": ("agentgym.cli.eval", "measure an agent in one environment or many"),
    "compare": ("agentgym.cli.compare", "compare two evaluations task by task"),
    "curves": ("agentgym.cli.curves", "draw the curves of many training runs in one picture"),
    "leaderboard": ("agentgym.cli.leaderboard", "write evaluations of the same tasks as one table"),
    "rescore": ("agentgym.cli.rescore", "judge recorded episodes by another verifier or other rewards"),
    "serve": ("agentgym.cli.serve", "serve an environment, a model to other agents, or a retriever"),
    "index": ("agentgym.cli.index", "make an index of documents to search in"),
    "swe": ("agentgym.cli.swe", "make software engineering tasks, write and score predictions"),
    "completion": ("agentgym.cli.completion", "print a script that completes commands and flags in your shell"),
    "view": ("agentgym.cli.view", "write a run as one HTML page"),
    "watch": ("agentgym.cli.watch", "follow runs live, in the browser or the terminal"),
}

OUR_ERRORS = (UnknownName, BadConfig, BadData, EpisodeOver, MissingExtra, Fault)

EXAMPLES = """examples:
  agentgym envs                                  what there is to play
  agentgym play guessnumber --seed 3             play it yourself
  agentgym check my_module:me/MyEnv-v0           is my environment sound?
  agentgym train household                       train an agent on the CPU
  agentgym COMMAND --help                        every flag of a command
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code: 2 for a known error, 130 for Ctrl-C, 141 for a closed output pipe."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    leave_folder()
    try:
        if text := _information(words):
            print(text)
            return 0
        with uncollected():
            module, config = _read(words)
        return module.run(config)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:  # the pipe's reader (`| head`) has closed: not an error, but nothing more can be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (*OUR_ERRORS, OSError) as error:
        print(f"error: {printable(_explained(error))}", file=sys.stderr)
        return 2


def _explained(error: Exception) -> str:
    """Return an error's message. For a system error this is `FILE: REASON`, with advice if the disk is full."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    where = "" if error.filename is None else f"{error.filename}: "
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    advice = ". Everything written before is kept: free some space, then run the same command again" if full else ""
    return f"{where}{error.strerror}{advice}"


def _information(arguments: list[str]) -> str:
    """Return the output of `--help` (also without arguments) or `--version`; empty if the arguments name a command."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return _usage()
    if arguments[0] in ("-V", "--version", "version"):
        from agentgym import __version__

        return f"agentgym {__version__}"
    return ""


def _read(arguments: list[str]) -> tuple[ModuleType, object]:
    """Return the module of a command and its parsed arguments.

    Raises:
        UnknownName: the command is unknown.
        BadConfig: the command is not implemented in this version.
        ModuleNotFoundError: the command's module needs a missing package.
    """
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        raise UnknownName(no_such("command", name, COMMANDS, "`agentgym --help` lists all."))
    try:
        module = importlib.import_module(COMMANDS[name][0])
    except ModuleNotFoundError as error:
        if error.name == COMMANDS[name][0]:
            raise BadConfig(f"this version of agentgym has no `{name}` yet") from None
        raise
    read = vars(module).get("read")
    if read:
        return module, read(rest)
    return module, read_flags(module.Config, rest, command=name, description=module.__doc__)


def _usage() -> str:
    lines = [f"  {name:<13}{what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(["usage: agentgym COMMAND ...", "", "commands:", *lines, "", EXAMPLES])
