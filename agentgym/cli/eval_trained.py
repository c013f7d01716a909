"""Options that an evaluation takes from a training run's folder: those of its agent and of its environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym.agents.prompt import ALIASES
from agentgym.agents.spec import NAMED, AgentSpec
from agentgym.trainers.config.caller_settings import with_caller
from agentgym.trainers.config.recipe_files import read_values
from agentgym.trainers.config.train_config import TrainConfig, defaults

USED = ("env", "env_options", "model", *NAMED, "prompt")
"""Fields of a training run that an evaluation of its model uses."""
OF_TRAINING = ("pool", "pool_file")
"""Environment options that only narrow the training tasks."""


@dataclass(frozen=True)
class Trained(TrainConfig):
    """Partial configuration of a training run; the other fields have defaults, so nothing is cross-checked."""

    def __post_init__(self) -> None:
        """Skip the checks; fields are checked where they are used."""


def trained_as(folder: Path, envs: Sequence[str], caller: Mapping[str, object], command: Sequence[str]) -> TrainConfig:
    """Return the training configuration in a run's folder.

    The folder may be untrusted: it raises BadConfig if the folder says where or how something runs and `caller`, the
    flags of `command`, does not. Options of an environment that is not one of `envs` are left out.
    """
    path = folder / "config.toml"
    used = {name: value for name, value in read_values(path, stored=True).items() if name in USED}
    env = used.setdefault("env", TrainConfig.env)
    if env not in envs:  # as the flags name it: the caller's own name may be imported
        used |= {"env": TrainConfig.env, "env_options": {}}
    if options := used.get("env_options"):
        used["env_options"] = {key: value for key, value in options.items() if key not in OF_TRAINING}
    with_caller(path, used, defaults(), {**caller, "env": env}, command, only=("env", "prompt"))
    return Trained(**used)


def differences(model: str, spec: AgentSpec) -> list[str]:
    """Return a sentence if a run's policy is evaluated with another agent or prompt than it was trained with.

    `model` is the folder of the run or of one of its checkpoints; the result is empty for another model.
    """
    folder = Path(model).expanduser()
    run = next((place for place in (folder, *folder.parents[:2]) if (place / "config.toml").is_file()), None)
    if run is None or (run != folder and folder.parent.name != "checkpoints"):
        return []
    values = read_values(run / "config.toml", stored=True)
    trained = Trained(**{name: value for name, value in values.items() if name in USED})
    ways: list[str] = []
    for agent, prompt, turns in (
        (trained.agent, trained.prompt_asked, trained.window_turns),
        (spec.agent, spec.prompt, spec.window_turns),
    ):
        window = f" of {turns} turns" if agent == "window" else ""
        named = f"prompt {ALIASES.get(prompt, prompt)!r}" if prompt else "the prompt of the environment"
        ways.append(f"agent {agent!r}{window} and {named}")
    if ways[0] == ways[1]:
        return []
    return [f"{run} was trained with {ways[0]}, and is evaluated with {ways[1]}: its success may be lower for that alone"]
