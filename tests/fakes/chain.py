"""A chain of turns in which every action goes on: what comes is known, so values can be computed by hand."""

import agentgym
from agentgym import Outcome, Task
from agentgym.envs.guess_number import GuessNumber

LENGTH = 4


class Chain(GuessNumber):
    """Four turns; a gold chain pays 1 at its end, a lead one nothing."""

    def numbered(self, number, split=None, difficulty=None):
        data = {"secret": 1, "limit": 9, "metal": ("gold", "lead")[number % 2]}
        return Task("walk", data, f"chain-{number % 2}", split or self.split)

    def size(self, split=None):
        return 2

    def find(self, task_id):
        return self.numbered(int(task_id.rpartition("-")[2]))

    def begin(self, task):
        super().begin(task)
        self.metal, self.left = task.data["metal"], LENGTH
        return f"{self.metal} {self.left}"

    def act(self, action):
        self.left -= 1
        if self.left:
            return Outcome(f"{self.metal} {self.left}")
        return self.win("end") if self.metal == "gold" else self.lose("end")

    def state(self):
        return self.metal, self.left


agentgym.register("small/Chain-v0", Chain, horizon=LENGTH)
