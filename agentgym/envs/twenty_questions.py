"""Twenty questions: the environment answers yes or no about a hidden creature."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from agentgym.core.actions import spell, tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, TextEnv
from agentgym.core.tasks import Task

PROPERTIES: dict[str, tuple[str, ...]] = {
    "color": ("red", "green", "blue", "brown", "gray", "white"),
    "size": ("tiny", "small", "large", "huge"),
    "home": ("forest", "desert", "river", "mountain", "cave", "meadow"),
    "food": ("seeds", "fruit", "insects", "fish", "roots"),
    "skin": ("fur", "feathers", "scales", "shell"),
    "legs": ("none", "two", "four", "six"),
    "voice": ("silent", "whistling", "roaring", "humming"),
    "awake": ("by day", "by night"),
}
_SYLLABLES = ("ba", "do", "fi", "ga", "ka", "lu", "mi", "no", "pa", "ri", "su", "ta", "ve", "zo")


class TwentyQuestions(TextEnv):
    """Find a hidden creature among those listed, by yes-or-no questions and one guess.

    There are 32 creatures at difficulty 0 and 32 more at each level, with eight properties each; no two are alike. The
    state is the set of creatures consistent with the answers.

    Ceilings: the shortcut policies `first_listed` and `last_listed` guess without asking; at difficulty 0 they are right
    one time in 32.
    """

    horizon = 20
    hardest = 200
    declared = Declarations(random_bound=0.1, expert_bound=0.99, ceilings={"first_listed": 1 / 32, "last_listed": 1 / 32})
    shared = ("creatures",)

    def begin(self, task: Task) -> str:
        self.creatures: dict[str, dict[str, str]] = {
            name: dict(zip(PROPERTIES, values, strict=True)) for name, values in task.data["creatures"]
        }
        self.meant: str = task.data["meant"]
        self.known: tuple[tuple[str, str, bool], ...] = ()
        """Questions asked so far: property, value, and True if the answer was yes."""
        listed = "\n".join(f"{name}: {', '.join(values.values())}" for name, values in self.creatures.items())
        return (
            f"I'm thinking of one of these creatures ({', '.join(PROPERTIES)}):\n{listed}\n"
            f"Ask about one property at a time, for example ask[color red]. You have {self.limit} turns and one guess."
        )

    @tool
    def ask(self, question: str) -> str | Outcome:
        """Ask whether the creature has a property, for example `color red`. The answer is yes or no."""
        name, _, value = " ".join(question.lower().strip("? \n").split()).partition(" ")
        if name not in PROPERTIES:
            return self.invalid(
                f"{name[:40]!r} is not a property. Ask about {', '.join(PROPERTIES)}, for example ask[color red]."
            )
        if value not in PROPERTIES[name]:
            return self.invalid(
                f"A creature's {name} is one of {', '.join(PROPERTIES[name])}. "
                f"For example: ask[{name} {PROPERTIES[name][0]}]."
            )
        has = self.creatures[self.meant][name] == value
        if (name, value, has) not in self.known:
            self.known = (*self.known, (name, value, has))
        return "Yes." if has else "No."

    @tool
    def guess(self, name: str) -> Outcome:
        """Name the creature. This ends the episode."""
        guessed = name.strip().lower()
        if guessed not in self.creatures:
            return self.invalid(f"{guessed[:40]!r} is not on the list. Guess a creature by its name.")
        return self.win("Yes!") if guessed == self.meant else self.lose(f"No, it was {self.meant}.")

    def left(self) -> list[str]:
        """Return the names of the creatures that are consistent with all answers so far."""
        return [n for n, c in self.creatures.items() if all((c[key] == value) == has for key, value, has in self.known)]

    def state(self) -> object:
        return self.meant, self.left()

    def measures(self) -> dict[str, float]:
        """Return `known`, the share of the needed information (in bits) that was gained: 1 when one creature is left."""
        return {"known": 1 - float(np.log2(len(self.left())) / np.log2(len(self.creatures)))}

    def oracle(self) -> Iterator[str]:
        yield spell("guess", self.meant)

    def expert(self) -> Iterator[str]:
        """Yield the question that splits the remaining creatures most evenly; guess when one is left or turns run out."""
        while True:
            left = self.left()
            if len(left) == 1 or self.turn + 1 >= self.limit:
                yield spell("guess", left[0])
                continue
            questions = [(key, value) for key, values in PROPERTIES.items() for value in values]
            key, value = min(
                questions, key=lambda pair: abs(2 * sum(self.creatures[n][pair[0]] == pair[1] for n in left) - len(left))
            )
            yield spell("ask", f"{key} {value}")

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        def listed(seen: list[str]) -> list[str]:
            return [line.partition(":")[0] for line in seen[0].split("\n")[1:-1]]

        return {
            "first_listed": lambda seen: spell("guess", listed(seen)[0]),
            "last_listed": lambda seen: spell("guess", listed(seen)[-1]),
        }

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        count = 32 * (1 + difficulty)
        names: dict[str, None] = {}
        kinds: dict[tuple[str, ...], None] = {}
        while len(names) < count:
            names["".join(_SYLLABLES[int(i)] for i in rng.integers(len(_SYLLABLES), size=3 + len(names) // 1000))] = None
        while len(kinds) < count:
            kinds[tuple(values[int(rng.integers(len(values)))] for values in PROPERTIES.values())] = None
        creatures: list[object] = [(name, kind) for name, kind in zip(names, kinds, strict=True)]
        meant = list(names)[int(rng.integers(count))]
        return Task(instruction="Find out which creature I'm thinking of.", data={"creatures": creatures, "meant": meant})
