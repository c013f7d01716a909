"""An environment whose tasks are those of a file."""

from agentgym import Task
from agentgym.envs.guess_number import GuessNumber


class File(GuessNumber):
    """Five tasks, as of a file."""

    def numbered(self, number, split=None, difficulty=None):
        number %= 5
        return Task("guess", {"secret": 10 + number, "limit": 100}, f"file-{number}", split or self.split)

    def size(self, split=None):
        return 5

    def find(self, task_id):
        return self.numbered(int(task_id.removeprefix("file-")))
