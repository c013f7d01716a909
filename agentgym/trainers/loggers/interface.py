"""The logger stage: destinations of a run's metrics in addition to `metrics.jsonl` and the screen."""

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
"""Name of a run's file with the number of SFT updates and steps that were logged."""


class Logger(Protocol):
    """A destination of metrics, created as `CLASS(folder, config, **options)` in the main process only.

    `config` maps the fields of the run's configuration to their values. A resumed run creates the logger again with the
    same folder, which may store the service's run id.
    """

    def log(self, position: int, row: Mapping[str, object]) -> None:
        """Log a row of `metrics.jsonl`: its `phase`, `step` and numbers. `position`: SFT updates and steps so far."""
        ...

    def close(self) -> None:
        """Send buffered data and finish."""
        ...


def logger(name: str, *, package: str = "") -> Callable[[Target], Target]:
    """Declare a class as a logger (see `Logger`) and name it; keyword-only parameters are its options.

    `package`: a package that the logger needs (none by default); a run with the logger is refused if it is missing.
    """
    return LOGGERS.declare(name, package=package)


def resolve_loggers(names: Sequence[str], options: Mapping[str, object]) -> list[Stage]:
    """Return the loggers of a run; each option goes to the logger that declares it.

    Raises:
        BadConfig: there are options but no loggers, or a logger is named twice.
        MissingExtra: a logger's package is not installed.
    """
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
    """The loggers of a session. A failing logger never ends the run: its first error becomes a warning."""

    def __init__(self, folder: Path, loggers: Mapping[str, Logger]) -> None:
        self.path, self.loggers = folder / MARK, loggers
        self.failed: set[str] = set()
        self.position: int = json.loads(self.path.read_text())["position"] if self.path.exists() else 0

    def log(self, position: int, row: Mapping[str, object]) -> None:
        """Log a row, unless an earlier session logged it: after a kill, steps since the checkpoint are repeated."""
        if not self.loggers or position <= self.position:
            return
        self.position = position
        write_whole(
            self.path, json.dumps({"position": position}) + "\n"
        )  # first: a kill here loses a row and duplicates none
        for name, logger in self.loggers.items():
            self._safely(name, logger.log, position, row)

    def close(self) -> None:
        """Close every logger."""
        for name, logger in self.loggers.items():
            self._safely(name, logger.close)

    def _safely(self, name: str, call: Callable[..., None], *arguments: object) -> None:
        try:
            call(*arguments)
        except (Exception, SystemExit, GeneratorExit) as error:  # a service's error, a full disk, the user's code
            if isinstance(error, SystemExit) and error.code == SECOND_CTRL_C:  # the user
                raise
            if name not in self.failed:
                why = f"{type(error).__name__}: {error}"
                message = f"logger {name} failed ({why}); the run continues, and metrics.jsonl is complete"
                warnings.warn(message, stacklevel=2)
            self.failed.add(name)


def start(stages: Sequence[Stage], config: "TrackConfig", folder: Path, main: bool) -> Loggers:
    """Create the loggers of a run; none outside the main process.

    Raises:
        BadConfig: a logger cannot start.
    """
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
    """Return a run's configuration for loggers: a mapping of fields, with the engine's API key masked."""
    values = dataclasses.asdict(config)
    if "key" in values.get("engine_options", {}):
        values["engine_options"] = {**values["engine_options"], "key": "***"}
    return values


def numbers(row: Mapping[str, object]) -> dict[str, float]:
    """Return the finite numbers of a row under the names PHASE/NAME; a mean over nothing is not finite."""
    phase = row.get("phase", "rl")
    plain = {name: value for name, value in row.items() if isinstance(value, int | float)}
    return {f"{phase}/{name}": value for name, value in plain.items() if abs(value) < float("inf")}


def stored_run_id(folder: Path, name: str) -> str | None:
    """Return the run id that the service `name` gave to an earlier session of this run; None in a new run."""
    path = folder / f"{name}.run"
    return path.read_text(encoding="utf-8") if path.exists() else None


def store_run_id(folder: Path, name: str, run: str) -> None:
    """Store the run id that the service `name` gave to this run, for later sessions."""
    write_whole(folder / f"{name}.run", run)


def check(run: "FreshRun") -> None:
    """Check that the logger classes have all methods.

    Raises:
        BadConfig: a class lacks a method.
    """
    for stage in run.stages.loggers:
        if lacks := unwritten(stage.target, Logger):
            raise BadConfig(f"logger {stage.name!r} lacks {lacks}; expected a class with log(position, row) and close()")
