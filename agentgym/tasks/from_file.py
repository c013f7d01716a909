"""Environments whose tasks are the rows of a file."""

from collections.abc import Sequence
from typing import ClassVar

from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.tasks.library import Library
from agentgym.tasks.reading import Reading, reading


class FromFile(TextEnv):
    """An environment over the user's own copy of a published dataset; a subclass defines `read_file`."""

    task_settings: ClassVar[tuple[str, ...]] = ("strict", "ignore")
    caller_settings: ClassVar[tuple[str, ...]] = ("data",)
    settings: ClassVar[tuple[str, ...]] = (*caller_settings, *task_settings)
    data: str = ""
    """Path of the file."""
    strict: bool = False
    """Refuse a file that has a bad row; by default bad rows are skipped, and a warning counts them."""
    ignore: Sequence[str] = ()
    """Columns to ignore; a file with text in any other unknown column is refused."""

    @staticmethod
    def read_file(path: str, reading: Reading) -> Library:
        """Return the tasks of a file; raise BadData, with the location, if the file cannot be used."""
        raise NotImplementedError("a subclass defines read_file")

    def check_options(self) -> None:
        self.library = self.read_file(self.data, reading(self.strict, self.ignore))
        self.splits = self.library.splits
        super().check_options()

    def split_key(self, task: Task) -> object:
        """Return the task's id; its hash decides the split of a row that names none."""
        return task.id

    def content_key(self, task: Task) -> object:
        """Return the task's instruction."""
        return task.instruction

    def split_of(self, task: Task) -> str:
        """Return the split that the reader assigned to the row."""
        return task.split

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the task of a split with this number; numbers beyond the end wrap around."""
        tasks = self.library.of_split(self._split_for(number, split))
        return tasks[number % len(tasks)]

    def find(self, task_id: str) -> Task:
        """Return the task with this id."""
        return self.library.find(task_id)

    def size(self, split: str | None = None) -> int | None:
        """Return the number of tasks in a split, by default in the environment's own split."""
        return len(self.library.of_split(split or self.split))
