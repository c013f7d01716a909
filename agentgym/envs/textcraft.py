"""Crafting: a goal at the root of a tree of recipes."""

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, TextEnv
from agentgym.core.tasks import Task

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
"""Maximum amount in one `get`, `drop` or `craft`."""
_COMMAND = re.compile(r"(get|drop|craft) (\d{1,5}) ([a-z ]+?)(?: using (.+))?")
_PART = re.compile(r"(\d{1,5}) ([a-z ]+)")
Recipe = tuple[int, dict[str, int]]


class TextCraft(TextEnv):
    """Get raw materials and craft items from them until the goal is made.

    Modeled on TextCraft (ADaPT, arXiv 2311.05772, and AgentGym) with generated recipes: all recipes are shown, including
    useless ones. The goal is two recipes deep at difficulty 0 and one more at each level, up to 60. `craft` takes a
    recipe's amounts or a multiple of them. The carrying limit is a quarter above what the goal needs, so that amounts
    must be computed; `drop` makes room.

    Ceiling: the shortcut policy `everything` gets the same amount of each raw material and repeats all recipes in turn. That
    is enough if few materials are needed, in similar amounts (5 % of the tasks at difficulty 0).
    """

    horizon = 40
    shared = ("recipes", "goal", "capacity")
    declared = Declarations(ceilings={"everything": 0.1})

    def begin(self, task: Task) -> str:
        self.recipes: dict[str, Recipe] = {name: (portion, dict(parts)) for name, portion, parts in task.data["recipes"]}
        self.goal: str = task.data["goal"]
        self.items: dict[str, int] = {}
        self.capacity = 0
        most = max(total for total, _ in self._plan({}))
        self.capacity = most + most // 4 + 1
        lines = "\n".join(written(name, recipe) for name, recipe in self.recipes.items())
        return (
            f"Crafting commands:\n{lines}\n\nGoal: craft {self.goal}. You can carry at most {self.capacity} items.\n"
            "Reply with get NUMBER ITEM (only for items that no command crafts), drop NUMBER ITEM, inventory, or a "
            "crafting command. You may multiply all amounts of a command by the same number."
        )

    def act(self, action: str) -> str | Outcome:
        words = " ".join(action.lower().split())
        if words == "inventory":
            return self._inventory()
        match = _COMMAND.fullmatch(words) if words.isascii() else None
        if match is None or (match[1] == "craft") != (match[4] is not None) or not 0 < int(match[2]) <= MOST:
            return self.invalid(
                f"{words[:60]!r} is not a command. Reply with get 2 oak log, craft 4 oak plank using 1 oak log, drop 1 oak "
                "log, or inventory."
            )
        verb, number, name = match[1], int(match[2]), match[3]
        if verb == "craft":
            return self._craft(name, number, match[4])
        return self._get(name, number) if verb == "get" else self._drop(name, number)

    def _get(self, name: str, number: int) -> str | Outcome:
        if name in self.recipes:
            return self.invalid(f"You cannot get {name}: it must be crafted.")
        if not any(name in parts for _, parts in self.recipes.values()):
            return self.invalid(f"There is no {name[:40]} here.")
        total = sum(self.items.values())
        if total + number > self.capacity:
            return self.invalid(
                f"You are carrying {total} of at most {self.capacity} items: get {self.capacity - total} or fewer, or drop "
                "some first."
            )
        self.items = {**self.items, name: self.items.get(name, 0) + number}
        return f"Got {number} {name}."

    def _drop(self, name: str, number: int) -> str | Outcome:
        if self.items.get(name, 0) < number:
            return self.invalid(f"You have {self.items.get(name, 0)} {name[:40]}, not {number}.")
        self.items = {n: count for n, count in {**self.items, name: self.items[name] - number}.items() if count}
        return f"Dropped {number} {name}."

    def _craft(self, name: str, number: int, using: str) -> str | Outcome:
        parts = [_PART.fullmatch(part.strip()) for part in using.split(",")]
        if name not in self.recipes:
            return self.invalid(f"No command crafts {name[:40]}.")
        portion, needed = self.recipes[name]
        times, rest = divmod(number, portion)
        amounts = {part[2]: int(part[1]) for part in parts if part is not None}
        if rest or None in parts or len(amounts) != len(parts) or amounts != {n: c * times for n, c in needed.items()}:
            return self.invalid(
                f"That is not how {name} is crafted. Use {written(name, self.recipes[name])}, or a multiple of it."
            )
        short = [n for n, count in amounts.items() if self.items.get(n, 0) < count]
        if short:
            return self.invalid(f"You do not have enough {short[0]}: {self.items.get(short[0], 0)} of {amounts[short[0]]}.")
        carried = {n: count - amounts.get(n, 0) for n, count in self.items.items()}
        carried[name] = carried.get(name, 0) + number
        if sum(carried.values()) > self.capacity:
            return self.invalid(f"You would carry {sum(carried.values())} items, but the limit is {self.capacity}.")
        self.items = {n: count for n, count in carried.items() if count}
        text = f"Crafted {number} {name}."
        return self.win(text) if name == self.goal else text

    def _inventory(self) -> str:
        return "You have " + (", ".join(f"{count} {name}" for name, count in sorted(self.items.items())) or "nothing") + "."

    def state(self) -> list[tuple[str, int]]:
        return sorted(self.items.items())

    def oracle(self) -> Iterator[str]:
        """Yield commands: if room is short, drop the useless items or else all; then get and craft the missing items."""
        useful = self._useful()
        spare = {name: count - useful.get(name, 0) for name, count in self.items.items()}
        if max((total for total, _ in self._plan(self.items)), default=0) <= self.capacity:
            spare = {}
        elif max(total for total, _ in self._plan(useful)) > self.capacity:
            spare, useful = self.items, {}
        yield from (f"drop {count} {name}" for name, count in spare.items() if count)
        yield from (command for _, command in self._plan(useful if spare else self.items))

    def _useful(self) -> dict[str, int]:
        """Return the carried items that the goal needs, with their amounts, at most those needed."""
        needed = self._missing(self.items)[1]
        return {name: min(count, needed[name]) for name, count in self.items.items() if needed.get(name)}

    def _plan(self, carried: Mapping[str, int]) -> list[tuple[int, str]]:
        """Return (number of items carried afterwards, command) for each command on the way from `carried` to the goal."""
        missing, carried = self._missing(carried)[0], dict(carried)
        steps: list[tuple[int, str]] = []
        for name, number in missing:
            if name not in self.recipes:
                carried[name] = carried.get(name, 0) + number
                steps.append((sum(carried.values()), f"get {number} {name}"))
        for name, times in missing:
            if name in self.recipes:
                portion, parts = self.recipes[name]
                carried = {n: count - times * parts.get(n, 0) for n, count in carried.items()}
                carried[name] = carried.get(name, 0) + portion * times
                steps.append((sum(carried.values()), written(name, self.recipes[name], times)))
        return steps

    def _missing(self, carried: Mapping[str, int]) -> tuple[list[tuple[str, int]], dict[str, int]]:
        """Return the items still to get (amount) or to craft (times), in a possible order, and the total amounts needed."""
        needed, order = {self.goal: 1}, _above(self.recipes, self.goal)
        missing: list[tuple[str, int]] = []
        for name in order:  # every thing follows all products it goes into
            lacking = needed.get(name, 0) - (0 if name == self.goal else carried.get(name, 0))
            if lacking <= 0:
                continue
            if name not in self.recipes:
                missing.append((name, lacking))
                continue
            portion, parts = self.recipes[name]
            times = -(-lacking // portion)
            missing.append((name, times))
            for part, count in parts.items():
                needed[part] = needed.get(part, 0) + count * times
        return missing[::-1], needed

    def expert(self) -> Iterator[str]:
        return self.oracle()  # all recipes are shown

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        return {"everything": lambda seen: everything(seen, None), "twenty of everything": lambda seen: everything(seen, 20)}

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        depth = 2 + difficulty
        names = [f"{material} {form}" for material in MATERIALS for form in FORMS]
        fresh = iter([names[int(i)] for i in rng.permutation(len(names))])
        raws = [f"{material} {form}" for material in MATERIALS for form in RAW]
        raw_parts = [raws[int(i)] for i in rng.permutation(len(raws))[: 3 + depth]]
        recipes: list[tuple[str, int, dict[str, int]]] = []
        below: list[str] = []
        for level in range(min(depth, 60)):
            parts = {below[-1]: int(rng.integers(1, 3))} if below else {}
            choices = [*raw_parts, *below[:-1]]
            for i in rng.choice(len(choices), int(rng.integers(1, 3)), replace=False):
                parts[choices[int(i)]] = int(rng.integers(1, 4 if choices[int(i)] in raw_parts else 2))  # or numbers explode
            name = next(fresh)
            recipes.append((name, int(rng.integers(1, 4)) if level < depth - 1 else 1, parts))
            below.append(name)
        for _ in range(min(1 + depth // 2, len(names) - len(below))):  # distractors
            places = rng.choice(len(raw_parts), 2, replace=False)
            recipes.append(
                (next(fresh), int(rng.integers(1, 4)), {raw_parts[int(i)]: int(rng.integers(1, 4)) for i in places})
            )
        shuffled = [recipes[int(i)] for i in rng.permutation(len(recipes))]
        return Task(instruction=f"Craft {below[-1]}.", data={"recipes": shuffled, "goal": below[-1]})


def written(name: str, recipe: Recipe, times: int = 1) -> str:
    """Return the command that applies a recipe `times` times."""
    portion, parts = recipe
    return f"craft {portion * times} {name} using " + ", ".join(f"{count * times} {part}" for part, count in parts.items())


def everything(seen: list[str], number: int | None) -> str:
    """Return the next command of a policy that gets `number` of each raw material, then repeats all recipes in turn.

    None: an equal share of the carrying limit for each material.
    """
    lines = [line for line in seen[0].split("\n") if line.startswith("craft ")]
    craftable = {_COMMAND.fullmatch(line)[3] for line in lines}  # type: ignore[index]
    parts = [part.partition(" ")[2] for line in lines for part in line.partition(" using ")[2].split(", ")]
    raw = [part for part in dict.fromkeys(parts) if part not in craftable]
    capacity = int(re.findall(r"carry at most (\d+) items", seen[0])[0])
    turn = len(seen) - 1
    if turn < len(raw):
        return f"get {number or max(capacity // len(raw), 1)} {raw[turn]}"
    return lines[(turn - len(raw)) % len(lines)]


def _above(recipes: Mapping[str, Recipe], goal: str) -> list[str]:
    """Return a goal and its direct and indirect ingredients, each after every product that it goes into."""
    order: list[str] = []

    def visit(name: str) -> None:
        for part in recipes[name][1] if name in recipes else ():
            if part not in order:
                visit(part)
        order.append(name)

    visit(goal)
    return order[::-1]
