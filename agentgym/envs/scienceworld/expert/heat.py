"""Temperature tasks: measurements, melting points, and changes of state."""

import re
from collections.abc import Generator

from agentgym.envs.scienceworld.expert.memory import Memory
from agentgym.envs.scienceworld.expert.moves import (
    Play,
    do,
    fetch,
    fill,
    focus,
    named,
    opened,
    put,
    search,
    stated,
    take,
    visit,
    walk,
)

Reading = Generator[str, str, float]
"""Yields actions, receives answers; returns a temperature in degrees Celsius."""
POT = "metal pot"
OURS = r"metal pot \((in|on) (inventory|(?:ultra low temperature )?freezer|stove|blast furnace)"
"""Pattern of the preferred pot, for actions that could mean several pots."""
READINGS = 40
"""Maximum number of observations while something warms or cools."""
LIQUID = {"water": 0, "orange juice": 0, "apple juice": 0, "mercury": -39}
"""Liquids in the house, with their melting points in degrees Celsius."""


def thermometer(memory: Memory) -> Play:
    """Measure a temperature and put the substance into the matching box."""
    thing, room = stated(memory, r"temperature of (.+?), which is located around the (.+?)\.")
    (boxes,) = stated(memory, r"boxes are located around the (.+?)\.")
    yield from fetch(memory, "thermometer", ("kitchen",))
    yield from focus(memory, "thermometer")
    if thing not in memory.carried:
        yield from search(memory, named(thing), (room,))
        yield from take(memory, thing)
    yield from focus(memory, thing)
    box = chosen(memory, temperature((yield from do(f"use thermometer on {thing}", "in inventory"))))
    yield from search(memory, rf"\b{box}\b", (boxes,))
    text = yield from do(f"move {thing} to {box}")
    return text


def temperature(text: str) -> float:
    """Return the temperature in a thermometer's text, in degrees Celsius; NaN if it shows none."""
    reading = re.search(r"temperature of (-?\d+) degrees", text)
    return float(reading[1]) if reading else float("nan")


def chosen(memory: Memory, degrees: float) -> str:
    """Return the box that the task assigns to a temperature."""
    limit, above = stated(memory, r"above (-?[\d.]+) degrees celsius, (?:place it in|focus on) the (\w+ box)")
    _, below = stated(memory, r"below (-?[\d.]+) degrees celsius, (?:place it in|focus on) the (\w+ box)")
    return above if degrees > float(limit) else below


def melting_point(memory: Memory) -> Play:
    """Warm a substance until it melts or exceeds the task's limit, and focus on the matching box."""
    thing, room = stated(memory, r"melting point of (.+?), which is located around the (.+?)\.")
    (limit,) = stated(memory, r"above (-?[\d.]+) degrees")
    yield from fetch(memory, "thermometer", ("kitchen",))
    yield from focus(memory, "thermometer")
    if thing in LIQUID:
        yield from into_pot(memory, thing)
        yield from focused(memory, thing, 1)
        return (yield from focus(memory, chosen(memory, LIQUID[thing])))
    yield from search(memory, named(thing), (room,))
    yield from focus(memory, thing)
    solid = temperature((yield from do(f"use thermometer on {thing}")))
    if not solid > float(limit):
        yield from into_pot(memory, thing)
        solid = yield from warmed(memory, thing, float(limit))
    yield from search(memory, rf"\b{chosen(memory, solid)}\b", (room,))
    return (yield from focus(memory, chosen(memory, solid)))


def into_pot(memory: Memory, thing: str) -> Play:
    """Put a substance into the kitchen's pot."""
    if f"You move the {thing} to the {POT}" in " ".join(text for _, text in memory.exchanges):
        return memory.last
    if thing != "water":
        yield from fetch(memory, thing)
    yield from visit(memory, "kitchen")
    if POT not in memory.carried:
        if POT not in memory.view:
            yield from opened(memory)
        yield from take(memory, POT)
    if thing == "water":
        return (yield from fill(memory, POT))
    if thing not in memory.carried and re.search(rf"{POT} \(containing [^()]*{thing}", memory.view):  # already in a pot
        return memory.last
    return (yield from put(thing, POT))


def heated(memory: Memory, hot: bool) -> Play:
    """Heat the pot on the stove, or if `hot` is set or the stove is broken, in the blast furnace."""
    if not hot:
        yield from walk(memory, "kitchen")
        yield from take(memory, POT)
        yield from do(f"move {POT} to stove", OURS)
        text = yield from do("activate stove")
        if "broken" not in text:
            return text
    yield from take(memory, POT)
    yield from walk(memory, "foundry")
    yield from do("open blast furnace")
    yield from do(f"move {POT} to blast furnace", OURS)
    return (yield from do("activate blast furnace"))


def warmed(memory: Memory, thing: str, limit: float) -> Reading:
    """Heat the pot; return the first temperature above `limit`, or the last one measured while the substance is solid.

    -inf: none was measured. Heating ends after READINGS observations on the stove and READINGS in the furnace.
    """
    solid = float("-inf")
    for hot in (False, True):
        yield from heated(memory, hot)
        for _ in range(READINGS):
            text = yield from do(f"examine {POT}", OURS)
            if "liquid" in text or "gas" in text:
                return solid
            now = temperature((yield from do(f"use thermometer on {thing}")))
            if now != now or now > limit:
                return now if now > limit else solid
            if now - solid < 2 and now > 100:  # the stove has reached its maximum
                break
            solid = now
    return solid


def change(memory: Memory) -> Play:
    """Boil, melt or freeze a substance, or make the closest possible change."""
    verb, thing = stated(memory, r"task is to (boil|melt|freeze|change the state of matter of) (.+?)\.")
    yield from into_pot(memory, thing)
    yield from focused(memory, thing)
    fluid = thing in LIQUID
    if verb == "melt" and fluid:
        yield from cooled(memory, thing)
    if verb == "freeze" and not fluid:
        yield from heated(memory, False)
        yield from watched("water" if thing == "ice" else f"liquid {thing}", "wait1")
    if verb == "freeze":
        return (yield from cooled(memory, thing))
    yield from heated(memory, thing == "mercury" or (verb == "boil" and thing not in ("water", "ice")))
    return (yield from watched("gaseous", "wait1"))


def focused(memory: Memory, thing: str, before: int = 0) -> Play:
    """Focus on the pot's content, unless there were more than `before` focus actions already."""
    if len(memory.focused) > before:
        return memory.last
    text = yield from do(f"focus on {thing} in {POT}")
    return text if "You focus" in text else (yield from do(f"focus on substance in {POT}"))


def watched(until: str, wait: str) -> Play:
    """Repeat the action `wait` until the description of the pot contains the text `until`, at most READINGS times."""
    text = ""
    for _ in range(READINGS):
        text = yield from do(f"examine {POT}", OURS)
        if until in text:
            break
        yield from do(wait)
    return text


def cooled(memory: Memory, thing: str) -> Play:
    """Put the pot into a sufficiently cold freezer and wait until its content is solid."""
    room, freezer = ("workshop", "ultra low temperature freezer") if thing == "mercury" else ("kitchen", "freezer")
    yield from take(memory, POT)
    yield from walk(memory, room)
    yield from do(f"open {freezer}")
    yield from do(f"move {POT} to {freezer}", OURS)
    text = yield from watched("ice" if thing in ("water", "ice") else f"solid {thing}", "wait")
    yield from take(memory, POT)
    return text
