"""Plant growing tasks."""

import re
from collections.abc import Generator

from agentgym.envs.scienceworld.expert.memory import Memory
from agentgym.envs.scienceworld.expert.moves import Play, do, fetch, focus, look, search, stated, visit, walk

Soil = Generator[str, str, list[str]]
"""Yields actions, receives answers; returns the names of pots."""
ROUNDS = 20
"""Maximum number of times that the plants are watered."""
DOMINANT = ("tall plant", "round seed", "yellow seed", "purple flower", "green pod", "axial")
"""Traits of peas that Mendel found dominant."""


def plant(memory: Memory) -> Play:
    """Sow a seed, focus on it, and water it for up to ROUNDS rounds; the task ends when it blossoms."""
    kind, room = stated(memory, r"grow an? (.+?) plant from seed\. Seeds can be found in the (.+?)\.")
    pots = yield from sown(memory, kind, room, 1)
    yield from focus(memory, f"{kind} seed in {pots}")
    for _ in range(ROUNDS):
        yield from watered(memory, pots.split(", "))
        for _ in range(4):
            yield from do("wait1")
    return memory.last


def fruit(memory: Memory) -> Play:
    """Sow several seeds, let bees pollinate the flowers, and focus on the fruit."""
    kind, room = stated(memory, r"grow an? (.+?)\. .* Seeds can be found in the (.+?)\.")
    pots = yield from sown(memory, kind, room, 2)
    for _ in range(ROUNDS):
        if re.search(rf"tree you see: [^()]*\ban? (?:[a-z]+ )?{kind}[,.]", memory.view):
            yield from do(f"focus on {kind} on reproducing {kind} tree")
        yield from watered(memory, pots.split(", "))
        if "flower. " in memory.view and "bee hive door is closed" in memory.view:
            yield from do("close door to hallway")
            yield from do("close door to outside")
            yield from do("open bee hive")
        for _ in range(4):
            yield from do("wait1")
        yield from look()
    return memory.last


def sown(memory: Memory, kind: str, room: str, count: int) -> Play:
    """Sow `count` seeds from the jar in `room` in pots in the greenhouse; return the pots' names, joined by commas."""
    done = re.findall(rf"{kind} seed to the (flower pot \d)", " ".join(text for _, text in memory.exchanges))
    if not done:
        yield from fetch(memory, "seed jar", (room,))
    yield from walk(memory, "greenhouse")
    yield from look()
    pots = [*done, *re.findall(r"(flower pot \d) \(containing soil", memory.view)]
    if len(pots) < count:
        pots += yield from soil(memory, count - len(pots))
    for pot in pots[len(done) : count]:
        yield from do(f"move {kind} seed in seed jar to {pot}")
    return ", ".join(pots[:count])


def soil(memory: Memory, count: int) -> Soil:
    """Dig soil outside and fill up to `count` empty pots with it; return the pots' names."""
    pots = re.findall(r"(flower pot \d) \(containing nothing", memory.view)[:count]
    yield from fetch(memory, "shovel", ("greenhouse", "outside"))
    for pot in pots:
        yield from walk(memory, "outside")
        yield from do("use shovel on ground")
        yield from do("pick up soil")
        yield from walk(memory, "greenhouse")
        yield from do(f"move soil to {pot}", r"soil \(in inventory")
    return pots


def watered(memory: Memory, pots: list[str]) -> Play:
    """Water those of the pots that are dry."""
    view = yield from look()
    dry = [pot for pot in pots if not re.search(rf"{pot} \([^()]*called water", view)]
    for number, pot in enumerate(dry):
        if number == 0:
            yield from do("activate sink")
        yield from do("move jug to sink")
        yield from do(f"pour jug in {pot}")
    if dry:
        yield from do("deactivate sink")
    return memory.last


def inherited(memory: Memory) -> Play:
    """Focus on the box that matches Mendel's findings on a trait of peas; do nothing for another plant."""
    trait, kind = stated(memory, r"determine whether (.+?) is a dominant or recessive trait in the (.+?)\.")
    dominant, recessive = stated(memory, r"dominant, focus on the (.+?)\. .* recessive, focus on the (.+?)\.")
    if kind != "pea plant":
        return memory.last
    box = dominant if trait.startswith(DOMINANT) else recessive
    yield from visit(memory, "greenhouse")
    yield from search(memory, rf"\b{box}\b", ("greenhouse",))
    return (yield from focus(memory, box))
