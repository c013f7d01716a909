"""What an evaluation takes from the folder of a training run: how its agent plays, and options of its environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym.agents.spec import NAMED
from agentgym.trainers.config.caller_settings import with_caller
from agentgym.trainers.config.recipe_files import read_values
from agentgym.trainers.config.train_config import TrainConfig, defaults

USED = ("env", "env_options", "model", *NAMED, "prompt")
"""Fields of a training run that an evaluation of its model uses."""
OF_TRAINING = ("pool", "pool_file")
"""Options of its environment that narrow what it was trained on, and nothing else."""


@dataclass(frozen=True)
class Trained(TrainConfig):
    """What is used of a training run; the rest has its defaults, so that what goes together is not checked."""

    def __post_init__(self) -> None:
        """Check nothing: what is used is checked where it is used."""


def trained_as(
    folder: Path, envs: Sequence[str], caller: Mapping[str, object], command: Sequence[str]
) -> TrainConfig | None:
    """Return what the folder of a model says of the training run that it is; None where it is no run.

    The folder may be a stranger's: BadConfig where it says where or how something runs and `caller`, the flags of
    `command`, does not. Options of an environment that is not one of `envs` are left out.
    """
    path = folder / "config.toml"
    if not path.exists():
        return None
    used = {name: value for name, value in read_values(path, stored=True).items() if name in USED}
    env = used.setdefault("env", TrainConfig.env)
    if env not in envs:  # as the flags name it: the caller's own name may be imported
        used |= {"env": TrainConfig.env, "env_options": {}}
    used["env_options"] = {key: value for key, value in used["env_options"].items() if key not in OF_TRAINING}
    with_caller(path, used, defaults(), {**caller, "env": env}, command, only=("env", "prompt"))
    return Trained(**used)
