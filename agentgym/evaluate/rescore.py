"""Rescoring of recorded episodes with a new verifier or additional rewards, without a model."""

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from agentgym.core.caller import Setting, refuse
from agentgym.core.env import TextEnv
from agentgym.core.folders import write_whole
from agentgym.core.provenance import write_json
from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode
from agentgym.episodes.stored_env import stored_id, stored_settings
from agentgym.errors import BadConfig, BadData
from agentgym.evaluate import manifest
from agentgym.evaluate.compare import read_evaluation
from agentgym.evaluate.protocol import NOT_COMPARABLE
from agentgym.evaluate.summary import summarize
from agentgym.registry import full_id, load, make
from agentgym.rollout.collect import finished
from agentgym.rollout.limits import is_ctrl_c
from agentgym.trainers.config.recipe_files import read_values
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.rewards.interface import Schedule, pay, reach, resolve_rewards
from agentgym.trainers.seam import Stage

Verifier = Callable[[Episode, Task], bool | float]
"""Function of an episode (read-only) and its task with answers; returns True or False, or a reward from 0 to 1."""
PlayedIn = tuple[str, Mapping[str, Any]]
"""Environment name and the options it was created with."""


def rescore_folder(
    folder: str | Path,
    verifier: str = "",
    out: str | Path | None = None,
    *,
    rewards: Sequence[str] = (),
    reward_options: Mapping[str, object] | None = None,
    envs: Sequence[str] = (),
    env_options: Mapping[str, object] | None = None,
    command: Sequence[str] = (),
) -> tuple[Path, list[Episode]]:
    """Rescore an evaluation with a verifier (`module:function`) into a new folder; return the folder and its episodes.

    `out` defaults to a sibling of `folder`. `rewards` are reward stages of training, with their options; they are added
    to the verifier's or the environment's reward. The folder may be untrusted: `envs` lists the environments that it may
    import (MODULE:ID), and `env_options` has the options that say where or how an environment runs (`backend`, or
    `2.backend` for the second of several). If options are missing, the error repeats `command` with them. Nothing is
    written before every episode is rescored.

    Raises:
        BadConfig: the folder contains no evaluation, the new folder exists, neither a verifier nor rewards are named, a
            verdict is invalid, or the caller must set an option.
        BadData: a task differs from the recorded task.
    """
    folder = Path(folder)
    options, episodes = read_evaluation(folder)
    if not verifier and not rewards:
        raise BadConfig("nothing to rescore by: give --verifier MODULE:NAME, --rewards NAME, or both")
    function = load(verifier, "verifier", {}) if verifier else None
    if verifier and not callable(function):
        raise BadConfig(f"{verifier} is {function!r}; expected a function of an episode and its task")
    stages = _stages(rewards, reward_options or {})
    name = "-".join(reward_name.rpartition(":")[2] for reward_name in (verifier, *rewards) if reward_name)
    target = Path(out) if out else folder.resolve().with_name(f"{folder.resolve().name}-rescored-{name}")
    if target.exists():
        raise BadConfig(f"{target} is there already, and nothing is written over: choose another --out")
    finished(reach(stages))
    trained = (folder / "config.toml").exists()
    stored = _trained_in(folder) if trained else _evaluated_in(folder, options)
    played_in = _played_in(folder, stored, envs, env_options or {}, command) if verifier else {}
    scored = rescore(episodes, cast("Verifier", function), Tasks(played_in)) if verifier else copy.deepcopy(episodes)
    finished(pay(scored, stages, step=0, run=None))
    by: dict[str, object] = {"verifier": verifier} if verifier else {}
    by |= {"rewards": {stage.name: stage.options for stage in stages}} if stages else {}
    if trained:  # in the format of an evaluation, so that the new folder can be rescored as well
        by_name = played_in or {known_as or name.rpartition(":")[2]: row for known_as, row in stored for name in row[:1]}
        options["envs"] = {known_as: {"id": name, "options": own} for known_as, (name, own) in by_name.items()}
    manifest.start(target, {**options, "rescored": {"folder": str(folder), **by}})
    write_whole(target / "episodes.jsonl", "".join(e.to_json() + "\n" for e in scored))
    what = "another verifier" if verifier else "rewards in addition to the environment's own"
    summary = {**summarize(scored), "comparable": f"{what}: {NOT_COMPARABLE}"}
    write_json(target / "summary.json", summary)
    return target, scored


def _stages(names: Sequence[str], options: Mapping[str, object]) -> list[Stage]:
    """Return the reward stages.

    Raises:
        BadConfig: a weight is a schedule, which needs the steps of a training run.
    """
    stages = resolve_rewards(names, options)
    for stage in stages:
        if isinstance(stage.options.get("weight"), Schedule):
            raise BadConfig(f"reward {stage.name!r} has a schedule, and rescoring has no steps: give a weight")
    return stages


