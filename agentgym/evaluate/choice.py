"""Evaluation plan: environments, splits, difficulties and tasks to play."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.registry import make

MOST = 1_000_000
"""Upper bound on tasks and attempts; a larger number is a typo and would never finish."""
UNCOUNTED = 100
"""Default number of tasks of a split whose size is unknown."""
OF_ENVS = ("split", "tasks", "attempts", "difficulties")


class CannotPlay(BadConfig):
    """The environment lacks the oracle or expert that was to play it."""


@dataclass(frozen=True)
class EvaluationPlan:
    """Environments and tasks to evaluate."""

    envs: tuple[str, ...]
    split: str | None = None
    """Split to evaluate; None: the last of each environment's splits, which is its test split."""
    tasks: int | None = None
    """Number of tasks per environment and difficulty; a smaller split is played whole. None: the whole split if its size
    is known, else 100 tasks."""
    attempts: int = 1
    seed: int = 0
    difficulties: tuple[int, ...] | None = None
    """Difficulties to play; None: the environment's default."""
    env_options: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    """Constructor options of each environment, by its id in `envs`."""
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Overrides of `split`, `tasks`, `attempts` and `difficulties` for single environments, by id."""

    def __post_init__(self) -> None:
        for name, value in (("tasks", self.tasks), ("attempts", self.attempts)):
            if value is not None and not 1 <= value <= MOST:
                raise BadConfig(f"{name} is {value}; expected from 1 to {MOST:,}")
        if self.seed < 0:
            raise BadConfig(f"seed is {self.seed}; expected 0 or more")

    def options(self, environment: str) -> dict[str, object]:
        """Return the constructor options of one environment."""
        return dict(self.env_options.get(environment, {}))

    def of(self, environment: str) -> "EvaluationPlan":
        """Return the plan for one environment, with its overrides applied.

        Raises:
            BadConfig: the environment's overrides have an unknown key.
        """
        own = self.own.get(environment, {})
        if odd := set(own) - {*OF_ENVS}:
            raise BadConfig(no_such(f"part of the plan of {environment}", min(odd), OF_ENVS))
        return replace(self, envs=(environment,), own={}, **own)


def choose(environment: str, plan: EvaluationPlan, plays: str = "") -> list[Task]:
    """Return the tasks to play: the first tasks of the split's fixed list, or all tasks of a smaller split.

    Each difficulty contributes the same number of tasks. `plays` names the method that plays the environment: `oracle`,
    `expert`, or an empty string for an agent.

    Raises:
        BadConfig: the difficulties are invalid or make no difference.
        UnknownName: the environment lacks the plan's split.
        CannotPlay: the environment lacks the method `plays`.
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
    """Return the tasks grouped by the environment options they are played with: one part for each difficulty.

    If the plan sets no difficulties, there is one part.
    """
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
    number = plan.tasks or env.size(split) or UNCOUNTED
    env.tasks(1, split)  # errors of the environment itself are raised here
    pool = env.pooled(split)
    tasks = listed(env, number, split) if pool is None else pool[: plan.tasks or None]
    env.close()
    return tasks


def listed(env: TextEnv, most: int, split: str) -> list[Task]:
    """Return the first `most` tasks of a split, or all distinct tasks of a smaller split."""
    try:
        return env.tasks(most, split)
    except BadConfig:
        return env.up_to(most, split)
