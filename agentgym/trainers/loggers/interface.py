"""Loggers: where the metrics of a run go beside `metrics.jsonl` and the screen."""

import dataclasses
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agentgym.core.folders import write_whole
from agentgym.errors import BadConfig, MissingExtra, how_to_install
from agentgym.trainers.seam import SECOND_CTRL_C, Seam, Stage, Target, shared_out, unwritten

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from agentgym.trainers.config.settings import TrackConfig
    from agentgym.trainers.run.stages import FreshRun

TRACKERS = "agentgym.trainers.loggers.trackers"
LOGGERS = Seam(
    "logger",
    {
        "tensorboard": f"{TRACKERS}:TensorBoard",
        "wandb": f"{TRACKERS}:WandB",
        "trackio": f"{TRACKERS}:Trackio",
        "mlflow": f"{TRACKERS}:MLflow",
    },
    {"package": ""},
)
MARK = "logged.json"
"""The file of a run that says which of its updates the loggers have been given."""


class Logger(Protocol):
    """Made as `CLASS(folder, config, **options)`, in the main process only; `config`: the run's, as a flat mapping.

    A resumed run makes it again with the same folder, where it may remember which run of its service it was.
    """

    def log(self, position: int, row: Mapping[str, object]) -> None:
        """Take in a row of `metrics.jsonl`: its `phase` and `step`, and numbers. `position`: all updates so far."""
        ...

    def close(self) -> None:
        """Send what is held."""
        ...


def logger(name: str, *, package: str = "") -> Callable[[Target], Target]:
    """Declare a class as a logger (see `Logger`) and name it; keyword-only parameters are its options.

    `package`: what has to be installed for it; a run that names it is refused without.
    """
    return LOGGERS.declare(name, package=package)


def resolve_loggers(names: Sequence[str], options: Mapping[str, object]) -> list[Stage]:
    """Return the loggers of a run; an option belongs to the one that has it."""
    bare = [LOGGERS.looked_up(name) for name in names]
    if options and not bare:
        raise BadConfig(f"logger.{next(iter(options))} has no effect without a logger: give --loggers NAME")
    known = [stage.name for stage in bare]
    for name in known:
        if known.count(name) > 1:
            raise BadConfig(f"loggers names {name!r} twice; expected each once")
    own = shared_out("logger", bare, options)
    for stage in bare:
        package = stage.attributes["package"]
        if package and find_spec(package) is None:
            raise MissingExtra(f"logger {stage.name!r} needs {package}: {how_to_install(stage.name)}")
    return [LOGGERS.resolve(name, own[stage.name]) for name, stage in zip(names, bare, strict=True)]


class Loggers:
    """The loggers of a session. None of them can end the run: what one raises is said once."""

    def __init__(self, folder: Path, loggers: Mapping[str, Logger]) -> None:
        self.path, self.loggers = folder / MARK, loggers
        self.failed: set[str] = set()
        self.position: int = json.loads(self.path.read_text())["position"] if self.path.exists() else 0

    def log(self, position: int, row: Mapping[str, object]) -> None:
        """Hand on a row, unless an earlier session did: after a kill, steps behind the checkpoint are made again."""
        if not self.loggers or position <= self.position:
            return
        self.position = position
        write_whole(self.path, json.dumps({"position": position}) + "\n")  # first: a kill here loses a row, and doubles none
        for name, logger in self.loggers.items():
            self._safely(name, logger.log, position, row)

    def close(self) -> None:
        """Let every logger send what it holds."""
        for name, logger in self.loggers.items():
            self._safely(name, logger.close)

    def _safely(self, name: str, call: Callable[..., None], *arguments: object) -> None:
        try:
            call(*arguments)
        except (Exception, SystemExit, GeneratorExit) as error:  # of a service, a disk that is full, code of the user's
            if isinstance(error, SystemExit) and error.code == SECOND_CTRL_C:  # the user
                raise
            if name not in self.failed:
                why = f"{type(error).__name__}: {error}"
                message = f"logger {name} failed ({why}); the run continues, and metrics.jsonl is complete"
                warnings.warn(message, stacklevel=2)
            self.failed.add(name)


def start(stages: Sequence[Stage], config: "TrackConfig", folder: Path, main: bool) -> Loggers:
    """Make the loggers of a run, in its main process alone; BadConfig where one cannot start."""
    by_name: dict[str, Logger] = {}
    for stage in stages if main else ():
        try:
            by_name[stage.name] = stage(folder, flat_config(config))
        except Exception as error:
            Loggers(folder, by_name).close()
            raise BadConfig(
                f"logger {stage.name!r} could not start ({type(error).__name__}: {error}); mend that, or leave it out"
            ) from error
    return Loggers(folder, by_name)


def flat_config(config: "DataclassInstance") -> dict[str, object]:
    """Return a run's configuration as loggers are told it: flat, without the key of an engine."""
    values = dataclasses.asdict(config)
    if "key" in values.get("engine_options", {}):
        values["engine_options"] = {**values["engine_options"], "key": "***"}
    return values


def numbers(row: Mapping[str, object]) -> dict[str, float]:
    """Return the numbers of a row as PHASE/NAME; what is not finite (a mean of nothing) is left out."""
    phase = row.get("phase", "rl")
    plain = {name: value for name, value in row.items() if isinstance(value, int | float)}
    return {f"{phase}/{name}": value for name, value in plain.items() if abs(value) < float("inf")}


def stored_run_id(folder: Path, name: str) -> str | None:
    """Return which run of a service an earlier session logged to; None in a fresh run."""
    path = folder / f"{name}.run"
    return path.read_text(encoding="utf-8") if path.exists() else None


def store_run_id(folder: Path, name: str, run: str) -> None:
    """Note which run of a service this is."""
    write_whole(folder / f"{name}.run", run)


def check(run: "FreshRun") -> None:
    """Raise BadConfig or MissingExtra for a logger that cannot be: choosing them finds out, or its class lacks a method."""
    for stage in run.stages.loggers:
        if lacks := unwritten(stage.target, Logger):
            raise BadConfig(f"logger {stage.name!r} lacks {lacks}; expected a class with log(position, row) and close()")