def rescore(episodes: list[Episode], verifier: Verifier, tasks: Callable[[Episode], Task]) -> list[Episode]:
    """Return copies of the episodes with the verifier's verdict; `tasks` looks up the task of an episode.

    The last turn gets the whole reward; a reward of 1 is success. Faults stay faults.
    """
    return [episode if episode.fault else _judged(episode, verifier, tasks(episode)) for episode in episodes]


def _evaluated_in(folder: Path, options: Mapping[str, Any]) -> list[tuple[str, PlayedIn]]:
    """Return an evaluation's environments, each with its name in episodes (empty if the name is the id).

    Raises:
        BadData: the manifest's entry of an environment is malformed.
    """
    tables: object = options.get("envs", {})
    stored: list[tuple[str, PlayedIn]] = []
    for name, table in cast("dict[str, object]", tables).items() if isinstance(tables, dict) else ():
        row = cast("dict[str, object]", table) if isinstance(table, dict) else {"options": None}
        id: object = row.get("id", name)
        own: object = row["options"] if "options" in row else dict[str, object]()
        if not isinstance(id, str) or not isinstance(own, dict):
            raise BadData(f"{folder}: the manifest says of {name!r} {table!r:.100}; expected a table of an environment")
        stored.append((name if "id" in row else "", (id, cast("dict[str, object]", own))))
    return stored


def _trained_in(folder: Path) -> list[tuple[str, PlayedIn]]:
    """Return a training run's environments, each with its name in episodes (empty if the name is the id)."""
    values = read_values(folder / "config.toml", stored=True)
    mix: Sequence[EnvSpec] = values.get("envs") or [
        EnvSpec(values.get("env", TrainConfig.env), options=values.get("env_options", {}))
    ]
    return [(spec.name if len(mix) > 1 else "", (spec.id, spec.options)) for spec in mix]


def _played_in(
    folder: Path,
    stored: Sequence[tuple[str, PlayedIn]],
    envs: Sequence[str],
    env_options: Mapping[str, object],
    command: Sequence[str],
) -> dict[str, PlayedIn]:
    """Return the environments with the caller's options, by name in episodes; raise BadConfig if an option is missing."""
    several = len(stored) > 1
    missing: list[Setting] = []
    own = [{**options} for _, (_, options) in stored]
    for number, (_, (name, options)) in enumerate(stored, 1):
        place = f"{number}." if several else ""
        own[number - 1] |= {key.removeprefix(place): value for key, value in env_options.items() if key.startswith(place)}
        required = stored_settings(name, options, envs, ("env", f"env.{place}".rstrip(".")))
        missing += [one for one in required if one.flag.removeprefix("env.") not in env_options]
    if missing:
        names = tuple(dict.fromkeys([*envs, *(str(one.value) for one in missing if one.flag == "env")]))
        settings = [one for one in missing if one.flag != "env"] + ([Setting("env", names)] if names else [])
        refuse(folder, settings, command)
    return {known_as or full_id(name): (name, options) for (known_as, (name, _)), options in zip(stored, own, strict=True)}


class Tasks:
    """Lookup of recorded episodes' tasks in environments created with the recorded options."""

    def __init__(self, played_in: Mapping[str, PlayedIn]) -> None:
        self.played_in = played_in
        self.envs: dict[str, TextEnv] = {}

    def __call__(self, episode: Episode) -> Task:
        """Return an episode's task.

        Raises:
            BadData: the task's instruction differs from the recorded one.
        """
        known_as = episode.labels.get("env", episode.env)  # the name in a training run of several environments
        if known_as not in self.envs:
            name, options = self.played_in.get(known_as) or (stored_id(episode.env), {})
            self.envs[known_as] = make(name, **options)
        task = self.envs[known_as].find(episode.task_id)
        if task.instruction != episode.instruction:
            raise BadData(
                f"{episode.env} {episode.task_id} is {task.instruction!r} now, and was {episode.instruction!r} when it was "
                "played: the environment has changed, evaluate again"
            )
        return task


def _judged(episode: Episode, verifier: Verifier, task: Task) -> Episode:
    judged = copy.deepcopy(episode)
    where = f"{episode.env} {episode.task_id}, attempt {episode.attempt}"
    try:
        verdict: Any = verifier(copy.deepcopy(episode), task)
    except BaseException as error:  # a user's own code
        if is_ctrl_c(error):
            raise
        raise BadConfig(f"the verifier raised {type(error).__name__} for {where}: {error}") from error
    if not isinstance(verdict, bool | int | float | np.bool_ | np.integer | np.floating) or not 0 <= verdict <= 1:
        raise BadConfig(f"the verifier returned {verdict!r} for {where}; expected True, False, or a reward from 0 to 1")
    reward = float(cast("float", verdict))
    judged.success = reward == 1.0
    if judged.success != episode.success:
        judged.reason = "success" if judged.success else "failure"
    judged.pay_last(reward, {"verifier": reward} if reward else {})
    return judged
