"""Task samplers that remember the results of each task, for tasks that repeat (from a file or a pool)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from agentgym.core.seeding import generator
from agentgym.errors import BadConfig
from agentgym.rollout.draw import Draw
from agentgym.trainers.samplers.interface import GroupOutcome, TaskSource, Uniform, sampler
from agentgym.trainers.seam import Within


class SuccessHistory(Uniform):
    """Counts successes and attempts of each repeating task; each new result multiplies the earlier counts by `decay`."""

    def __init__(self, sources: Sequence[TaskSource], name: str, decay: float) -> None:
        super().__init__(sources)
        files = [source.name for source in sources if source.finite]
        if not files:
            raise BadConfig(
                f"sampler {name!r} has no effect: it remembers how each task went, and the generated tasks of "
                f"{', '.join(self.sources)} never repeat. Set --env.pool N to train on N of them, or use sampler 'window'"
            )
        self.decay = decay
        self.past: dict[str, dict[str, list[float]]] = {name: {} for name in files}
        """Decayed (successes, attempts) by environment and task id."""

    def rate(self, env: str, task_id: str) -> float:
        """Return a task's expected success rate, (successes + 1) / (attempts + 2) of decayed counts; 1/2 if unseen."""
        successes, attempts = self.past[env].get(task_id, (0.0, 0.0))
        return (successes + 1) / (attempts + 2)

    def update(self, groups: Sequence[GroupOutcome]) -> None:
        """Add the successes and attempts of the groups to the history of their tasks."""
        for group in groups:
            if group.env in self.past and group.successes:
                successes, attempts = self.past[group.env].get(group.task_id, (0.0, 0.0))
                self.past[group.env][group.task_id] = [
                    self.decay * successes + sum(group.successes),
                    self.decay * attempts + len(group.successes),
                ]

    def measures(self, step: int) -> dict[str, Mapping[str, float]]:
        """Return `tasks_seen` and `expected_success`, the mean `rate` of these tasks (nan without any), by environment."""
        rates = {env: [self.rate(env, task) for task in tasks] for env, tasks in self.past.items()}
        expected = {env: sum(values) / len(values) if values else math.nan for env, values in rates.items()}
        return {"tasks_seen": {env: len(values) for env, values in rates.items()}, "expected_success": expected}

    def state_dict(self) -> dict[str, object]:
        """Return the position in each environment's stream, and the history."""
        return {**super().state_dict(), "past": self.past}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        self.past = {env: {task: list(pair) for task, pair in tasks.items()} for env, tasks in state["past"].items()}


@sampler("prioritized")
class Prioritized(SuccessHistory):
    """Draws tasks of a file or a pool with probability proportional to p(1 - p); p is their expected success rate (`rate`).

    Tasks that always or never succeed give no training signal. The probability of a task is (1 - `floor`) p(1 - p) /
    sum + `floor` / tasks, so no task is dropped completely. One call of `draw` repeats a task only after it has drawn
    all others. p(1 - p) is the variance of a binary reward; its use as a measure of learnability is from arXiv
    2502.12272. Environments in the run with generated tasks are sampled as in `uniform`.
    """

    def __init__(
        self,
        sources: Sequence[TaskSource],
        *,
        floor: Annotated[float, Within(0, 1)] = 0.1,
        decay: Annotated[float, Within(0, 1)] = 0.7,
    ) -> None:
        super().__init__(sources, "prioritized", decay)
        if floor == 1:
            raise BadConfig("sampler 'prioritized' has floor 1, which makes all tasks alike; use sampler 'uniform'")
        self.floor = floor
        self.times: dict[str, dict[str, int]] = {name: {} for name in self.past}
        """Number of times each task was drawn, by environment and task id."""

    def draw(self, step: int, number: int) -> list[Draw]:
        """Return the next `number` tasks, drawn with the probabilities of `chances`."""
        turns = self._turns(number)
        drawn = {name: iter(self._drawn(name, turns.count(name))) for name in dict.fromkeys(turns)}
        return [next(drawn[name]) for name in turns]

    def chances(self, env: str) -> npt.NDArray[np.float64]:
        """Return the probability of each task of an environment with a file or pool, [tasks]; they sum to 1."""
        rates = np.array([self.rate(env, task.id) for task in self.sources[env].tasks or ()])
        worth = rates * (1 - rates)
        return (1 - self.floor) * worth / worth.sum() + self.floor / len(worth)

    def _drawn(self, name: str, number: int) -> list[Draw]:
        tasks = self.sources[name].tasks
        if tasks is None:
            return [self._next(name) for _ in range(number)]
        rng = generator("prioritized", self.sources[name].seed, name, self.places[name])
        self.places[name] += number
        chances = self.chances(name)
        places: list[int] = []
        while len(places) < number:
            size = min(number - len(places), len(tasks))
            places += rng.choice(len(tasks), size=size, replace=False, p=chances).tolist()
        draws: list[Draw] = []
        for task in (tasks[place] for place in places):
            times = self.times[name].get(task.id, 0)
            self.times[name][task.id] = times + 1
            draws.append(Draw(task, times, name))
        return draws

    def state_dict(self) -> dict[str, object]:
        """Return the positions, the history and the number of draws of each task."""
        return {**super().state_dict(), "times": self.times}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        self.times = {env: dict(times) for env, times in state["times"].items()}


@sampler("hard_attempts")
class HardAttempts(SuccessHistory):
    """Draws every task in turn, with more attempts for tasks with less success (similar to DARS, arXiv 2508.13755).

    A task with success rate p gets `least` + (`most` - `least`)(1 - p) attempts, rounded. An unseen task gets the run's
    group size. DARS estimates p by separate attempts; here p comes from earlier steps.
    """

    def __init__(
        self,
        sources: Sequence[TaskSource],
        *,
        least: Annotated[int, Within(2)] = 2,
        most: Annotated[int, Within(2, 100_000)] = 16,
        decay: Annotated[float, Within(0, 1)] = 0.7,
    ) -> None:
        super().__init__(sources, "hard_attempts", decay)
        if least >= most:
            raise BadConfig(f"sampler 'hard_attempts' has least {least} and most {most}; expected least below most")
        self.least, self.most = least, most

    def draw(self, step: int, number: int) -> list[Draw]:
        """Return the next tasks, each with its number of attempts."""
        return [replace(draw, attempts=self._attempts(draw)) for draw in super().draw(step, number)]

    def _attempts(self, draw: Draw) -> int | None:
        if draw.task.id not in self.past.get(draw.env, {}):
            return None
        return round(self.least + (self.most - self.least) * (1 - self.rate(draw.env, draw.task.id)))
