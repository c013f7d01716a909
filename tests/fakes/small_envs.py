"""Environments of a second or two, in a module that worker processes import in no time: without torch."""

import time

import agentgym
from agentgym import Task
from agentgym.envs.guess_number import GuessNumber


class Small(GuessNumber):
    """Six tasks, as of a file, with numbers up to 4."""

    count, prefix, top = 6, "file", 4

    def numbered(self, number, split=None, difficulty=None):
        number %= self.count
        data = {"secret": 1 + number % self.top, "limit": self.top, "number": number}
        return Task("guess", data, f"{self.prefix}-{number}", split or self.split)

    def size(self, split=None):
        return self.count

    def find(self, task_id):
        return self.numbered(int(task_id.rpartition("-")[2]))


class Blocking(Small):
    """The same in a worker process."""

    blocking = True


class Uneven(Blocking):
    """Steps that wait, log-normally: most of them little, some long."""

    def act(self, action):
        time.sleep(0.02 * float(self.np_random.lognormal()))
        return super().act(action)


class Generated(GuessNumber):
    """Generated tasks, larger by one with each difficulty."""

    @staticmethod
    def generate(rng, difficulty):
        limit = 4 + difficulty
        return Task(
            "guess", {"secret": int(rng.integers(1, limit, endpoint=True)), "limit": limit, "n": int(rng.integers(10**9))}
        )


class Silent(Small):
    """Has no expert."""

    def expert(self):
        raise NotImplementedError("this environment has no expert")


agentgym.register("small/File-v0", Small, horizon=4)
agentgym.register("small/Blocking-v0", Blocking, horizon=4)
agentgym.register("small/Uneven-v0", Uneven, horizon=4)
agentgym.register("small/Generated-v0", Generated, horizon=4)
agentgym.register("small/Silent-v0", Silent, horizon=4)
