"""Building blocks of strategies: generators that yield actions and receive the answers."""

import re
from collections.abc import Generator, Iterable

from agentgym.envs.scienceworld.expert.memory import Memory
from agentgym.envs.scienceworld.simulator import QUESTION
from agentgym.envs.scienceworld.solve import way_between

Play = Generator[str, str, str]
"""Yields actions, receives answers; returns the last answer."""
ROOMS = (
    "kitchen",
    "workshop",
    "living room",
    "bedroom",
    "bathroom",
    "art studio",
    "outside",
    "greenhouse",
    "foundry",
    "hallway",
)
"""The rooms of the house; rooms with the most objects come first."""


def named(name: str) -> str:
    """Return a pattern that matches an object's name, but not as part of a longer name: `wood` is not in `wood cup`."""
    return rf"(?i)\b{re.escape(name)}\b(?! (?:cup|block|pot|jar|tree|seed|bulb|wire))"


def do(action: str, prefer: str = "") -> Play:
    """Perform an action; if it is ambiguous, choose the first meaning that matches the regex `prefer`, else the first."""
    text = yield action
    while text.startswith(QUESTION):
        meanings = re.findall(r"^(\d+):\t(.*)$", text, re.MULTILINE)
        answer = next((number for number, meaning in meanings if re.search(prefer, meaning)), "0")
        text = yield answer
    return text


def look() -> Play:
    """Look around the room."""
    return (yield from do("look around"))


def walk(memory: Memory, room: str) -> Play:
    """Walk to a room through the house."""
    text = memory.last
    for action in way_between(memory.room, room):
        door = action.partition("open door to ")[2]
        if not door or frozenset((memory.room, door)) not in memory.doors:
            text = yield from do(action)
    return text


def visit(memory: Memory, room: str) -> Play:
    """Go to a room and look around, unless the agent is there and has seen it."""
    if memory.room != room or not memory.view:
        yield from walk(memory, room)
        yield from look()
    return memory.view


def opened(memory: Memory) -> Play:
    """Open all closed containers in the room except the bee hive, and look around again if there were any."""
    closed = re.findall(r"\ta (?:large )?([a-z -]+?)(?:, which is turned off)?\. The [a-z -]+ door is closed", memory.view)
    for thing in closed:
        if thing != "bee hive":  # the bees would escape before the flowers need them
            yield from do(f"open {thing}")
    return (yield from look()) if closed else memory.view


def search(memory: Memory, pattern: str, rooms: Iterable[str] = ROOMS) -> Play:
    """Search rooms for a pattern, first in plain view, then inside closed containers; return the match, or ''.

    With the default `rooms`, the search begins in the current room.
    """
    for room in dict.fromkeys((memory.room, *rooms) if rooms is ROOMS else rooms):
        text = memory.seen.get(room) or (yield from visit(memory, room))
        if not (match := re.search(pattern, text)):
            if "door is closed." in text:
                yield from walk(memory, room)
                text = yield from opened(memory)
            match = re.search(pattern, text)
        if match:
            yield from walk(memory, room)
            return match[0]
    return ""


def take(memory: Memory, name: str) -> Play:
    """Pick an object up unless the agent has it."""
    if name in memory.carried:
        return memory.last
    text = yield from do(f"pick up {name}", rf"{re.escape(name)} \(")
    holder = re.search(rf"\ban? ([a-z ]+?) \(containing [^()]*{named(name)[4:]}", memory.view)
    if "You move" in text or holder is None:
        return text
    if "liquid" in text:
        line = re.search(rf"\ta ([a-z ]+)\..*{re.escape(holder[0])}", memory.view)
        return (yield from do(f"pick up {holder[1]}", f"in {line[1]}" if line else ""))
    yield from do(f"open {holder[1]}")  # its content is visible but unreachable until it is open
    return (yield from do(f"pick up {name}"))


def fetch(memory: Memory, name: str, rooms: Iterable[str] = ROOMS) -> Play:
    """Find an object in one of the rooms and pick it up, unless the agent has it."""
    if name not in memory.carried:
        yield from search(memory, named(name), rooms)
        yield from take(memory, name)
    return memory.last


def put(name: str, vessel: str) -> Play:
    """Put an object or a liquid within reach into a vessel."""
    text = yield from do(f"move {name} to {vessel}")
    return text if "You move" in text else (yield from do(f"pour {name} in {vessel}"))


def fill(memory: Memory, vessel: str) -> Play:
    """Fill a vessel with water at a sink; if the sink is broken, try the next one, and finally the toilet."""
    for room in ("kitchen", "bathroom"):
        yield from walk(memory, room)
        yield from do(f"move {vessel} to sink")
        text = yield from do("activate sink")
        if "broken" not in text:
            yield from do("deactivate sink")
        yield from take(memory, vessel)
        if "broken" not in text:
            return memory.last
    return (yield from do(f"dunk {vessel} in toilet"))


def focus(memory: Memory, name: str, prefer: str = "") -> Play:
    """Focus on an object unless the agent has focused on it before.

    If several objects have the name, choose the first whose description matches the regex `prefer`, else the first one.
    """
    if name in memory.focused:
        return memory.last
    return (yield from do(f"focus on {name}", prefer))


def stated(memory: Memory, pattern: str) -> tuple[str, ...]:
    """Return the groups of a pattern in the task's text; empty strings if it does not match."""
    match = re.search(pattern, memory.task)
    return tuple(group or "" for group in match.groups()) if match else ("",) * re.compile(pattern).groups
