"""Train an agent by a recipe: a TOML file of the package, or your own.

agentgym train household                                      a small policy from nothing, on the CPU
agentgym train household --credit grpo --seed 1 --out runs/b  another credit algorithm
agentgym train --list                                         all recipes
agentgym train --resume runs/demo                             go on where a run stopped
agentgym train household --plan                               memory and time it takes here, and whether it fits; --json
agentgym train household --model PATH --credit my_module:last_turn --credit.scale 0.5
"""

import dataclasses
import importlib.util
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym.cli.flags import read_flags
from agentgym.episode import MOST_FAULTS
from agentgym.errors import BadConfig, BadData, MissingExtra, how_to_install
from agentgym.trainers.config import TrainConfig, read_recipe, recipes
from agentgym.trainers.launch import LOST, end_with_launcher, launch, launched, main_process


@dataclasses.dataclass(frozen=True)
class Config:
    """What the command is to do."""

    config: TrainConfig | None = None
    """The run to start."""
    arguments: tuple[str, ...] = ()
    """What was typed, for the processes of a run with several."""
    resume: str = ""
    """The run to go on with."""
    list: bool = False
    """Print the recipes and stop."""
    plan: bool = False
    """Print what the run takes and stop."""
    json: bool = False
    """Print the plan as JSON."""


FLAGS = TrainConfig
"""Where the flags stand that a shell can complete."""


def read(arguments: Sequence[str]) -> Config:
    """Read a recipe's name, then flags that override it, `--plan` among them; or `--resume FOLDER`, or `--list`."""
    words = list(arguments)
    if "--list" in words:
        return Config(list=True)
    if "--resume" in words:
        place = words.index("--resume") + 1
        if place >= len(words):
            raise BadConfig("--resume needs the folder of a run, for example --resume runs/demo")
        rest = words[: place - 1] + words[place + 1 :]
        if rest:
            raise BadConfig(f"--resume goes on with the run as it was configured; {' '.join(rest)} cannot be changed")
        return Config(resume=words[place], arguments=tuple(arguments))
    planned, as_json = "--plan" in words, "--json" in words
    if as_json and not planned:
        raise BadConfig("--json goes with --plan")
    words = [word for word in words if word not in ("--plan", "--json")]
    name = words.pop(0) if words and not words[0].startswith("-") else ""
    default = read_recipe(name) if name else TrainConfig()
    config = read_flags(TrainConfig, words, command="train", description=__doc__, default=default)
    if config.credit != default.credit:  # what the recipe tells one algorithm or world is nothing to another
        default = dataclasses.replace(default, credit_options={})
    if config.env != default.env:
        default = dataclasses.replace(default, env_options={}, valid_split="", test_split="")
    config = read_flags(TrainConfig, words, command="train", default=default)
    return Config(config, arguments=tuple(arguments), plan=planned, json=as_json)


def run(config: Config) -> int:
    """Train, showing a line a step, and end with a table."""
    console = Console(highlight=False)
    if config.list:
        console.print(_recipes())
        return 0
    need_training()
    if config.plan:
        from agentgym.cli.plan import show

        assert config.config is not None
        return show(config.config, console, as_json=config.json)
    from transformers.utils import logging

    from agentgym.trainers.loop import resume, train
    from agentgym.trainers.record import config_of

    logging.disable_progress_bar()
    settings = config_of(config.resume) if config.resume else config.config
    assert settings is not None
    if settings.processes > 1 and not launched():
        return launch(("train", *config.arguments), settings.processes, config.resume or settings.out)
    end_with_launcher()
    screen = _Screen(console, settings, config.resume or settings.out)
    try:
        summary = resume(config.resume, screen) if config.resume else train(settings, screen)
    except KeyboardInterrupt:
        if main_process():
            command = f"train --resume {screen.folder}"
            console.print(
                f"\nstopped; go on with: agentgym {command} (in a checkout: ./dev {command})", markup=False, soft_wrap=True
            )
        raise
    except RuntimeError as error:
        if not (launched() and "gloo" in str(error)):  # the transport's own type of error is none
            raise
        print(f"error: another process of this run is gone ({error})", file=sys.stderr)
        return LOST
    if not main_process():
        return 0
    console.print(_table(summary))
    _report(console, Path(screen.folder))
    return 0


