"""A game: the constant facts of a house, computed once from its PDDL problem."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentgym.envs.household.goals import Goal
from agentgym.envs.household.problem import Problem
from agentgym.envs.household.text import NEW, ROOM, WELCOME, Dialect, write_facing, write_list
from agentgym.errors import BadData

PROPERTIES = ("clean", "heat", "cool", "slice", "use")
"""Treatments of an object, in the order used by `Game.able` and `Play.done`."""
_ABLE = ("cleanable", "heatable", "coolable", "sliceable", "toggleable")
_DONE = ("isclean", "ishot", "iscool", "issliced", "istoggled")
_APPLIANCES = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
Lists = tuple[tuple[int, ...], ...]
"""For each index, the indices of related items."""


@dataclass(frozen=True, slots=True)
class Game:
    """A house and its goal.

    Receptacles, objects and locations are numbered in the order of their ids. An int that stands for a set is a bit
    mask.
    """

    goal: Goal
    dialect: Dialect
    intro: str
    receptacles: tuple[str, ...]
    """Display names, by number."""
    objects: tuple[str, ...]
    locations: tuple[str, ...]
    receptacle_class: tuple[str, ...]
    object_class: tuple[str, ...]
    receptacle_index: dict[str, int]
    object_index: dict[str, int]
    places: Lists
    """Receptacle -> its locations (one, except in irregular data)."""
    here: Lists
    """Location -> the receptacles there."""
    shared: int
    """Receptacles that share a location with another one, as a bit mask."""
    go_commands: tuple[tuple[str, ...], ...]
    """Location -> the sorted `go to` commands that are admissible there."""
    openable: int
    """Receptacles that can be opened, as a bit mask."""
    pickupable: int
    """Objects that can be taken, as a bit mask."""
    able: tuple[int, ...]
    """For each of `PROPERTIES`, the bit mask of the objects that can be treated so."""
    appliances: dict[str, int]
    """`clean`, `heat` or `cool` -> bit mask of the receptacles for this treatment."""
    knives: int
    accepts: tuple[int, ...]
    """Object -> bit mask of the receptacles that may contain its class."""
    inside: dict[int, tuple[int, ...]]
    """Movable receptacle -> the objects in it, which cannot be taken."""
    goal_objects: int
    goal_receptacles: int
    goal_lamps: int
    start: tuple[int, Lists, int, tuple[int, ...], Lists]
    """Initial state: agent's location, contents, open receptacles, treatments done, locations of objects."""
    tokens: dict[str, int] = field(default_factory=dict[str, int], compare=False, repr=False)
    """Fact -> 64-bit number, filled on demand; the exclusive or over the changed facts is a state's key."""

    def token(self, fact: str) -> int:
        """Return the 64-bit number of a fact, a hash of its text."""
        number = self.tokens.get(fact)
        if number is None:
            number = int.from_bytes(hashlib.blake2b(fact.encode(), digest_size=8).digest(), "big")
            self.tokens[fact] = number
        return number


def members(mask: int) -> list[int]:
    """Return the indices of the bits set in a mask, ascending."""
    numbers: list[int] = []
    while mask:
        low = mask & -mask
        numbers.append(low.bit_length() - 1)
        mask ^= low
    return numbers


def build_game(problem: Problem, goal: Goal, sentence: str, dialect: Dialect = NEW, where: str = "game") -> Game:
    """Compute a game from a lower-case problem, its goal, and the goal's sentence (`Your task is to: ….`).

    Raises BadData if the problem lacks a required part or uses an undeclared name; the message begins with `where`.
    """
    return _Builder(problem, where).build(goal, sentence, dialect)


def number_names(ids: Iterable[str]) -> dict[str, str]:
    """Return the display name of each id: a base name and a number, which counts down as ids ascend.

    An id without `_bar_` has no number, and a space at the end of its name.
    """
    ordered = sorted(ids)
    bases = {id: id.partition("_bar_")[0] + ("basin" if "basin" in id else "") for id in ordered if "_bar_" in id}
    left = Counter(bases.values())
    names: dict[str, str] = {}
    for id in ordered:
        base = bases.get(id)
        if base is None:
            names[id] = _unmangle(id) + " "
        else:
            names[id] = f"{_unmangle(base)} {left[base]}"
            left[base] -= 1
    return names


