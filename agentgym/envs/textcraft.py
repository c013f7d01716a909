"""Things made of things: a goal at the root of a tree of recipes."""

import re
from collections.abc import Iterator, Mapping

import numpy as np

from agentgym.core import Outcome, TextEnv
from agentgym.tasks import Task

MATERIALS = (
    "oak",
    "birch",
    "copper",
    "iron",
    "clay",
    "glass",
    "wool",
    "bone",
    "amber",
    "jade",
    "tin",
    "reed",
    "coral",
    "ash",
)
FORMS = ("plank", "rod", "plate", "gear", "cord", "tile", "lens", "frame", "bolt", "ring", "blade", "sheet", "bead", "lamp")
RAW = ("ore", "log", "stone", "fibre", "sand", "shell", "resin", "seed", "powder", "shard")
MOST = 10_000
"""Most of a thing that can be had or made at once."""
_COMMAND = re.compile(r"(get|craft) (\d{1,5}) ([a-z ]+?)(?: using (.+))?")
_PART = re.compile(r"(\d{1,5}) ([a-z ]+)")
Recipe = tuple[int, dict[str, int]]


class TextCraft(TextEnv):
    """Get what is found, craft what is not, until the goal is made.

    The manner of TextCraft (ADaPT, arXiv 2311.05772, and AgentGym) over recipes of its own: all recipes are shown, those
    that lead nowhere too. The goal is two recipes deep at difficulty 0 and one more at each level. `craft` takes a recipe's
    amounts or a multiple of them.
    """

    horizon = 40
    shared = ("recipes", "goal")

    def begin(self, task: Task) -> str:
        self.recipes: dict[str, Recipe] = {name: (made, dict(parts)) for name, made, parts in task.data["recipes"]}
        self.goal: str = task.data["goal"]
        self.held: dict[str, int] = {}
        lines = "\n".join(written(name, recipe) for name, recipe in self.recipes.items())
        return (
            f"Crafting commands:\n{lines}\n\nGoal: craft {self.goal}.\n"
            "Say get NUMBER THING (of what no command crafts), a crafting command or a multiple of it, or inventory."
        )

    def act(self, action: str) -> str | Outcome:
        words = " ".join(action.lower().split())
        if words == "inventory":
            return self._inventory()
        match = _COMMAND.fullmatch(words) if words.isascii() else None
        if match is None or (match[1] == "craft") != (match[4] is not None) or not 0 < int(match[2]) <= MOST:
            return self.invalid(
                f"{words[:60]!r} is no command. Say get 2 oak log, craft 4 oak plank using 1 oak log, or inventory."
            )
        verb, number, name = match[1], int(match[2]), match[3]
        return self._get(name, number) if verb == "get" else self._craft(name, number, match[4])

    def _get(self, name: str, number: int) -> str | Outcome:
        if name in self.recipes:
            return self.invalid(f"There is no {name} to get: it is crafted.")
        if not any(name in parts for _, parts in self.recipes.values()):
            return self.invalid(f"There is no {name[:40]} here.")
        self.held = {**self.held, name: min(self.held.get(name, 0) + number, MOST)}
        return f"Got {number} {name}."

    def _craft(self, name: str, number: int, using: str) -> str | Outcome:
        parts = [_PART.fullmatch(part.strip()) for part in using.split(",")]
        if name not in self.recipes:
            return self.invalid(f"No command crafts {name[:40]}.")
        made, needed = self.recipes[name]
        times, rest = divmod(number, made)
        given = {part[2]: int(part[1]) for part in parts if part is not None}
        if rest or None in parts or len(given) != len(parts) or given != {n: c * times for n, c in needed.items()}:
            return self.invalid(
                f"That is not how {name} is crafted. Say {written(name, self.recipes[name])}, or a multiple."
            )
        short = [n for n, count in given.items() if self.held.get(n, 0) < count]
        if short:
            return self.invalid(f"You have not enough {short[0]}: {self.held.get(short[0], 0)} of {given[short[0]]}.")
        held = {n: count - given.get(n, 0) for n, count in self.held.items()}
        held[name] = min(held.get(name, 0) + number, MOST)
        self.held = {n: count for n, count in held.items() if count}
        text = f"Crafted {number} {name}."
        return self.win(text) if name == self.goal else text

    def _inventory(self) -> str:
        return "You have " + (", ".join(f"{count} {name}" for name, count in sorted(self.held.items())) or "nothing") + "."

    def state(self) -> list[tuple[str, int]]:
        return sorted(self.held.items())

    def oracle(self) -> Iterator[str]:
        raw: dict[str, int] = {}
        crafts: list[tuple[str, int]] = []
        for name, number in self._missing():
            if name in self.recipes:
                crafts.append((name, number))
            else:
                raw[name] = number
        yield from (f"get {number} {name}" for name, number in raw.items())
        yield from (written(name, self.recipes[name], times) for name, times in crafts)

    def _missing(self) -> list[tuple[str, int]]:
        """Return what is still to be got (number) and crafted (times), in an order that works."""
        needed, order = {self.goal: 1}, _above(self.recipes, self.goal)
        found: list[tuple[str, int]] = []
        for name in order:  # a thing comes after all that it goes into
            lacking = needed.get(name, 0) - (0 if name == self.goal else self.held.get(name, 0))
            if lacking <= 0:
                continue
            if name not in self.recipes:
                found.append((name, lacking))
                continue
            made, parts = self.recipes[name]
            times = -(-lacking // made)
            found.append((name, times))
            for part, count in parts.items():
                needed[part] = needed.get(part, 0) + count * times
        return found[::-1]

    def expert(self) -> Iterator[str]:
        return self.oracle()  # every recipe is shown

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        depth = 2 + difficulty
        names = [f"{material} {form}" for material in MATERIALS for form in FORMS]
        fresh = iter([names[int(i)] for i in rng.permutation(len(names))])
        raws = [f"{material} {form}" for material in MATERIALS for form in RAW]
        found = [raws[int(i)] for i in rng.permutation(len(raws))[: 3 + depth]]
        recipes: list[tuple[str, int, dict[str, int]]] = []
        below: list[str] = []
        for level in range(min(depth, 60)):
            parts = {below[-1]: int(rng.integers(1, 3))} if below else {}
            choices = [*found, *below[:-1]]
            for i in rng.choice(len(choices), int(rng.integers(1, 3)), replace=False):
                parts[choices[int(i)]] = int(rng.integers(1, 4 if choices[int(i)] in found else 2))  # or numbers explode
            name = next(fresh)
            recipes.append((name, int(rng.integers(1, 4)) if level < depth - 1 else 1, parts))
            below.append(name)
        for _ in range(min(1 + depth // 2, len(names) - len(below))):  # these lead nowhere
            chosen = rng.choice(len(found), 2, replace=False)
            recipes.append((next(fresh), int(rng.integers(1, 4)), {found[int(i)]: int(rng.integers(1, 4)) for i in chosen}))
        shuffled = [recipes[int(i)] for i in rng.permutation(len(recipes))]
        return Task(instruction=f"Craft {below[-1]}.", data={"recipes": shuffled, "goal": below[-1]})


def written(name: str, recipe: Recipe, times: int = 1) -> str:
    """Return the command that crafts a thing so many times over."""
    made, parts = recipe
    return f"craft {made * times} {name} using " + ", ".join(f"{count * times} {part}" for part, count in parts.items())


def _above(recipes: Mapping[str, Recipe], goal: str) -> list[str]:
    """Return a goal and all that it is made of, each after everything that it goes into."""
    order: list[str] = []

    def visit(name: str) -> None:
        for part in recipes[name][1] if name in recipes else ():
            if part not in order:
                visit(part)
        order.append(name)

    visit(goal)
    return order[::-1]
