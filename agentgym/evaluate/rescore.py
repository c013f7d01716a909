"""A new verifier, or rewards besides, over recorded episodes: no model plays, and what was recorded stays as it is."""

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from agentgym.core.env import TextEnv
from agentgym.core.folders import write_whole
from agentgym.core.provenance import write_json
from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig, BadData
from agentgym.evaluate import manifest
from agentgym.evaluate.compare import read_evaluation
from agentgym.evaluate.protocol import NOT_COMPARABLE
from agentgym.evaluate.summary import summarize
from agentgym.registry import full_id, load, make
from agentgym.rollout.collect import finished
from agentgym.trainers.config.recipe_files import read_config
from agentgym.trainers.rewards.interface import Schedule, pay, reach, resolve_rewards
from agentgym.trainers.seam import Stage

Verifier = Callable[[Episode, Task], bool | float]
"""Says of an episode, which it must not change, and its task, answers included: solved or not, or a reward from 0 to 1."""
PlayedIn = tuple[str, Mapping[str, Any]]
"""An environment's name, and the options that it was made with."""


def rescore_folder(
    folder: str | Path,
    verifier: str = "",
    out: str | Path | None = None,
    *,
    rewards: Sequence[str] = (),
    reward_options: Mapping[str, object] | None = None,
) -> tuple[Path, list[Episode]]:
    """Rescore an evaluation by `module:function` into a new folder, beside the old one unless named; return both.

    `rewards` are reward stages of training, with their options; they pay on top of the verdict, the new one or that of
    the environment. Nothing is written before every episode has its verdict. Raises BadConfig where the folder holds no
    evaluation, the new one is there already, or a verdict is none; BadData where a task is no longer what it was.
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
    played_in = _trained_in(folder) if trained else _played_in(options) if verifier else {}
    scored = rescore(episodes, cast("Verifier", function), Tasks(played_in)) if verifier else copy.deepcopy(episodes)
    finished(pay(scored, stages, step=0, run=None))
    by: dict[str, object] = {"verifier": verifier} if verifier else {}
    by |= {"rewards": {stage.name: stage.options for stage in stages}} if stages else {}
    if trained:  # as an evaluation says it, so that the new folder can be rescored as well
        options["envs"] = {known_as: {"id": name, "options": own} for known_as, (name, own) in played_in.items()}
    manifest.start(target, {**options, "rescored": {"folder": str(folder), **by}})
    write_whole(target / "episodes.jsonl", "".join(e.to_json() + "\n" for e in scored))
    what = "another verifier" if verifier else "rewards besides the environment's own"
    summary = {**summarize(scored), "comparable": f"{what}: {NOT_COMPARABLE}"}
    write_json(target / "summary.json", summary)
    return target, scored


def _stages(names: Sequence[str], options: Mapping[str, object]) -> list[Stage]:
    """Return the reward stages; BadConfig for a weight that follows the steps of a training run."""
    stages = resolve_rewards(names, options)
    for stage in stages:
        if isinstance(stage.options.get("weight"), Schedule):
            raise BadConfig(f"reward {stage.name!r} has a schedule, and rescoring has no steps: give a weight")
    return stages


def rescore(episodes: list[Episode], verifier: Verifier, tasks: Callable[[Episode], Task]) -> list[Episode]:
    """Return copies of the episodes with the verifier's verdict; `tasks` finds the task of an episode.

    The verdict is paid in the last turn and nothing before it; a reward of 1 is success. Faults stay faults.
    """
    return [episode if episode.fault else _judged(episode, verifier, tasks(episode)) for episode in episodes]


def _played_in(options: Mapping[str, Any]) -> dict[str, PlayedIn]:
    """Return the environments of an evaluation, by what its episodes call them."""
    tables: Mapping[str, Mapping[str, Any]] = options.get("envs", {})
    return {
        name if "id" in table else full_id(name): (table.get("id", name), table.get("options", {}))
        for name, table in tables.items()
    }


def _trained_in(folder: Path) -> dict[str, PlayedIn]:
    """Return the environments of a training run, by what its episodes call them."""
    mix = read_config(folder / "config.toml").mix
    return {spec.name if len(mix) > 1 else full_id(spec.id): (spec.id, spec.options) for spec in mix}


class Tasks:
    """Finds the tasks of recorded episodes in their environments, made with the options that they were played with."""

    def __init__(self, played_in: Mapping[str, PlayedIn]) -> None:
        self.played_in = played_in
        self.envs: dict[str, TextEnv] = {}

    def __call__(self, episode: Episode) -> Task:
        """Return an episode's task; raises BadData where its instruction is not the one that was recorded."""
        known_as = episode.labels.get("env", episode.env)  # of several in one training run, as that run calls it
        if known_as not in self.envs:
            name, options = self.played_in.get(known_as, (episode.env, {}))
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
    except Exception as error:  # a user's own code
        raise BadConfig(f"the verifier raised {type(error).__name__} for {where}: {error}") from error
    if not isinstance(verdict, bool | int | float | np.bool_ | np.integer | np.floating) or not 0 <= verdict <= 1:
        raise BadConfig(f"the verifier returned {verdict!r} for {where}; expected True, False, or a reward from 0 to 1")
    reward = float(cast("float", verdict))
    judged.success = reward == 1.0
    if judged.success != episode.success:
        judged.reason = "success" if judged.success else "failure"
    judged.reward, judged.final_rewards = reward, dict.fromkeys(episode.final_rewards, 0.0)
    for turn in judged.turns:
        turn.reward, turn.rewards = 0.0, {}
    if judged.turns:
        last = judged.turns[-1]
        last.reward, last.rewards = reward, {"verifier": reward} if reward else {}
        judged.final_rewards[last.role] = reward
    return judged
