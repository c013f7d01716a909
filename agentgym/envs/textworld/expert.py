"""The expert: follows the objective or the recipe and explores as needed, using only the observed texts."""

from collections.abc import Iterable, Iterator

from agentgym.envs.textworld.notes import BACK, Notes, Told
from agentgym.envs.textworld.objective import steps_of

HEAT = {"fry": ("stove", "fried"), "roast": ("oven", "roasted"), "grill": ("bbq", "grilled")}
KNIFE = {"chop": "chopped", "slice": "sliced", "dice": "diced"}

Option = tuple[int, int, str, str]
"""A useful command: distance, rank at equal distance (lower is first), room, and the command or direction to use there."""


def advise(exchanges: Told) -> str:
    """Return the next command; it depends only on the episode's commands and answers so far."""
    notes = Notes(exchanges)
    for command in candidates(notes):
        if (notes.here, command) not in notes.refused:
            return command
    return "look"


def candidates(notes: Notes) -> Iterator[str]:
    """Yield commands, best first; the environment may have refused some."""
    yield from cook(notes) if "cookbook" in notes.objective else run_errand(notes)
    yield from do(notes, unknown(notes, probing=True))


def run_errand(notes: Notes) -> Iterator[str]:
    """Yield commands for an objective that gives directions: the first unfinished step, then alternatives to it."""
    steps, room = steps_of(notes.objective), notes.start
    goal = next((name for verb, name, _ in reversed(steps) if verb in ("take", "find")), "")
    if goal in notes.carried:
        for verb, name, other in steps:
            if verb in ("put", "insert") and name == goal:
                yield from do(notes, [option(notes, place, f"{verb} {name} {'on' if verb == 'put' else 'into'} {other}")
                                      for place in notes.mentioning(other)])  # fmt: skip
        return
    yield from do(notes, taking(notes, [goal]))
    for verb, name, other in steps:
        if verb == "go":
            onward = notes.rooms[room].to.get(name)
            if onward is None:
                yield from do(notes, [option(notes, room, name)])
                return
            room = onward
        elif verb == "take" and name not in notes.carried:
            yield from do(notes, taking(notes, [name]) or [option(notes, room, f"take {name}")])
        elif verb == "open" and notes.shut.get((room, name)) is not False:
            yield from do(notes, [option(notes, room, f"open {name}")])
        elif verb == "unlock" and notes.shut.get((room, name)) is not False and (room, name) not in notes.unlocked:
            keys = [other] if other else notes.known_keys()
            yield from do(notes, taking(notes, keys))
            yield from do(notes, [option(notes, room, f"unlock {name} with {key}") for key in keys])


def cook(notes: Notes) -> Iterator[str]:
    """Yield commands that advance the recipe in the cookbook, nearest first."""
    if "meal" in notes.carried:
        yield "eat meal"
    yield from do(notes, taking(notes, ["meal"]))
    if not notes.recipe:
        book = notes.here if "cookbook" in notes.carried else notes.at.get("cookbook", ("",))[0]
        yield from do(notes, [option(notes, book, "examine cookbook")] if book else unknown(notes, probing=False))
        return
    todo = {name: undone(notes, name) for name in notes.recipe}
    unseen = [name for name in todo if name not in notes.carried and name not in notes.at]
    if unseen and not notes.inventory_known:
        yield "inventory"
    if not any(todo.values()) and notes.carried.issuperset(todo):
        yield from do(notes, [option(notes, room, "prepare meal") for room in notes.mentioning("kitchen")[:1]])
    missing = [name for name in todo if name not in unseen]
    if any(verb in KNIFE for name in missing for verb in todo[name]):
        missing.append("knife")
    options = taking(notes, missing)
    for name in notes.carried.intersection(todo):
        for verb in todo[name]:
            if verb in KNIFE and "knife" in notes.carried:
                options.append(option(notes, notes.here, f"{verb} {name} with knife"))
            elif verb in HEAT:
                tool = HEAT[verb][0]
                places = notes.mentioning(tool)
                options += [option(notes, room, f"cook {name} with {tool}") for room in places[:1]]
    if unseen or not options:
        options += unknown(notes, probing=False)
    yield from do(notes, options)


def undone(notes: Notes, name: str) -> list[str]:
    """Return the verbs that the recipe still requires for an ingredient, such as `fry`."""
    results = {**KNIFE, **{verb: result for verb, (_, result) in HEAT.items()}}
    marks = notes.marks.get(name, set())
    return [verb for verb in notes.recipe[name] if verb in results and results[verb] not in marks]


def option(notes: Notes, room: str, command: str, rank: int = 1) -> Option:
    """Return the option to use a command in a room, or to leave the room in a direction; `Option` explains `rank`."""
    return notes.reached().get(room, (999, ""))[0] + (command in BACK), rank, room, command


def taking(notes: Notes, names: Iterable[str]) -> list[Option]:
    """Return options to take the named objects that were seen and are not carried, after opening a closed container."""
    options = list[Option]()
    for name in names:
        if name in notes.at and name not in notes.carried:
            room, holder = notes.at[name]
            if notes.shut.get((room, holder or "")):
                options.append(option(notes, room, f"open {holder}", 0))
            options.append(option(notes, room, f"take {name}"))
    return options


def unknown(notes: Notes, *, probing: bool) -> list[Option]:
    """Return options to discover something: open containers, try new exits and, if something is locked, take keys.

    With `probing`, the impossible command `open` is an option in each room, because its answer lists the possible commands.
    """
    options = list[Option]()
    for name in notes.reached():
        room = notes.rooms[name]
        doors = set(room.ways.values())
        closed = [thing for (place, thing), shut in notes.shut.items() if place == name and shut and thing not in doors]
        options += [option(notes, name, f"open {thing}", 0) for thing in closed]
        if "fridge" in room.text and notes.shut.get((name, "fridge")) is None:
            options.append(option(notes, name, "open fridge", 0))
        if probing and name not in notes.probed:
            options.append(option(notes, name, "open"))
        options += [option(notes, name, way, 2) for way in room.ways if way not in room.to]
    return options + (taking(notes, notes.known_keys()) if notes.locked else [])


def do(notes: Notes, options: Iterable[Option]) -> Iterator[str]:
    """Yield the next command of each option not yet refused, nearest first."""
    for _, _, room, command in sorted(options):
        commands = pass_through(notes, room, command) if command in BACK else [command]
        commands = [each for each in commands if (room, each) not in notes.refused]
        if commands and room != notes.here:
            way = notes.reached().get(room, (0, ""))[1]
            commands = pass_through(notes, notes.here, way) if way else []
        yield from commands


def pass_through(notes: Notes, room: str, way: str) -> list[str]:
    """Return the next commands to leave a room in a direction: unlock and open a closed door, or go if the way is open."""
    door = notes.rooms[room].ways.get(way)
    if not door or not notes.shut.get((room, door)):
        return [f"go {way}"]
    keys = [key for key in notes.known_keys() if key in notes.carried and (room, door) in notes.locked]
    return [*(f"unlock {door} with {key}" for key in keys), f"open {door}"]
