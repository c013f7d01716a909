"""The task sampler stage: it chooses the tasks of each step."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from agentgym.core.env import TextEnv
from agentgym.core.pool import fingerprint
from agentgym.core.seeding import generator
from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.rollout.draw import Draw
from agentgym.trainers.run import requirements, trial
from agentgym.trainers.seam import Seam, Stage, Stateful, Target, Within, parameters, required, unwritten

if TYPE_CHECKING:
    from agentgym.trainers.run.stages import FreshRun

T = TypeVar("T")
SAMPLE = 64
"""Number of generated tasks that are inspected to list an environment's wordings."""
SAMPLERS = Seam(
    "sampler",
    {
        "uniform": "agentgym.trainers.samplers.interface:Uniform",
        "window": "agentgym.trainers.samplers.interface:Window",
        "prioritized": "agentgym.trainers.samplers.history:Prioritized",
        "hard_attempts": "agentgym.trainers.samplers.history:HardAttempts",
        "starts": "agentgym.trainers.samplers.starts:Starts",
        "growing_horizon": "agentgym.trainers.samplers.growing:GrowingHorizon",
        "rising_temperature": "agentgym.trainers.samplers.rising_temperature:RisingTemperature",
        "questa": "agentgym.trainers.samplers.questa:QuestA",
        "absolute_zero": "agentgym.trainers.samplers.proposals:AbsoluteZero",
        "search_self_play": "agentgym.trainers.samplers.proposals:SearchSelfPlay",
        "difficulty_range": "agentgym.trainers.samplers.growing:DifficultyRange",
    },
    {"requires": ()},
)


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """Rewards and successes of the faultless episodes of one draw, over all processes."""

    env: str
    task_id: str
    difficulty: int
    rewards: tuple[float, ...]
    successes: tuple[bool, ...]
    label: str = ""
    """Label that the sampler gave the draw."""
    hinted: tuple[bool, ...] = ()
    """For each episode, in the order of `rewards`: True if it was played with a hint."""


def first_tasks(env: TextEnv, tasks: int) -> list[Task]:
    """Return the first `tasks` tasks of an environment's split; if it has fewer, return all and warn."""
    listed = env.up_to(tasks)
    if len(listed) < tasks:
        warnings.warn(
            f"{len(listed)} tasks of the split {env.split!r} are evaluated, not {tasks}: it has no more", stacklevel=2
        )
    return listed


class TaskSource:
    """The training tasks of one environment as an endless stream that is read by position.

    Generated tasks are taken by their number. Tasks of a file or a pool are shuffled differently in every epoch.
    """

    def __init__(self, env: TextEnv, seed: int, split: str = "train", name: str = "", weight: float = 1.0) -> None:
        self.env, self.seed, self.split, self.name, self.weight = env, seed, split, name, weight

    @cached_property
    def tasks(self) -> list[Task] | None:
        """The distinct tasks of a pool or file, in the order of their numbers; None if tasks are generated without limit."""
        size, pooled = self.env.size(self.split), self.env.pooled(self.split)
        return pooled if pooled is not None or size is None else self.env.up_to(size, self.split)

    @property
    def finite(self) -> bool:
        """True if the split has a finite number of tasks, determined without reading a file."""
        return self.env.has_pool or self.env.size(self.split) is not None

    def pool(self) -> dict[str, object] | None:
        """Return the task pool's size and hash; None without a pool."""
        pooled = self.env.pooled(self.split)
        return None if pooled is None else {"tasks": len(pooled), "hash": fingerprint(pooled)}

    def wordings(self) -> list[str]:
        """Return the wordings of the tasks (of generated tasks: the first ones); [] if there is only one wording."""
        env = self.env.unwrapped
        if not isinstance(env, TextEnv) or type(env).wordings_of is TextEnv.wordings_of:
            return []
        tasks = self.tasks
        return list(env.wordings_of([env.numbered(n, self.split) for n in range(SAMPLE)] if tasks is None else tasks))

    def within(self, difficulty: int) -> int:
        """Return `difficulty`, limited to the environment's `hardest`."""
        return difficulty if self.env.hardest is None else min(difficulty, self.env.hardest)

    def at(self, places: Iterable[int], stream: str, difficulty: int | None = None) -> list[Draw]:
        """Return the tasks at these positions of a stream; each epoch of a file's stream is its own permutation.

        `difficulty` applies to generated tasks; None means the environment's own difficulty.
        """
        if self.tasks is None:
            return [Draw(self.env.numbered(place, self.split, difficulty), env=self.name) for place in places]
        orders: dict[int, list[int]] = {}
        draws: list[Draw] = []
        for epoch, place in (divmod(place, len(self.tasks)) for place in places):
            if epoch not in orders:
                orders[epoch] = generator("epoch", self.seed, stream, epoch).permutation(len(self.tasks)).tolist()
            draws.append(Draw(self.tasks[orders[epoch][place]], epoch, self.name))
        return draws


