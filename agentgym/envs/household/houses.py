"""Generator of houses and tasks, and of their PDDL problems; a task's data is the house in compact form."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar, cast

import numpy as np

from agentgym.core.env import Task
from agentgym.core.seeding import generator
from agentgym.envs.household.catalog import (
    CAN_CONTAIN,
    CLEANABLE,
    COOLABLE,
    HEATABLE,
    MOVABLE_RECEPTACLES,
    OPENABLE,
    SLICEABLE,
    TASK_TYPES,
    TOGGLEABLE,
)
from agentgym.envs.household.goals import TEMPLATES, TREATMENTS, Goal
from agentgym.envs.household.problem import Problem
from agentgym.envs.household.rooms import LAMP_STANDS, LAMPS, ROOMS, TREATABLE, Room, holds

T = TypeVar("T")
_ABILITIES = {
    "cleanable": CLEANABLE,
    "heatable": HEATABLE,
    "coolable": COOLABLE,
    "sliceable": SLICEABLE,
    "toggleable": TOGGLEABLE,
}


@dataclass(frozen=True, slots=True)
class HouseSize:
    """Options for the size and content of houses; ranges are inclusive."""

    receptacles: tuple[int, int]
    objects: tuple[int, int]
    types: tuple[str, ...]
    together: float
    """Probability that a receptacle shares its location with the previous one."""
    targets: tuple[int, int]
    """Minimum and maximum number of objects of the goal's class; `pick_two_obj_and_place` has at least two."""
    layouts: int
    """Number of room layouts over all splits and all four kinds of rooms, rounded up to a multiple of four."""
    rooms: tuple[str, ...] = tuple(ROOMS)
    """Kinds of rooms to draw from."""


