"""Which tasks a step of training plays: generated ones by number, a file's in a new order every epoch."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from agentgym.core import TextEnv
from agentgym.seeding import generator
from agentgym.tasks import Task


def first_tasks(env: TextEnv, tasks: int) -> list[Task]:
    """Return the first tasks of an environment's split: all of them, and a warning, where it has fewer than asked for."""
    found = env.up_to(tasks)
    if len(found) < tasks:
        warnings.warn(
            f"{len(found)} tasks of the split {env.split!r} are evaluated, not {tasks}: it has no more", stacklevel=2
        )
    return found


@dataclass(frozen=True, slots=True)
class Draw:
    """A task to play."""

    task: Task
    epoch: int = 0
    """How often the split was gone through before: part of the seeds and the session, so that a task which comes twice in
    a step is played in two ways."""


class Draws:
    """The tasks of the training split by their place in the run."""

    def __init__(self, env: TextEnv, seed: int, split: str = "train") -> None:
        self.env, self.seed, self.split = env, seed, split

    @cached_property
    def _tasks(self) -> list[Task] | None:
        """The tasks of a file, none twice, as their numbers may be; a run that only measures needs none."""
        size = self.env.size(self.split)
        return None if size is None else self.env.up_to(size, self.split)

    @property
    def finite(self) -> bool:
        """Whether the split has so many tasks and no more."""
        return self._tasks is not None

    def at(self, places: Iterable[int], stream: str) -> list[Draw]:
        """Return the tasks at some places of a stream: of a file, each epoch of a stream is a permutation of its own."""
        if self._tasks is None:
            return [Draw(self.env.numbered(place, self.split)) for place in places]
        orders: dict[int, list[int]] = {}
        found: list[Draw] = []
        for epoch, place in (divmod(place, len(self._tasks)) for place in places):
            if epoch not in orders:
                orders[epoch] = generator("epoch", self.seed, stream, epoch).permutation(len(self._tasks)).tolist()
            found.append(Draw(self._tasks[orders[epoch][place]], epoch))
        return found
