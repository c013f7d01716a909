"""Wordle with one or more hidden words."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, TextEnv
from agentgym.core.tasks import Task

LETTERS = 5
GUESSES = 6
FIRST = "raise"
"""The expert's first guess; on average it leaves almost the fewest words possible."""
CONSIDERED = 60
"""Maximum number of candidates that the expert compares per guess."""
Told = tuple[tuple[str, str], ...]


class Wordle(TextEnv):
    """Guess hidden words of five letters.

    Each guess is answered letter by letter: G right place, Y elsewhere in the word, - not in it (or not as often). There is
    one hidden word at difficulty 0 and one more at each level. Each guess applies to all words at once; there are 6 guesses,
    and one more for each further word. Guesses must be in the word list. The state is the set of guesses with their answers.
    """

    horizon = 40
    hardest = 1000
    declared = Declarations(answers=("words",), random_bound=0.1, expert_bound=0.7)

    def limit_of(self, task: Task) -> int:
        """Return `horizon` if it was set, else the number of guesses plus six turns for invalid ones, but at least 40."""
        guesses = GUESSES + len(task.data["words"]) - 1
        return self.horizon if "horizon" in self.__dict__ else max(self.horizon, guesses + GUESSES)

    def begin(self, task: Task) -> str:
        self.words: tuple[str, ...] = tuple(task.data["words"])
        self.guessed: tuple[tuple[str, tuple[str, ...]], ...] = ()
        """Each guess so far, with one answer per hidden word."""
        number = len(self.words)
        hidden = f"a hidden {LETTERS}-letter word" if number == 1 else f"{number} hidden {LETTERS}-letter words at once"
        return (
            f"Guess {hidden} in {self._left} guesses. Each letter of a guess is marked: G = right place, "
            "Y = elsewhere in the word, - = not in the word (or not as many times). Reply with one word."
        )

    @property
    def _left(self) -> int:
        return GUESSES + len(self.words) - 1 - len(self.guessed)

    def act(self, action: str) -> str | Outcome:
        guess = action.strip().lower()
        if guess not in known():
            return self.invalid(f"{guess[:20]!r} is not in the word list. Reply with an English word of {LETTERS} letters.")
        self.guessed = (*self.guessed, (guess, tuple(marks(word, guess) for word in self.words)))
        solved = sum(self._found(number) for number in range(len(self.words)))
        answer = "\n".join(
            f"{' '.join(guess.upper())}\n{' '.join(patterns[number])}"
            for guess, patterns in self.guessed[-1:]
            for number in self._open()
        )
        if solved == len(self.words):
            return self.win("Right.")
        if not self._left:
            return self.lose(f"{answer}\nNo guesses are left.".strip())
        rest = f"{solved} of {len(self.words)} words found. " if len(self.words) > 1 else ""
        return f"{answer}\n{rest}{self._left} guesses left."

    def _found(self, number: int) -> bool:
        return any(patterns[number] == "G" * LETTERS for _, patterns in self.guessed)

    def _open(self) -> list[int]:
        """Return the indices of the words that were not found before the last guess."""
        before = self.guessed[:-1]
        return [n for n in range(len(self.words)) if not any(patterns[n] == "G" * LETTERS for _, patterns in before)]

    def state(self) -> object:
        return self.words, sorted(self.guessed)

    def measures(self) -> dict[str, float]:
        """Return `found`, the share of words found."""
        return {"found": sum(self._found(number) for number in range(len(self.words))) / len(self.words)}

    def oracle(self) -> Iterator[str]:
        yield from (word for number, word in enumerate(self.words) if not self._found(number))

    def expert(self) -> Iterator[str]:
        """Yield FIRST, then the most informative candidate for the unsolved word with the fewest candidates."""
        while True:
            unsolved = [n for n in range(len(self.words)) if not self._found(n)]
            candidates = {n: fitting(tuple((guess, patterns[n]) for guess, patterns in self.guessed)) for n in unsolved}
            number = min(unsolved, key=lambda n: (len(candidates[n]), n))
            yield FIRST if not self.guessed else best(candidates[number])

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        places = rng.choice(len(listed()), difficulty + 1, replace=difficulty + 1 > len(listed()))
        return Task(instruction="Guess the hidden words.", data={"words": tuple(listed()[int(i)] for i in places)})


@cache
def listed() -> tuple[str, ...]:
    """Return the word list in order."""
    return tuple(Path(str(files("agentgym.envs") / "wordle_words.txt")).read_text(encoding="utf-8").split())


@cache
def known() -> frozenset[str]:
    """Return the word list as a set."""
    return frozenset(listed())


def marks(word: str, guess: str) -> str:
    """Return the answer to a guess, such as `G-Y--`; a letter is marked at most as often as the word has it, G before Y."""
    left = [letter for letter, guessed in zip(word, guess, strict=True) if letter != guessed]
    pattern: list[str] = []
    for letter, guessed in zip(word, guess, strict=True):
        if letter == guessed:
            pattern.append("G")
        elif guessed in left:
            left.remove(guessed)
            pattern.append("Y")
        else:
            pattern.append("-")
    return "".join(pattern)


def fitting(answers: Told) -> list[str]:
    """Return the words of the list consistent with every answer."""
    return [word for word in listed() if all(marks(word, guess) == answer for guess, answer in answers)]


def best(candidates: Sequence[str]) -> str:
    """Return the candidate with the highest expected information (entropy, Shannon 1948), among the first CONSIDERED."""

    def entropy(guess: str) -> float:
        counts = Counter(marks(word, guess) for word in candidates)
        return -sum(n / len(candidates) * math.log2(n / len(candidates)) for n in counts.values())

    return max(candidates[:CONSIDERED], key=entropy)
