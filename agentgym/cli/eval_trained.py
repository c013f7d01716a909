"""Options of the agent and the environment that an evaluation takes from a training run's folder."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agentgym.agents.prompt import ALIASES
from agentgym.agents.spec import NAMED, AgentSpec
from agentgym.core.screen import announce
from agentgym.registry import class_of, full_id, is_registered
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

    The folder may be untrusted. Raises BadConfig if it sets an option that says where or how something runs, and
    `caller`, the flags of `command`, does not set that option. Options of environments not in `envs`, and those in
    `OF_TRAINING`, are left out.
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


def about_training(model: str, spec: AgentSpec) -> dict[str, object]:
    """Announce differences from the run that trained a model, and return the manifest's entries about that run, if any.

    The entry `trained_wordings` has the task wordings that the run's environments used (`TextEnv.wordings_of`), from the
    run's manifest, or from its settings if the manifest has none.
    """
    for difference in differences(model, spec):
        announce(f"warning: {difference}")
    if (run := _run_of(model)) is None:
        return {}
    wordings = wordings_recorded(run) or wordings_trained(Trained(**_values(run, ("env", "env_options", "envs"))))
    return {"trained_wordings": wordings} if wordings else {}


def wordings_recorded(run: Path) -> list[str]:
    """Return the names of the task wordings that a run used, sorted; [] if its manifest has none or is malformed."""
    try:
        manifest: object = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    sessions = _of(list, _of(dict, manifest).get("sessions"))
    columns = [_of(list, names) for session in sessions for names in _of(dict, _of(dict, session).get("wordings")).values()]
    return sorted({name for names in columns for name in names if isinstance(name, str)})


def _of(kind: type[Any], value: object) -> Any:
    """Return `value` if it is of type `kind`, else `kind()`, such as an empty list."""
    return value if isinstance(value, kind) else kind()


def wordings_trained(config: TrainConfig) -> list[str]:
    """Return the names in the option `wordings` of a run's environments, sorted; the default if it is not set."""
    named: set[str] = set()
    for env in config.mix:
        default = getattr(class_of(full_id(env.id)), "wordings", ()) if is_registered(env.id) else ()
        option = env.options.get("wordings", default)
        named |= (
            {name for name in cast("list[object]", option) if isinstance(name, str)}
            if isinstance(option, list | tuple)
            else set()
        )
    return sorted(named)


def _run_of(model: str) -> Path | None:
    """Return the folder of a run, given that folder or the folder of a checkpoint; None for any other model."""
    folder = Path(model).expanduser()
    run = next((place for place in (folder, *folder.parents[:2]) if (place / "config.toml").is_file()), None)
    return None if run is None or (run != folder and folder.parent.name != "checkpoints") else run


def _values(run: Path, used: Sequence[str]) -> dict[str, Any]:
    values = read_values(run / "config.toml", stored=True)
    return {name: value for name, value in values.items() if name in used}


def differences(model: str, spec: AgentSpec) -> list[str]:
    """Return a sentence if a run's policy is evaluated with a different agent or prompt than in training.

    `model` is the folder of the run or of one of its checkpoints; the result is empty for another model.
    """
    if (run := _run_of(model)) is None:
        return []
    trained = Trained(**_values(run, USED))
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
