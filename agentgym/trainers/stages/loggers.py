"""Loggers: where the metrics of a run go beside `metrics.jsonl` and the screen."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from agentgym.errors import BadConfig
from agentgym.trainers.stages.seams import Seam, Stage, Target, shared_out

LOGGERS = Seam("logger", {})


class Logger(Protocol):
    """Made as `CLASS(folder, config, **options)`, in the main process only; `config`: the run's, as a flat mapping."""

    def log(self, row: Mapping[str, Any]) -> None:
        """Take in a row of `metrics.jsonl`: its `phase` and `step`, and numbers."""
        ...

    def close(self) -> None:
        """Send what is held."""
        ...


def logger(name: str) -> Callable[[Target], Target]:
    """Declare a class as a logger (see `Logger`) and name it; keyword-only parameters are its options."""
    return LOGGERS.declare(name)


def resolve_loggers(names: Sequence[str], options: Mapping[str, Any]) -> list[Stage]:
    """Return the loggers of a run; an option belongs to the one that has it."""
    bare = [LOGGERS.looked_up(name) for name in names]
    if options and not bare:
        raise BadConfig(f"logger.{next(iter(options))} does nothing without a logger: give --loggers NAME")
    own = shared_out("logger", bare, options)
    return [LOGGERS.resolve(name, own[stage.name]) for name, stage in zip(names, bare, strict=True)]