def draw_task(rng: np.random.Generator, plan: HouseSize) -> Task:
    """Draw a house with a goal that can be reached and is not reached initially."""
    while True:
        kind = _choose(rng, plan.types)
        fitting = [i for i, (name, room) in enumerate(ROOMS.items()) if kind in room.types and name in plan.rooms]
        number = len(ROOMS) * int(rng.integers(-(-plan.layouts // len(ROOMS)))) + _choose(rng, fitting)
        layout = draw_layout(number, plan.receptacles, plan.together)
        room = _room(number)
        goal = _draw_goal(rng, kind, room, [name for name, _ in layout])
        if goal is None:
            continue
        objects = _draw_objects(rng, plan, room, goal, [name for name, _ in layout])
        if objects is None:
            continue
        template = int(rng.integers(len(TEMPLATES[kind])))
        data = {
            "type": kind,
            "object": goal.object,
            "receptacle": goal.receptacle,
            "lamp": goal.lamp,
            "layout": [f"{name} {place}" for name, place in layout],
            "objects": [f"{name} {where}" for name, where in objects],
        }
        return Task(instruction=goal.sentence(template), data=data)


def _choose(rng: np.random.Generator, options: Sequence[T]) -> T:
    return options[int(rng.integers(len(options)))]


def _room(number: int) -> Room:
    """Return the kind of room that a layout has, given the layout's number."""
    return [*ROOMS.values()][number % len(ROOMS)]


@lru_cache(maxsize=256)
def draw_layout(number: int, sizes: tuple[int, int], together: float) -> tuple[tuple[str, int], ...]:
    """Return a layout by number, as (class, location) of each receptacle; a pure function of the arguments.

    The receptacles are in canonical order, so layouts that an agent cannot distinguish are equal.
    """
    rng, room = generator("layout", number, *sizes, together), _room(number)
    size = int(rng.integers(sizes[0], sizes[1] + 1))
    names = [*room.always]
    if TASK_TYPES[1] in room.types:
        names.append(_choose(rng, [name for name in room.several if name in LAMP_STANDS]))
    pool = room.single + room.several
    while len(names) < size:
        name = _choose(rng, pool)
        if name not in room.single or name not in names:
            names.append(name)
    places: list[tuple[str, int]] = []
    for name in sorted(names):
        last = places[-1][1] if places else -1
        near = bool(places) and float(rng.random()) < together
        places.append((name, last if near else last + 1))
    return tuple(places)


def _draw_goal(rng: np.random.Generator, kind: str, room: Room, receptacles: list[str]) -> Goal | None:
    """Draw a goal of this task type that is possible in the room; return None if there is none."""
    classes = sorted(set(receptacles))
    things = [name for name in room.objects if sum(name in CAN_CONTAIN[r] for r in receptacles) >= 2]
    if kind == TASK_TYPES[1]:
        return Goal(kind, _choose(rng, things), lamp=LAMPS[int(rng.random() < 0.2)]) if things else None
    if kind in TREATMENTS:
        things = [name for name in things if name in TREATABLE[TREATMENTS[kind]]]
    pairs = [(thing, target) for thing in things for target in classes if thing in CAN_CONTAIN[target]]
    pairs = [(thing, target) for thing, target in pairs if receptacles.count(target) < len(receptacles)]
    if not pairs:
        return None
    thing, target = _choose(rng, pairs)
    return Goal(kind, thing, target)


def _draw_objects(
    rng: np.random.Generator, plan: HouseSize, room: Room, goal: Goal, receptacles: list[str]
) -> list[tuple[str, int]] | None:
    """Draw objects as (class, index of receptacle).

    Return None if the goal's objects have no possible place outside the goal's receptacles.
    """
    low, high = plan.objects
    size = int(rng.integers(low, high + 1))
    count = max(int(rng.integers(plan.targets[0], plan.targets[1] + 1)), goal.count)
    outside = [i for i, name in enumerate(receptacles) if goal.object in CAN_CONTAIN[name] and name != goal.receptacle]
    if not outside:
        return None
    objects = [(goal.object, _choose(rng, outside)) for _ in range(count)]
    if goal.lamp:
        objects.append((goal.lamp, _choose(rng, [i for i, name in enumerate(receptacles) if name in LAMP_STANDS])))
    counts = Counter(name for name, _ in objects)
    for _ in range(20 * size):
        if len(objects) >= size:
            break
        name = _choose(rng, room.objects)
        spots = [i for i, r in enumerate(receptacles) if holds(r, name)]
        if spots and name != goal.object and counts[name] < 3:
            counts[name] += 1
            objects.append((name, _choose(rng, spots)))
    return sorted(objects)


def goal_of(task: Task) -> Goal:
    """Return the goal of a generated task."""
    data = task.data
    return Goal(data["type"], data["object"], data["receptacle"], data["lamp"])


def things_of(task: Task, name: str) -> list[tuple[str, int]]:
    """Return the `layout` or the `objects` of a generated task, as (class, number of location or receptacle)."""
    pairs = (str(entry).rsplit(" ", 1) for entry in cast("list[str]", task.data[name]))
    return [(kind, int(number)) for kind, number in pairs]


def make_problem(task: Task) -> Problem:
    """Return a generated task's PDDL problem without a goal; names keep their upper and lower case for export."""
    layout, things = things_of(task, "layout"), things_of(task, "objects")
    receptacles = [receptacle_id(kind, number) for number, (kind, _) in enumerate(layout)]
    places = [f"loc_bar_{place % 100}_bar_{1 + place // 100}_bar_0_bar_30" for _, place in layout]
    objects = [_coordinates(kind, number, "00_dot_50") for number, (kind, _) in enumerate(things)]
    outside = "loc_bar_0_bar_0_bar_0_bar_30"
    types = {"agent1": "agent", outside: "location", **dict.fromkeys(places, "location")}
    types |= dict.fromkeys(receptacles, "receptacle") | dict.fromkeys(objects, "object")
    kinds, contents = sorted({kind for kind, _ in layout}), sorted({kind for kind, _ in things})
    types |= {f"{kind}Type": "rtype" for kind in kinds} | {f"{kind}Type": "otype" for kind in contents}
    facts: dict[str, list[tuple[str, ...]]] = {
        "atLocation": [("agent1", outside)],
        "receptacleType": [(id, f"{kind}Type") for id, (kind, _) in zip(receptacles, layout, strict=True)],
        "receptacleAtLocation": list(zip(receptacles, places, strict=True)),
        "openable": [(id,) for id, (kind, _) in zip(receptacles, layout, strict=True) if kind in OPENABLE],
        "canContain": [(f"{r}Type", f"{o}Type") for r in kinds for o in contents if o in CAN_CONTAIN[r]],
        "objectType": [(id, f"{kind}Type") for id, (kind, _) in zip(objects, things, strict=True)],
        "inReceptacle": [(id, receptacles[where]) for id, (_, where) in zip(objects, things, strict=True)],
        "objectAtLocation": [(id, places[where]) for id, (_, where) in zip(objects, things, strict=True)],
        "pickupable": [(id,) for id, (kind, _) in zip(objects, things, strict=True) if kind not in TOGGLEABLE],
        "isReceptacleObject": [(id,) for id, (kind, _) in zip(objects, things, strict=True) if kind in MOVABLE_RECEPTACLES],
    }
    for ability, able in _ABILITIES.items():
        facts[ability] = [(id,) for id, (kind, _) in zip(objects, things, strict=True) if kind in able]
    return Problem(types, facts, [])


def receptacle_id(kind: str, number: int) -> str:
    """Return an id in AI2-THOR's form: basins are parts of a Sink or a Bathtub."""
    if kind.endswith("Basin"):
        return f"{_coordinates(kind.removesuffix('Basin'), number, '01_dot_00')}_bar_{kind}"
    return _coordinates(kind, number, "01_dot_00")


def _coordinates(kind: str, number: int, height: str) -> str:
    x, z = divmod(number, 100)
    return f"{kind}_bar__plus_{x:02}_dot_00_bar__plus_{height}_bar__minus_{z:02}_dot_25"
