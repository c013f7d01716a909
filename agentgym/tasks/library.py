"""The tasks of a file, by split and by id."""

from dataclasses import dataclass, field
from functools import cached_property

from agentgym.core.seeding import share
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig, UnknownName, no_such

HASHED = {"train": 0.8, "valid": 0.1, "test": 0.1}
"""Splits and their shares for rows that name no split."""
ALL = "all"
"""The split that contains the whole file."""


@dataclass(frozen=True)
class Library:
    """The tasks of a file, in file order."""

    source: str
    tasks: tuple[Task, ...]
    noun: str = "task"
    """Word that error messages use for a task."""
    _by_split: dict[str, list[Task]] = field(default_factory=dict[str, list[Task]], repr=False)

    @cached_property
    def splits(self) -> dict[str, float]:
        """Shares of the tasks by split; `all` is the whole file and has share 0."""
        counts: dict[str, float] = {} if any(t.split not in HASHED for t in self.tasks) else dict.fromkeys(HASHED, 0.0)
        for task in self.tasks:
            counts[task.split] = counts.get(task.split, 0.0) + 1 / len(self.tasks)
        return {**counts, ALL: 0.0}

    @cached_property
    def by_id(self) -> dict[str, Task]:
        """Tasks by id."""
        return {task.id: task for task in self.tasks}

    def find(self, task_id: str) -> Task:
        """Return the task with this id.

        Raises:
            UnknownName: no task has this id; the message suggests the closest.
        """
        if task_id not in self.by_id:
            raise UnknownName(no_such(self.noun, task_id, self.by_id))
        return self.by_id[task_id]

    def of_split(self, split: str) -> list[Task]:
        """Return the tasks of a split in file order.

        Raises:
            UnknownName: the file has no such split.
            BadConfig: the split has no tasks.
        """
        if split not in self.splits:
            raise UnknownName(no_such("split", split, self.splits))
        if split not in self._by_split:
            self._by_split[split] = [task for task in self.tasks if split in (ALL, task.split)]
        if not self._by_split[split]:
            raise BadConfig(f"{self.source} has no {self.noun} of split {split!r}; split {ALL!r} is the whole file")
        return self._by_split[split]


def hashed(*key: str) -> str:
    """Return the split that the hash of the key decides; the key is the kind of file and the task's id."""
    place = share(*key)
    return "train" if place < HASHED["train"] else "valid" if place < HASHED["train"] + HASHED["valid"] else "test"
