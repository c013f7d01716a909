"""Train an agent by a recipe: a TOML file of the package, or your own (`agentgym train --help`)."""

import dataclasses
import importlib.util
import os
import sys
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym.cli.flags import filled, given_flags, read_settings
from agentgym.cli.train_screen import Screen
from agentgym.core.caller import Setting, quoted
from agentgym.core.folders import check_alone
from agentgym.core.garbage import uncollected
from agentgym.core.screen import announce, printable
from agentgym.errors import BadConfig, BadData, MissingExtra, how_to_install
from agentgym.trainers.config.recipe_files import for_others, read_recipe, recipe_values, recipes
from agentgym.trainers.config.train_config import TrainConfig, homemade
from agentgym.trainers.learners.interface import kind_of
from agentgym.trainers.model.memory import named
from agentgym.trainers.run import preflight
from agentgym.trainers.run.launch import LAUNCHER, LOST, end_with_launcher, launch, launched, leave, main_process


@dataclasses.dataclass(frozen=True)
class Config:
    """Parsed command line of `agentgym train`."""

    config: TrainConfig | None = None
    """Run to start; None if a run is resumed or the recipes are listed."""
    arguments: tuple[str, ...] = ()
    """Arguments as typed, for the processes of a distributed run."""
    resume: str = ""
    """Folder of the run to resume; empty for a new run."""
    steps: int | None = None
    """New number of steps of a resumed run; None keeps the old number."""
    processes: int | None = None
    """New number of processes of a resumed run; None keeps the old number."""
    settings: dict[str, object] = dataclasses.field(default_factory=dict[str, object])
    """Settings that say where and how to resume, by flag without dashes; these are never read from the folder."""
    list: bool = False
    """Print the recipes and stop."""
    plan: bool = False
    """Print the required memory and time and stop."""
    on: str = ""
    """GPUs to plan for, such as 80GB; by default those of this machine."""
    json: bool = False
    """Print the plan as JSON."""
    watch: bool = False
    """Serve the page of `agentgym watch` during the run."""


FLAGS = TrainConfig
"""Dataclass of the flags for shell completion."""


def read(arguments: Sequence[str]) -> Config:
    """Parse a recipe's name and the flags that override it, or `--resume FOLDER`, or `--list`.

    Raises:
        BadConfig: flags contradict each other or have wrong values.
        SystemExit: the help was printed.
    """
    words = list(arguments)
    help_flags = [word for word in words if word in ("-h", "--help")]
    watched = "--watch" in words
    words = [word for word in words if word != "--watch"]
    if "--list" in words:
        return Config(list=True)
    resume = _pop_flag(words, "--resume", "the folder of a run, for example --resume runs/demo")
    if resume and not help_flags:
        return dataclasses.replace(_resumed(resume, words, tuple(arguments)), watch=watched)
    on = _pop_flag(words, "--on", "the size of a GPU, for example --on 80GB")
    planned, as_json = "--plan" in words, "--json" in words
    for flag, parsed in (("--json", as_json), ("--on", on)):
        if parsed and not planned:
            raise BadConfig(f"{flag} goes with --plan")
    if on:
        named(on)  # validates it before torch is imported
    if planned and watched:
        raise BadConfig("--plan starts no run, so there is nothing to --watch")
    words = [word for word in words if word not in ("--plan", "--json", *help_flags)]
    name = words.pop(0) if words and not words[0].startswith("-") else ""
    default = recipe_values(name)
    if help_flags:
        from agentgym.cli.train_help import help_text

        print(help_text(default))
        raise SystemExit(0)
    learner = _pop_flag(list(words), "--learner", "a name, for example tinker:http://127.0.0.1:8000")
    default |= kind_of(learner).in_recipes if learner else {}
    parsed = given_flags(TrainConfig, words, command="train", default=default)
    default |= for_others(default, parsed.fields)
    config = filled(TrainConfig, parsed, default)
    if name in recipes():
        _check_kind(name, default, config)
    return Config(config, arguments=tuple(arguments), plan=planned, on=on, json=as_json, watch=watched)


