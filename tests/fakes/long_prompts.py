"""A guessing game whose tasks of odd number do not fit the context: in two processes, all of the second one's."""

import agentgym
from agentgym.envs.guess_number import GuessNumber


class LongPrompts(GuessNumber):
    """A guessing game."""

    def begin(self, task):
        return super().begin(task) + " Guess it." * (400 if int(task.id.rsplit("/", 1)[1]) % 2 else 0)


agentgym.register("me/LongPrompts-v0", LongPrompts, horizon=2)
