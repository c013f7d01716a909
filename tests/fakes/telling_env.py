"""An environment that ends with what would have been right; apart from its tests, whose imports take a worker a second."""

from agentgym.envs.frozen_lake import FrozenLake


class Telling(FrozenLake):
    """Ends with what would have been right."""

    fails = False

    def begin(self, task):
        if Telling.fails:
            raise OSError("a disk is full")
        return super().begin(task)

    def act(self, action):
        if Telling.fails:
            raise OSError("a disk is full")
        return self.win("right") if action == "right" else self.lose("wrong: it was right")
