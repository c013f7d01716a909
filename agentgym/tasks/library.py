"""The tasks of a file, by split and by id."""

from dataclasses import dataclass, field
from functools import cached_property

from agentgym.core.seeding import share
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig, UnknownName, no_such

HASHED = {"train": 0.8, "valid": 0.1, "test": 0.1}
"""Splits of a file that names none, with their shares."""
ALL = "all"
"""The split that is the whole file."""


@dataclass(frozen=True)
class Library:
    """Tasks in the order of their file."""

    source: str
    tasks: tuple[Task, ...]
    noun: str = "task"
    """What its readers call a task."""
    _kept: dict[str, list[Task]] = field(default_factory=dict[str, list[Task]], repr=False)

    @cached_property
    def splits(self) -> dict[str, float]:
        """The names of the splits with their shares of the tasks; `all` is the whole file and decides nothing."""
        counts: dict[str, float] = {} if any(t.split not in HASHED for t in self.tasks) else dict.fromkeys(HASHED, 0.0)
        for task in self.tasks:
            counts[task.split] = counts.get(task.split, 0.0) + 1 / len(self.tasks)
        return {**counts, ALL: 0.0}

    @cached_property
    def by_id(self) -> dict[str, Task]:
        """The tasks by id."""
        return {task.id: task for task in self.tasks}

    def find(self, task_id: str) -> Task:
        """Return the task with that id; UnknownName with the closest where there is none."""
        if task_id not in self.by_id:
            raise UnknownName(no_such(self.noun, task_id, self.by_id))
        return self.by_id[task_id]

    def of_split(self, split: str) -> list[Task]:
        """Return the tasks of a split in the order of the file; UnknownName, or BadConfig where there are none."""
        if split not in self.splits:
            raise UnknownName(no_such("split", split, self.splits))
        if split not in self._kept:
            self._kept[split] = [task for task in self.tasks if split in (ALL, task.split)]
        if not self._kept[split]:
            raise BadConfig(f"{self.source} has no {self.noun} of split {split!r}; split {ALL!r} is the whole file")
        return self._kept[split]


def hashed(*key: str) -> str:
    """Return the split that the hash of a kind of file and an id decides, where the file names none."""
    place = share(*key)
    return "train" if place < HASHED["train"] else "valid" if place < HASHED["train"] + HASHED["valid"] else "test"