def _unmangle(name: str) -> str:
    if "_" not in name:
        return name
    for mangled, plain in (("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ",")):
        name = name.replace(mangled, plain)
    return name


class _Builder:
    """Builds one game from a PDDL problem; stores the intermediate results."""

    def __init__(self, problem: Problem, where: str) -> None:
        self.problem, self.where = problem, where
        named = {argument for facts in problem.facts.values() for fact in facts for argument in fact}
        unknown = named - problem.types.keys()
        if unknown:
            raise BadData(f"{where}: the facts speak of {min(unknown)!r}, which (:objects …) does not declare")
        self.names = number_names(named)
        kinds: dict[str, list[str]] = {"receptacle": [], "object": [], "location": [], "agent": []}
        for id in sorted(named):
            if problem.types[id] in kinds:
                kinds[problem.types[id]].append(id)
        self.receptacles = {id: number for number, id in enumerate(kinds["receptacle"])}
        self.objects = {id: number for number, id in enumerate(kinds["object"])}
        self.locations = {id: number for number, id in enumerate(kinds["location"])}

    def facts(self, predicate: str) -> list[tuple[str, ...]]:
        return self.problem.facts.get(predicate, [])

    def mask(self, predicate: str, index: dict[str, int]) -> int:
        return sum({1 << index[fact[0]] for fact in self.facts(predicate) if fact[0] in index})

    def lists(self, predicate: str, keys: dict[str, int], values: dict[str, int], key: int = 0) -> Lists:
        """Return, for each of `keys`, the sorted values that a two-place predicate pairs with the key.

        `key` is the position of the keys in the predicate's facts: 0 or 1.
        """
        members: list[set[int]] = [set() for _ in keys]
        for fact in self.facts(predicate):
            if len(fact) == 2 and fact[key] in keys and fact[1 - key] in values:
                members[keys[fact[key]]].add(values[fact[1 - key]])
        return tuple(tuple(sorted(numbers)) for numbers in members)

    def start(self) -> int:
        for _, place in self.facts("atlocation"):
            return self.locations[place]
        raise BadData(f"{self.where}: no fact (atLocation agent1 LOCATION); the agent is nowhere")

    def build(self, goal: Goal, sentence: str, dialect: Dialect) -> Game:
        names, start = self.names, self.start()
        places = self.lists("receptacleatlocation", self.receptacles, self.locations)
        here = self.lists("receptacleatlocation", self.locations, self.receptacles, key=1)
        receptacle_names = tuple(names[id] for id in self.receptacles)
        object_names = tuple(names[id] for id in self.objects)
        receptacle_class = self.classes("receptacletype", self.receptacles)
        object_class = self.classes("objecttype", self.objects)
        receptacle_sets, object_sets = _by_class(receptacle_class), _by_class(object_class)
        inner = self.lists("inreceptacleobject", self.objects, self.objects, key=1)
        containers = self.mask("isreceptacleobject", self.objects)
        facing = [receptacle_names[r] for r in here[start]]
        if facing:
            view = f"You are facing the {write_facing(facing)}. Next to it, you see nothing."
        else:
            view = f"{ROOM}{write_list(receptacle_names)}."
        return Game(
            goal=goal,
            dialect=dialect,
            intro=f"{WELCOME}\n\n{view}\n\n{sentence}",
            receptacles=receptacle_names,
            objects=object_names,
            locations=tuple(names[id] for id in self.locations),
            receptacle_class=receptacle_class,
            object_class=object_class,
            receptacle_index={name: number for number, name in reversed([*enumerate(receptacle_names)])},
            object_index={name: number for number, name in reversed([*enumerate(object_names)])},
            places=places,
            here=here,
            shared=sum({1 << r for group in here if len(group) > 1 for r in group}),
            go_commands=_go_commands(receptacle_names, places, len(self.locations)),
            openable=self.mask("openable", self.receptacles),
            pickupable=self.mask("pickupable", self.objects),
            able=tuple(self.mask(name, self.objects) for name in _ABLE),
            appliances={verb: receptacle_sets.get(kind, 0) for verb, kind in _APPLIANCES.items()},
            knives=object_sets.get("knife", 0) | object_sets.get("butterknife", 0),
            accepts=self.accepts(receptacle_sets, object_class),
            inside={o: inner[o] for o in members(containers)},
            goal_objects=object_sets.get(goal.object, 0),
            goal_receptacles=receptacle_sets.get(goal.receptacle, 0),
            goal_lamps=object_sets.get(goal.lamp, 0) & self.mask("toggleable", self.objects),
            start=(
                start,
                self.lists("inreceptacle", self.receptacles, self.objects, key=1),
                self.mask("opened", self.receptacles),
                tuple(self.mask(name, self.objects) for name in _DONE),
                self.lists("objectatlocation", self.objects, self.locations),
            ),
        )

    def classes(self, predicate: str, index: dict[str, int]) -> tuple[str, ...]:
        """Return the class of each item in `index`, without the suffix `type`; "" if no fact gives its class."""
        kinds = {fact[0]: fact[1].removesuffix("type") for fact in self.facts(predicate) if len(fact) == 2}
        return tuple(kinds.get(id, "") for id in index)

    def accepts(self, receptacle_sets: dict[str, int], object_class: tuple[str, ...]) -> tuple[int, ...]:
        """Return, for each object, the bit mask of the receptacles whose class may contain the object's class."""
        by_class: dict[str, int] = {}
        for kind, content in (fact for fact in self.facts("cancontain") if len(fact) == 2):
            content = content.removesuffix("type")
            by_class[content] = by_class.get(content, 0) | receptacle_sets.get(kind.removesuffix("type"), 0)
        return tuple(by_class.get(kind, 0) for kind in object_class)


def _by_class(classes: tuple[str, ...]) -> dict[str, int]:
    """Return the bit mask of each class's members; items without a class are left out."""
    counts: dict[str, int] = {}
    for number, kind in enumerate(classes):
        counts[kind] = counts.get(kind, 0) | 1 << number
    counts.pop("", None)
    return counts


def _go_commands(names: tuple[str, ...], places: Lists, count: int) -> tuple[tuple[str, ...], ...]:
    """Return the `go to` commands possible at each location, except for receptacles that are already there."""
    ordered = sorted((f"go to {name}", at) for name, at in zip(names, places, strict=True) if at)
    return tuple(tuple(dict.fromkeys(command for command, at in ordered if at != (here,))) for here in range(count))
