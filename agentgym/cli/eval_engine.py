"""Engine of an evaluation, and the fingerprint of its weights."""

import math
from pathlib import Path
from typing import Any, Protocol

from agentgym.engines import engine
from agentgym.engines.kinds import kind_of
from agentgym.engines.model_names import as_chat
from agentgym.errors import BadConfig, MissingExtra, how_to_install
from agentgym.evaluate.manifest import fingerprint


class Flags(Protocol):
    """Flags used by this module."""

    @property
    def model(self) -> str | None:
        """Model as named on the command line."""

    @property
    def temperature(self) -> float | None:
        """Sampling temperature."""

    @property
    def threads(self) -> int | None:
        """CPU threads of torch."""

    @property
    def concurrency(self) -> int:
        """Concurrent episodes."""
        ...

    @property
    def engine_options(self) -> dict[str, object]:
        """Options of the engine."""
        ...


def temperature_of(config: Flags) -> float:
    """Return the sampling temperature, by default 1.

    Raises:
        BadConfig: it is negative or not finite.
    """
    temperature = 1.0 if config.temperature is None else config.temperature
    if not 0 <= temperature < math.inf:
        raise BadConfig(f"--temperature is {temperature}; expected 0 (greedy) or more")
    return temperature


def check_threads(config: Flags, name: str) -> None:
    """Check that --threads has an effect on the engine `name`.

    Raises:
        BadConfig: the flag has no effect, or is below 1.
    """
    if config.threads is not None and (not kind_of(name)[0].in_process or config.threads < 1):
        raise BadConfig(
            f"--threads is {config.threads}; expected at least 1, and a model that the hf engine runs, not {name}"
        )


def loaded(config: Flags, name: str) -> Any:
    """Create the engine `name`, and set torch's threads if the engine runs in this process.

    Raises:
        MissingExtra: a package that the engine needs is missing.
    """
    kind, target = kind_of(name)
    try:
        if kind.in_process:
            from agentgym.cli.train import quiet  # late: it comes with the settings of training

            quiet()
        found: Any = engine(name, **{**kind.eval_options(config.concurrency), **config.engine_options})
    except ModuleNotFoundError as error:
        bare = config.model is not None and ":" not in config.model and not Path(target).exists()
        instead = f". {as_chat(config.model or '')}" if bare else ""
        raise MissingExtra(f"{name} needs {error.name}: {how_to_install(kind.extra)}{instead}") from error
    if kind.in_process:
        from agentgym.trainers.model.policy import set_threads

        set_threads(found.model, config.threads or 0)
    return found


def weights_of(name: str) -> str | None:
    """Return the fingerprint of the model's weights; None if the model is not in a local folder."""
    folder = Path(kind_of(name)[1])
    return fingerprint(folder) if folder.is_dir() else None
