"""A minimal environment: guess a hidden number."""

from collections.abc import Iterator

import numpy as np

from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, TextEnv
from agentgym.core.tasks import Task


class GuessNumber(TextEnv):
    """Find a hidden number; the environment says higher or lower."""

    horizon = 12
    hardest = 1000
    declared = Declarations(answers=("secret",), expert_bound=1.0)

    def limit_of(self, task: Task) -> int:
        """Return `horizon` if it was set, else 1.5 times the guesses of binary search, rounded down, but at least 12."""
        halvings = int(task.data["limit"]).bit_length()
        return self.horizon if "horizon" in self.__dict__ else max(self.horizon, halvings + halvings // 2)

    def begin(self, task: Task) -> str:
        self.secret, self.low, self.high = task.data["secret"], 1, task.data["limit"]
        return f"I'm thinking of a number from 1 to {self.high}. Guess it."

    def act(self, action: str) -> str | Outcome:
        word = action.strip()
        if not (word.isascii() and word.isdigit() and len(word) <= max(len(str(self.task.data["limit"])), 19)):
            return self.invalid(f"{word[:40]!r} is not a number. Reply with a number, for example 7.")
        guess = int(word)
        if guess == self.secret:
            return self.win("Right.")
        if guess < self.secret:
            self.low = max(self.low, guess + 1)
            return "Higher."
        self.high = min(self.high, guess - 1)
        return "Lower."

    def state(self) -> tuple[int, int, int]:
        return self.secret, self.low, self.high

    def oracle(self) -> Iterator[str]:
        yield str(self.secret)

    def expert(self) -> Iterator[str]:
        while True:
            yield str((self.low + self.high) // 2)

    def hint(self, level: float) -> str:
        """Return a sentence with a range; `level`, from 0 to 1, is the share cut off on either side of the number."""
        below, above = self.secret - self.low, self.high - self.secret
        return f"It is from {self.secret - round(below * (1 - level))} to {self.secret + round(above * (1 - level))}."

    @staticmethod
    def generate(rng: np.random.Generator, difficulty: int) -> Task:
        limit: int = 100 * 10**difficulty
        wide = limit >= 2**63  # beyond int64
        drawn = int.from_bytes(rng.bytes(difficulty + 20)) % limit + 1 if wide else rng.integers(1, limit, endpoint=True)
        return Task(instruction="guess", data={"secret": int(drawn), "limit": limit})