def _pop_flag(words: list[str], flag: str, what: str) -> str:
    """Remove `FLAG VALUE` or `FLAG=VALUE` from the words and return the value; empty without the flag. Errors show `what`.

    Raises:
        BadConfig: the value is missing.
    """
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == flag:
            rest = words[place + 1 : place + 2]
            if not (value if equals else rest and not rest[0].startswith("-")):
                raise BadConfig(f"{flag} needs {what}")
            del words[place : place + (1 if equals else 2)]
            return value if equals else rest[0]
    return ""


def _resumed(folder: str, words: list[str], arguments: tuple[str, ...]) -> Config:
    numbers: dict[str, Any] = {}
    for name, example in (("steps", 200), ("processes", 4)):
        value = _pop_flag(words, f"--{name}", f"a number, for example --{name} {example}")
        if value and not (value.isascii() and value.isdigit()):
            raise BadConfig(f"{name} is {value!r}; expected a whole number")
        numbers[name] = int(value) if value else None
    settings = read_settings(
        words,
        "--resume continues the run with its own configuration; only --steps and --processes can be changed",
    )
    return Config(resume=folder, **numbers, settings=settings, arguments=arguments)


def _check_kind(name: str, recipe: Mapping[str, Any], config: TrainConfig) -> None:
    """Check that a pretrained model is not used with a recipe for a small policy trained from scratch.

    Raises:
        BadConfig: a pretrained model is used with such a recipe.
    """
    folder = preflight.model_folder(config.model)
    if recipe["model"] != "init" or folder == "init" or homemade(folder):
        return
    others = [other for other in recipes() if (own := read_recipe(other)).model != "init" and own.env == config.env]
    instead = f"Use {' or '.join(repr(other) for other in others)}" if others else "`agentgym train --list` shows others"
    raise BadConfig(
        f"recipe {name!r} is for a small policy trained from scratch (lr {recipe['lr']:g}, {recipe['turn_tokens']} tokens "
        f"per reply, prompt {recipe['prompt']!r}), and {config.model} is another kind of model. "
        f"{instead}: it accepts --model too"
    )


def run(config: Config) -> int:
    """Train with a line per step and print a table at the end, or print the recipes or a plan.

    Raises:
        BadConfig: --plan is used with a remote learner.
    """
    console = Console(highlight=False)
    if config.list:
        console.print(_recipes())
        return 0
    if config.config:
        preflight.check_names(config.config)  # without torch
    need_training()
    warn_in_one_line()
    changed: dict[str, Any] = {"steps": config.steps, "processes": config.processes, "settings": config.settings}
    settings = preflight.extended(config.resume, **changed) if config.resume else config.config
    assert settings is not None
    if config.plan:
        if not settings.learner_kind.in_memory:
            raise BadConfig(f"--plan counts the memory of this machine, and learner {settings.learner!r} trains on a server")
        planned = preflight.check_run(settings, fresh=False)
        settings = planned.config
        announce(f"planning a run of {settings.model} on {config.on or 'this machine'}; loading torch")
        quiet()
        from agentgym.cli.plan import show

        return show(planned, console, on=config.on, as_json=config.json)
    fresh = None if config.resume else preflight.check_run(settings, fresh=main_process())
    if not launched():
        check_alone(Path(config.resume), preflight.RUN) if fresh is None else preflight.check_reachable(fresh.config)
    folder, engine = config.resume or settings.out, settings.engine_kind.name
    line = f"{folder}: {settings.where}, model {settings.model}, engine {engine}; loading torch"
    with _page_server(config, folder, console):
        if settings.processes > 1 and not launched():
            console.print(line, markup=False, soft_wrap=True)  # once, before each process starts like this one
            return launch(("train", *config.arguments), settings.processes, folder)
        end_with_launcher()
        screen = Screen(console, settings, folder)
        if main_process():
            screen.begin(line, printed=LAUNCHER in os.environ)
        with uncollected():
            quiet()
            from agentgym.trainers.loop import Loop

        again = [word for flag, value in config.settings.items() for word in Setting(flag, value).words]
        command = quoted(["train", "--resume", str(screen.folder), *again])
        with session(screen, f"agentgym {command} (in a checkout: ./dev {command})"):
            loop = Loop.fresh(fresh, screen) if fresh else Loop.resumed(config.resume, settings, screen)
            summary = loop.run_to_end()
        if main_process():
            console.print(_table(summary))
            _report(console, Path(screen.folder))
        return 0