class Sampler(Stateful, ABC):
    """Base class of task samplers: implement `draw`; the other methods are optional.

    A run creates it as `CLASS(sources, **options)`. Every process has its own instance, and all must draw the same
    tasks. It is also created once before anything is loaded, so that a BadConfig in its constructor appears early.
    """

    @abstractmethod
    def draw(self, step: int, number: int) -> list[Draw] | Awaitable[list[Draw]]:
        """Return the next `number` tasks of a step (counted from 0); it is called again if groups were dropped.

        It may be a coroutine. A keyword-only parameter `run` receives the run, for example to play demonstrations. Only
        the draws of this process, `run.share(draws)`, need a `start`; everything else must be equal in all processes.
        """

    def update(self, groups: Sequence[GroupOutcome]) -> None:
        """Receive the outcomes of a step's groups, for example to adapt a curriculum."""

    def completed(self, groups: Sequence[GroupOutcome]) -> list[Episode]:
        """Return additional episodes to train on that `draw` played in this process; called after the groups ended."""
        return []

    def measures(self, step: int) -> Mapping[str, float | Mapping[str, float]]:
        """Return numbers about the curriculum after a step, for `metrics.jsonl`: one number, or one per environment."""
        return {}

    def task(self, task_id: str) -> Task | None:
        """Return a task that the sampler made itself; None if the environment can find it by its id."""
        return None


def sampler(name: str, requires: Sequence[str] = ()) -> Callable[[Target], Target]:
    """Declare a class as a task sampler (see `Sampler`) and name it; keyword-only parameters of its constructor are options.

    `requires` lists requirements: `expert` if it plays demonstrations; `hint` if it draws hints, of a level up to
    its option `level` (1 without this option); `proposals` if its tasks are made in the step that plays them. A run
    that does not meet them is refused before anything is loaded.
    """
    return SAMPLERS.declare(name, requires=required(requires))


def dealt(weights: Mapping[str, float], number: int, owed: dict[str, float] | None = None) -> list[str]:
    """Return `number` keys of `weights`, each as often as its weight requires, spread evenly.

    `owed` is the remaining claim of each key, which the function updates; pass the same dict again to continue the
    sequence, or None to start one.
    """
    total, owed = sum(weights.values()), dict.fromkeys(weights, 0.0) if owed is None else owed
    turns: list[str] = []
    for _ in range(number):
        for name, weight in weights.items():
            owed[name] += weight / total
        turns.append(max(owed, key=lambda name: owed[name]))
        owed[turns[-1]] -= 1
    return turns