def need_training() -> None:
    """Raise MissingExtra unless the extra for training is installed."""
    for name in ("torch", "transformers", "accelerate", "tokenizers"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(f"training needs {name}: {how_to_install('train')}")


class _Screen:
    """Shows a run as it goes."""

    def __init__(self, console: Console, config: TrainConfig, folder: str) -> None:
        self.console, self.config, self.folder = console, config, folder

    def __call__(self, kind: str, numbers: dict[str, Any]) -> None:
        getattr(self, f"_{kind}")(numbers)

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=True)

    def _start(self, n: dict[str, Any]) -> None:
        where = f", going on after update {n['position']}" if n["position"] else ""
        trained = f", {n['trained'] / 1e6:.2f} M of them in adapters trained," if self.config.lora_rank else ""
        self._print(f"{self.folder}: {n['parameters'] / 1e6:.2f} M parameters{trained} on {self.config.env}{where}")
        self._print(f"{n['warm_steps']} updates of imitation, then {n['steps']} of {self.config.credit}")
        self._print(f"precision {n['precision']}, attention {n['attention']}")
        if n["correction"] is not None:
            self._print(
                f"engine {self.config.engine} does not round as the trainer does: the loss of every token is weighted by "
                f"min(trainer / engine, {n['correction']:g})"
            )

    def _eval(self, n: dict[str, Any]) -> None:
        what = {"success_before": "untrained", "success_warm": "after the warm start", "success_after": "at the end"}
        self._print(f"success {what[n['name']]}: {n['success']:.1%} of {n['tasks']} {n['split']} tasks{_apart(n['faults'])}")

    def _warm(self, n: dict[str, Any]) -> None:
        lost = f"  {n['demonstrations_lost']} demonstrations lost to faults" if n["demonstrations_lost"] else ""
        self._print(f"warm {n['step']:>5}  loss {n.get('nll', math.nan):.3f}{lost}  {_time(n['eta_seconds'])} left")

    def _step(self, n: dict[str, Any]) -> None:
        valid = f"{n['success_valid']:.0%}" if "success_valid" in n else "  -"
        apart = f" ess {n.get('mismatch_ess', 1):.2f}" if self.config.differs else ""
        shares = "/".join(f"{100 * n[f'share_{part}']:.0f}" for part in ("rollout", "train", "env"))
        self._print(
            f"step {n['step']:>5}  success {n['success_train']:4.0%} held out {valid:>4}  reward {n['reward']:.2f}  "
            f"turns {n['turns']:4.1f}  {n['tokens_per_second']:5.0f} tok/s  roll/train/env {shares} %  "
            f"kl {n.get('mismatch_kl', 0):.1e}{apart}  entropy {n.get('entropy', 0):.2f}  dropped {n['groups_dropped']:>2}  "
            f"faults {n['fault_share']:.1%}{' (not comparable)' if n['fault_share'] > MOST_FAULTS else ''}  "
            f"{_time(n['eta_seconds'])} left"
        )

    def _end(self, n: dict[str, Any]) -> None:
        del n


def _apart(share: float) -> str:
    """Return what is said of the share of faults beside a rate."""
    return f", {share:.1%} faults{': not comparable' if share > MOST_FAULTS else ''}" if share else ""


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _table(summary: dict[str, Any]) -> Table:
    table = Table(title=f"success on {summary['tasks']} {summary['split']} tasks", title_justify="left")
    for column in ("untrained", "after warm start", f"after {summary['credit']}", "episodes", "faults", "seconds"):
        table.add_column(column, justify="right")
    table.add_row(
        *(f"{summary[f'success_{name}']:.1%}" for name in ("before", "warm", "after")),
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
    """Write the curve and the page of episodes; a problem there must not look like a failed training run."""
    from agentgym.report.html import write_report
    from agentgym.report.plots import learning_curve

    for make in (learning_curve, write_report):
        try:
            console.print(str(make(folder)), markup=False)
        except (OSError, BadData) as error:
            console.print(f"the run is whole, but its page is not: {error}", markup=False)