def _page_server(config: Config, folder: str, console: Console) -> AbstractContextManager[object]:
    """Return a context manager that serves the run's page; it does nothing without --watch."""
    if not config.watch or launched():
        return nullcontext()
    from agentgym.cli.watch import beside

    return beside(folder, console)


@contextmanager
def session(screen: Screen, command: str) -> Generator[None]:
    """Show a run's progress; print the resume command after Ctrl-C, and exit if a process of the run is lost.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
        RuntimeError: the run failed for a reason other than a lost process.
    """
    try:
        yield
    except KeyboardInterrupt:
        if main_process():
            screen.console.print(f"\nstopped; continue with: {command}", markup=False, soft_wrap=True)
        raise
    except RuntimeError as error:
        if not (launched() and "gloo" in str(error)):  # the transport raises a plain RuntimeError
            raise
        screen.close()
        print(f"error: another process of this run is gone ({error})", file=sys.stderr)
        leave(LOST)
    finally:
        screen.close()


def need_training() -> None:
    """Check that the extra for training is installed.

    Raises:
        MissingExtra: the extra is not installed.
    """
    for name in ("torch", "transformers", "accelerate", "tokenizers"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(f"training needs {name}: {how_to_install('train')}")


def quiet() -> None:
    """Turn off Hugging Face progress bars and unneeded imports of transformers.

    transformers imports scikit-learn and SciPy, if installed, for assisted decoding and for losses of object detectors.
    agentgym uses neither, and the imports cost 1.4 s of CPU time per process.
    """
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # read when it is imported
    from transformers import utils

    for name in ("is_sklearn_available", "is_scipy_available"):
        for module in (utils, utils.import_utils):
            setattr(module, name, lambda: False)
    utils.logging.disable_progress_bar()


def warn_in_one_line() -> None:
    """Print each later warning in one line."""
    warnings.showwarning = _warn


def _warn(message: Warning | str, *_: object) -> None:
    """Print a warning in one line, without its source location."""
    if main_process():
        print(f"warning: {printable(str(message))}", file=sys.stderr)


def _table(summary: dict[str, object]) -> Table:
    measured = summary["tasks"]
    title = f"success on {measured} {summary['split']} tasks" if measured else "success on test tasks: not measured"
    if summary["tasks_before"] != measured:
        title += f"; untrained on {summary['tasks_before']}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    rates = {"before": "untrained", "sft": "after SFT warm start", "after": f"after {summary['credit']}"}
    rates = {f"success_{name}": column for name, column in rates.items() if f"success_{name}" in summary}
    for column in (*rates.values(), "episodes", "infrastructure errors", "seconds"):
        table.add_column(column, justify="right", min_width=max(map(len, column.split())))  # words are not cut
    table.add_row(
        *(f"{summary[name]:.1%}" if measured else "-" for name in rates),
        f"{summary['episodes']:,}",
        f"{summary['fault_share']:.1%}" + ("" if summary["comparable"] else " (not comparable)"),
        f"{summary['train_seconds']:.0f}",
    )
    return table


def _recipes() -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("recipe")
    table.add_column("what")
    for name, path in recipes().items():
        first = path.read_text(encoding="utf-8").split("\n", 1)[0]
        table.add_row(Text(name), Text(first.lstrip("# ")))
    return table


def _report(console: Console, folder: Path) -> None:
    """Write the curve and the page of episodes; a failure here must not look like a failed training run."""
    from agentgym.report.html import write_report
    from agentgym.report.plots import learning_curve

    for make in (learning_curve, write_report):
        try:
            console.print(str(make(folder)), markup=False)
        except (OSError, BadData, MissingExtra) as error:
            console.print(f"the run is complete, but its page could not be written: {error}", markup=False)
