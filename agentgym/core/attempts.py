"""Base class for environments with one answer per task that allow several attempts: "Let's try again"."""

import hashlib
from typing import ClassVar

from agentgym.core.env import TextEnv
from agentgym.core.outcome import Outcome
from agentgym.errors import BadConfig


class Attempts(TextEnv):
    """An environment that judges answers and lets an agent try again if the caller allows it (`attempts=k`).

    The response to a wrong answer does not reveal the right one, and the k-th wrong answer ends the episode (unary
    feedback: "A Simple 'Try Again' Can Elicit Multi-Turn LLM Reasoning", 2025). A solution is paid 1 in any attempt.
    `shaping={"promptness": w}` adds w times the share of attempts that were left, counting the successful one: the
    total is 1 + w for the first of k attempts, 1 + w / k for the last, and 0 for a failure.

    A subclass adds `*Attempts.settings` to its settings, returns `self.judged(…)` from its tool, and includes
    `self.attempts_state()` in its `state()`.
    """

    task_settings: ClassVar[tuple[str, ...]] = ("attempts",)
    settings: ClassVar[tuple[str, ...]] = task_settings
    attempts: int = 1
    """Number of answers that an agent may give in an episode."""

    def check_options(self) -> None:
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int) or self.attempts < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadConfig(f"attempts of {type(self).__name__} is {self.attempts!r}; expected an integer from 1")
        super().check_options()
        if self.attempts == 1 and "promptness" in self.shaping:
            raise BadConfig("shaping pays promptness, which says nothing with one attempt: give attempts=2 or more")

    def forget(self) -> None:
        super().forget()
        self.tried: tuple[str, ...] = ()
        """Hashes of the wrong answers given so far."""

    def judged(self, answer: str, right: bool) -> Outcome:
        """Return the response to an answer: the end of the episode, or a request to try again."""
        if right:
            return self.win("The answer is right.")
        self.tried = (
            *self.tried,
            hashlib.blake2b(answer.strip().encode("utf-8", "surrogatepass"), digest_size=8).hexdigest(),
        )
        left = self.attempts - len(self.tried)
        if left <= 0:
            return self.lose("The answer is wrong.")
        return Outcome(f"The answer is wrong. Let's try again: {left} attempt{'s' if left > 1 else ''} left.")

    def measures(self) -> dict[str, float]:
        """Return `promptness`: at a success, the share of attempts left, counting the successful one; otherwise 0.

        The result is {} if only one attempt is allowed.
        """
        if self.attempts == 1:
            return {}
        return {"promptness": (self.attempts - len(self.tried)) / self.attempts if self.success else 0.0}

    def attempts_state(self) -> object:
        """Return the attempts' part of the state: the number of wrong answers, and their sorted distinct hashes."""
        return len(self.tried), sorted(set(self.tried))
