"""Tasks and their numbers, and the splits to which they belong."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym.core.seeding import generator, share
from agentgym.errors import BadConfig, UnknownName, no_such

Data = dict[str, Any]
"""The environment's data of a task, by name."""
DRAWS = 5000  # a split without a task in this number of draws counts as empty


@dataclass(frozen=True)
class Task:
    """One task. `data` contains everything the environment needs, including answers that the agent must not see."""

    instruction: str = ""
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    id: str = ""
    """Unique name: `split/difficulty/number` for a generated task; a task from a file has the file's id."""
    split: str = ""
    difficulty: int = 0


def _no_generator(rng: np.random.Generator, difficulty: int) -> Task:
    raise NotImplementedError("this environment defines no tasks: define generate(rng, difficulty)")


class TaskSpace:
    """All tasks of an environment; each has a number, and its content determines its split."""

    splits: Mapping[str, float] = {"train": 0.8, "valid": 0.1, "test": 0.1}
    """Names of the splits, each with its share of all tasks."""
    split: str = "train"
    difficulty: int = 0
    hardest: int | None = None
    """Maximum difficulty of generated tasks, because harder ones take long to generate; None means no limit."""

    generate: Callable[[np.random.Generator, int], Task] = staticmethod(_no_generator)
    """Function that draws a task of a difficulty with a random generator; a subclass defines it as a method, static or
    not."""

    def split_key(self, task: Task) -> object:
        """Return the value whose hash determines the task's split: by default its instruction and data."""
        return task.instruction, sorted(task.data.items())

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the task with this number in a split; it is the same on every machine.

        None means the environment's own split or difficulty.

        Raises:
            UnknownName: the split does not exist.
            BadConfig: the number is negative, the difficulty is out of range, or it has too few different tasks to split.
        """
        kind, split = type(self).__name__, self._split_for(number, split)
        difficulty = self.difficulty if difficulty is None else difficulty
        if self.hardest is not None and difficulty > self.hardest:
            raise BadConfig(f"difficulty {str(difficulty)[:20]} of {kind}: it makes tasks of difficulty 0 to {self.hardest}")
        for attempt in range(DRAWS):
            drawn = self.generate(generator(kind, split, difficulty, number, attempt), difficulty)
            if self.split_of(drawn) == split:
                return dataclasses.replace(drawn, id=f"{split}/{difficulty}/{number}", split=split, difficulty=difficulty)
        raise BadConfig(
            f"{kind} at difficulty {difficulty} has no task for split {split!r} in {DRAWS} draws: "
            "its space of tasks is too small to split; raise the difficulty"
        )

    def _split_for(self, number: int, split: str | None) -> str:
        """Return the split of a task number: `split`, or the environment's own if it is None.

        Raises:
            UnknownName: the split does not exist.
            BadConfig: the number is negative.
        """
        split = split or self.split
        if split not in self.splits:
            raise UnknownName(no_such(f"split of {type(self).__name__}", split, self.splits))
        if number < 0:
            raise BadConfig(f"task number {number} of {type(self).__name__}: numbers start at 0")
        return split

    def split_of(self, task: Task) -> str:
        """Return the split to which a task belongs; it depends on the hash of `split_key`, never on a seed."""
        where, total = share(type(self).__name__, repr(self.split_key(task))), 0.0
        for split, size in self.splits.items():
            total += size
            if where < total:
                return split
        return list(self.splits)[-1]  # shares that sum to a little less than 1

    def draw(self, rng: np.random.Generator) -> Task:
        """Return a random task of the environment's split."""
        return self.numbered(int(rng.integers(2**31)))

    def named_task(self, task: object, rng: np.random.Generator) -> Task:
        """Return the task given as a Task, an id or a number within the split; None draws one at random.

        Raises:
            BadConfig: `task` has another type.
        """
        if task is None:
            return self.draw(rng)
        if isinstance(task, str):
            return self.find(task)
        if isinstance(task, int) and not isinstance(task, bool):
            return self.numbered(task)
        if not isinstance(task, Task):
            raise BadConfig(f"reset option task is {task!r:.80}; expected a Task, an id or a number")
        return task

    def size(self, split: str | None = None) -> int | None:
        """Return the number of tasks in a split; None if tasks are generated and their number is unknown."""
        return None

    def content_key(self, task: Task) -> object:
        """Return the content that must not occur in two splits: the split key, unless the key is only a name."""
        return self.split_key(task)

    def tasks(self, n: int, split: str | None = None) -> list[Task]:
        """Return the first `n` distinct tasks of a split, the fixed list for evaluations.

        Raises:
            BadConfig: the split has fewer than `n` distinct tasks.
        """
        listed = self.up_to(n, split)
        if len(listed) < n:
            kind = type(self).__name__
            raise BadConfig(f"split {split or self.split!r} of {kind} has {len(listed)} different tasks; {n} were asked for")
        return listed

    def up_to(self, n: int, split: str | None = None) -> list[Task]:
        """Return the first `n` distinct tasks of a split; fewer if the first 20 n + 100 task numbers have fewer."""
        distinct: dict[str, Task] = {}
        for number in range(20 * n + 100):
            if len(distinct) == n:
                break
            task = self.numbered(number, split)
            distinct.setdefault(repr((task.instruction, sorted(task.data.items()))), task)
        return list(distinct.values())

    def find(self, task_id: str) -> Task:
        """Return the task with this id.

        Raises:
            BadConfig: the id is malformed.
            UnknownName: no task has this id.
        """
        parts = task_id.rsplit("/", 2)
        if len(parts) != 3 or parts[0] not in self.splits or not (parts[1].isdecimal() and parts[2].isdecimal()):
            raise BadConfig(f"task id {task_id!r}: expected SPLIT/DIFFICULTY/NUMBER, for example {self.split}/0/17")
        return self.numbered(int(parts[2]), parts[0], int(parts[1]))
