"""Environments whose tasks are all rows of a file."""

from collections.abc import Sequence
from typing import ClassVar

from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.tasks.library import Library
from agentgym.tasks.reading import Reading, reading


class FromFile(TextEnv):
    """An environment over the rows of the caller's own copy of a published set; a subclass defines `read_file`."""

    task_settings: ClassVar[tuple[str, ...]] = ("strict", "ignore")
    caller_settings: ClassVar[tuple[str, ...]] = ("data",)
    settings: ClassVar[tuple[str, ...]] = (*caller_settings, *task_settings)
    data: str = ""
    """The path of the file."""
    strict: bool = False
    """Whether one bad row refuses the file; else such rows are left out, with a warning of how many."""
    ignore: Sequence[str] = ()
    """Columns of the file that are left out on purpose."""

    @staticmethod
    def read_file(path: str, reading: Reading) -> Library:
        """Return the tasks of a file; BadData with the place of what is wrong."""
        raise NotImplementedError("a subclass defines read_file")

    def check_options(self) -> None:
        self.library = self.read_file(self.data, reading(self.strict, self.ignore))
        self.splits = self.library.splits
        super().check_options()

    def split_key(self, task: Task) -> object:
        """Return the id, which decides the split where the file names none."""
        return task.id

    def content_key(self, task: Task) -> object:
        """Return what is asked."""
        return task.instruction

    def split_of(self, task: Task) -> str:
        """Return the split that the reader gave the row."""
        return task.split

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return a row of a split, counted round and round."""
        tasks = self.library.of_split(self._split_for(number, split))
        return tasks[number % len(tasks)]

    def find(self, task_id: str) -> Task:
        """Return the row with that id."""
        return self.library.find(task_id)

    def size(self, split: str | None = None) -> int | None:
        """Return the number of rows in a split."""
        return len(self.library.of_split(split or self.split))
