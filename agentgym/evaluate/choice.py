"""What an evaluation is to play: environments, splits, difficulties, and which tasks of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.registry import make

MOST = 1_000_000
"""Of tasks, and of attempts: more is a slip, and would not end."""
UNCOUNTED = 100
"""Tasks of a split that nobody has counted, where the plan names no number."""
OF_ENVS = ("split", "tasks", "attempts", "difficulties")


class CannotPlay(BadConfig):
    """An environment without the oracle or expert that was to play it."""


@dataclass(frozen=True)
class EvaluationPlan:
    """What is to be played."""

    envs: tuple[str, ...]
    split: str | None = None
    """None: the last of each environment's splits, which is its test split."""
    tasks: int | None = None
    """Tasks of each environment (and difficulty); of a split with fewer, all. None: all where they are counted, else 100."""
    attempts: int = 1
    seed: int = 0
    difficulties: tuple[int, ...] | None = None
    """Difficulties of which tasks are played; None: that of the environment."""
    env_options: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    """Options of each environment, by its id."""
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """By environment, its own `split`, `tasks`, `attempts` and `difficulties`, where they differ from the plan's."""

    def __post_init__(self) -> None:
        for name, value in (("tasks", self.tasks), ("attempts", self.attempts)):
            if value is not None and not 1 <= value <= MOST:
                raise BadConfig(f"{name} is {value}; expected from 1 to {MOST:,}")
        if self.seed < 0:
            raise BadConfig(f"seed is {self.seed}; expected 0 or more")

    def options(self, environment: str) -> dict[str, object]:
        """Return the options of one environment."""
        return dict(self.env_options.get(environment, {}))

    def of(self, environment: str) -> "EvaluationPlan":
        """Return the plan of one environment."""
        own = self.own.get(environment, {})
        if odd := set(own) - {*OF_ENVS}:
            raise BadConfig(no_such(f"part of the plan of {environment}", min(odd), OF_ENVS))
        return replace(self, envs=(environment,), own={}, **own)


def choose(environment: str, plan: EvaluationPlan, plays: str = "") -> list[Task]:
    """Return the tasks to play: the first of the split's fixed list, or all of a split that has fewer.

    Of several difficulties, as many of each. `plays` names the method of the environment that is to play it (`oracle`,
    `expert`). Raises BadConfig where the difficulties make no difference, CannotPlay where such a method is missing.
    """
    options = plan.options(environment)
    if plan.difficulties is None:
        return _chosen(environment, plan, options, plays)
    if "difficulty" in options or not plan.difficulties or len({*plan.difficulties}) < len(plan.difficulties):
        raise BadConfig(
            f"difficulties of {environment} are {list(plan.difficulties)} with the options {options}; expected at least "
            "one, each once, and no additional option `difficulty`"
        )
    tasks = [
        task for level in plan.difficulties for task in _chosen(environment, plan, {**options, "difficulty": level}, plays)
    ]
    if len({task.id for task in tasks}) < len(tasks):
        raise BadConfig(f"{environment} has the same tasks at difficulties {list(plan.difficulties)}: leave them out")
    return tasks


def parts(environment: str, plan: EvaluationPlan, tasks: list[Task]) -> list[tuple[dict[str, object], list[Task]]]:
    """Return the tasks by the options of the environment they are played in: one part for each difficulty asked for."""
    options = plan.options(environment)
    if plan.difficulties is None:
        return [(options, tasks)]
    return [({**options, "difficulty": n}, [task for task in tasks if task.difficulty == n]) for n in plan.difficulties]


def _chosen(environment: str, plan: EvaluationPlan, options: Mapping[str, object], plays: str) -> list[Task]:
    env: TextEnv = make(environment, **options)
    if plays and getattr(type(env.unwrapped), plays) is getattr(TextEnv, plays):
        raise CannotPlay(f"{environment} has no {plays} that could play it")
    split = plan.split or list(env.splits)[-1]
    if split not in env.splits:
        raise UnknownName(no_such(f"split of {environment}", split, env.splits))
    wanted = plan.tasks or env.size(split) or UNCOUNTED
    env.tasks(1, split)  # what is wrong with the environment itself is raised here
    pool = env.pooled(split)
    tasks = listed(env, wanted, split) if pool is None else pool[: plan.tasks or None]
    env.close()
    return tasks


def listed(env: TextEnv, most: int, split: str) -> list[Task]:
    """Return the first `most` tasks of a split, or all of one with fewer that differ."""
    try:
        return env.tasks(most, split)
    except BadConfig:
        return env.up_to(most, split)