def progress(rates: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Return `success`, the mean of `rates` (nan if empty), and `groups`, their number, each by environment."""
    return {
        "success": {name: sum(values) / len(values) if values else math.nan for name, values in rates.items()},
        "groups": {name: len(values) for name, values in rates.items()},
    }


@sampler("uniform")
class Uniform(Sampler):
    """Draws every task once before any repeats; several environments alternate according to their weights."""

    def __init__(self, sources: Sequence[TaskSource]) -> None:
        self.sources = {source.name: source for source in sources}
        self.places = dict.fromkeys(self.sources, 0)
        self.owed = dict.fromkeys(self.sources, 0.0)

    def draw(self, step: int, number: int) -> list[Draw]:
        """Return the next `number` tasks."""
        return [self._next(name) for name in self._turns(number)]

    def generated(self, by_env: Mapping[str, T]) -> dict[str, T]:
        """Return the entries of environments with generated tasks; the difficulty of tasks from files cannot be adjusted."""
        return {name: value for name, value in by_env.items() if not self.sources[name].finite}

    def _next(self, name: str, difficulty: int | None = None) -> Draw:
        place, self.places[name] = self.places[name], self.places[name] + 1
        return self.sources[name].at([place], "train", difficulty)[0]

    def _turns(self, number: int) -> list[str]:
        return dealt({name: source.weight for name, source in self.sources.items()}, number, self.owed)

    def state_dict(self) -> dict[str, object]:
        """Return the position in each environment's stream and the state of their alternation."""
        return {"places": self.places, "owed": self.owed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.places, self.owed = dict(state["places"]), dict(state["owed"])


@sampler("window")
class Window(Uniform):
    """Adjusts each environment's difficulty to keep the share of successful episodes between `low` and `high`.

    After every `groups` groups of an environment, its difficulty rises by one if that share is above `high`, and falls
    by one if it is below `low`. It begins at `start`; the maximum is the smaller of `most` and the environment's
    `hardest`. Tasks from files keep their difficulty.
    """

    def __init__(
        self,
        sources: Sequence[TaskSource],
        *,
        low: Annotated[float, Within(0, 1)] = 0.2,
        high: Annotated[float, Within(0, 1)] = 0.8,
        groups: Annotated[int, Within(1)] = 32,
        start: Annotated[int, Within(0)] = 0,
        most: Annotated[int, Within(0)] = 100,
    ) -> None:
        super().__init__(sources)
        if low >= high:
            raise BadConfig(f"sampler 'window' has low {low:g} and high {high:g}; expected low below high")
        if start > most:
            raise BadConfig(f"sampler 'window' has start {start} and most {most}; expected start at most as high")
        if all(source.finite for source in sources):
            raise BadConfig(
                f"sampler 'window' has no effect: it adapts the difficulty of generated tasks, and those of "
                f"{', '.join(self.sources)} come from a file. Use sampler 'prioritized'"
            )
        self.low, self.high, self.groups, self.most = low, high, groups, most
        self.difficulty = dict.fromkeys(self.sources, start)
        self.rates: dict[str, list[float]] = {name: [] for name in self.sources}

    def draw(self, step: int, number: int) -> list[Draw]:
        """Return the next tasks, each at its environment's current difficulty."""
        return [self._next(name, self.difficulty[name]) for name in self._turns(number)]

    def update(self, groups: Sequence[GroupOutcome]) -> None:
        """Count successes, and adjust the difficulty once enough groups have been counted."""
        for group in groups:
            if group.successes and group.difficulty == self.difficulty[group.env]:
                self.rates[group.env].append(sum(group.successes) / len(group.successes))
        for name, rates in self.rates.items():
            if len(rates) >= self.groups:
                rate = sum(rates) / len(rates)
                change = (rate > self.high) - (rate < self.low)
                target = min(max(self.difficulty[name] + change, 0), self.most)
                self.difficulty[name] = self.sources[name].within(target)
                rates.clear()

    def measures(self, step: int) -> dict[str, Mapping[str, float]]:
        """Return `difficulty`, and `success` and `groups` since the last decision, each by environment."""
        return {"difficulty": self.generated(self.difficulty), **progress(self.generated(self.rates))}

    def state_dict(self) -> dict[str, object]:
        """Return the positions, the difficulties and the counted success rates."""
        return {**super().state_dict(), "difficulty": self.difficulty, "rates": self.rates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        self.difficulty = dict(state["difficulty"])
        self.rates = {name: list(rates) for name, rates in state["rates"].items()}


_BOUND = {
    "expert": ("its episodes begin inside a demonstration", "hold such a point", "no other process has that point"),
    "proposals": (
        "its tasks are made in the step that plays them",
        "hold them",
        "its proposals belong to one process",
    ),
}
"""Parts of error messages by requirement: why draws belong to one step of one process, what a checkpoint cannot store,
and why a task queue does not work."""


def check(run: "FreshRun") -> None:
    """Check that the task sampler works in this run and together with its selection.

    Raises:
        BadConfig: the run or the selection does not suit the sampler.
    """
    sampler = run.stages.sampler
    for requirement in sampler.attributes["requires"]:
        if requirement in _BOUND:
            _check_bound(run, sampler, *_BOUND[requirement])
    if lacks := unwritten(sampler.target, Sampler):
        raise BadConfig(
            f"sampler {run.config.sampler!r} lacks {lacks}; let its class inherit from agentgym.trainers.Sampler"
        )
    if run.config.steps:
        sampler(run.sources)
        requirements.check(sampler, run)
        trial.attempt(run, sampler, lambda stage, alone, _: _try(stage, run.sources, alone))
        _check_beside(sampler, run.stages.selection)


def _try(stage: Stage, sources: Sequence[TaskSource], alone: trial.TrialRun) -> None:
    """Draw two tasks, report made-up outcomes, and save and restore the state.

    Raises:
        BadConfig: `draw` does not return a list of draws, or `measures` does not return a mapping.
    """
    sampler: Sampler = stage(sources)
    drawing: Any = sampler.draw
    draws: Any = drawing(0, 2, **({"run": alone} if "run" in parameters(drawing) else {}))
    if trial.awaited(draws):
        return
    if not isinstance(draws, list) or not all(isinstance(draw, Draw) for draw in cast("list[object]", draws)):
        raise BadConfig(f"sampler {stage.name!r} drew {draws!r:.80}; expected a list of Draw")
    ended = [(draw, draw.env or sources[0].name) for draw in cast("list[Draw]", draws)]
    outcome: dict[str, Any] = {"rewards": (0.0, 1.0), "successes": (False, True), "hinted": (False, False)}
    sampler.update([GroupOutcome(env, d.task.id, d.task.difficulty, label=d.label, **outcome) for d, env in ended])
    if not isinstance(cast("object", sampler.measures(0)), Mapping):
        raise BadConfig(f"sampler {stage.name!r}: measures() returned no mapping; expected names with numbers")
    other: Sampler = stage(sources)
    other.load_state_dict(sampler.state_dict())


def _check_bound(run: "FreshRun", sampler: Stage, why: str, stored: str, queued: str) -> None:
    """Check that no setting plays the sampler's draws in another step or process.

    `why`, `stored` and `queued` are parts of the messages.

    Raises:
        BadConfig: async_level or task_queue does so.
    """
    why = f"with sampler {sampler.name!r}: {why}, and"
    if run.config.async_level:
        raise BadConfig(
            f"async_level is {run.config.async_level} {why} a checkpoint cannot {stored} for episodes in flight; use "
            "another sampler, or leave async_level at 0"
        )
    if run.config.task_queue:
        raise BadConfig(f"task_queue {why} {queued}; use another sampler, or leave it off")


def _check_beside(sampler: Stage, selection: Stage) -> None:
    """Check that the episodes that the selection adds are compatible with the sampler's draws.

    Raises:
        BadConfig: they are incompatible.
    """
    both = f"sampler {sampler.name!r} with select {selection.name!r}"
    draws, plays = set(sampler.attributes["requires"]), set(selection.attributes["requires"])
    if "hint" in draws and "hint" in plays:
        raise BadConfig(
            f"{both}: both play with hints, and what fails with one hint would be played with another; use sampler "
            "'uniform' or select 'drop'"
        )
    if "expert" in draws and (plays or selection.attributes["worth"]):
        raise BadConfig(
            f"{both}: its episodes begin inside a demonstration, and those that the selection adds begin elsewhere, so they "
            "cannot be compared; use select 'drop' or 'refill'"
        )
    if "proposals" in draws and {"expert", "hint"} & plays:
        raise BadConfig(
            f"{both}: what the selection plays at a task of proposing has no solvers, so nobody knows what it is worth; use "
            "select 'keep', 'drop' or another that plays nothing itself"
        )
