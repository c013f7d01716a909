"""Mixing tasks: recipes and paints."""

import re

from agentgym.envs.scienceworld.expert.memory import Memory
from agentgym.envs.scienceworld.expert.moves import (
    ROOMS,
    Play,
    do,
    fetch,
    fill,
    focus,
    opened,
    put,
    search,
    stated,
    take,
    visit,
)

PARTS = {"green": ("blue", "yellow"), "violet": ("blue", "red"), "orange": ("red", "yellow")}
EMPTY = r"\b(?:an? )((?!flower)[a-z]+ (?:cup|pot|jar)|bowl|jug) \(containing nothing\)"


def recipe(memory: Memory) -> Play:
    """Read the recipe, put its ingredients into the kitchen's pot, and mix."""
    product, room = stated(memory, r"create the substance '(.+?)'.* might be found near the (.+?)\.")
    if "metal pot" not in memory.carried:
        yield from visit(memory, "kitchen")
        if "metal pot" not in memory.view:
            yield from opened(memory)
        yield from take(memory, "metal pot")
    text = next((text for _, text in memory.exchanges if "you need to mix" in text), "")
    if not text:
        yield from search(memory, "A recipe titled instructions to make " + re.escape(product), (room,))
        yield from take(memory, "recipe")
        text = yield from do("read recipe in inventory", product)
    parts = re.split(r", (?:and )?| and ", (re.search(r"need to mix (.+?)\.", text) or ["", ""])[1])
    done = " ".join(text for _, text in memory.exchanges)
    for part in [part for part in parts if part != "water" and f"You move the {part} to the metal pot" not in done]:
        yield from fetch(memory, part, (room, *ROOMS))
        yield from put(part, "metal pot")
    if "water" in parts:
        yield from fill(memory, "metal pot")
    yield from do("mix metal pot")
    return (yield from focus(memory, product))


def paint(memory: Memory) -> Play:
    """Mix two of the three paints, and add the third if the color's name has two parts."""
    (colour,) = stated(memory, r"chemistry to create (.+?) paint\.")
    yield from visit(memory, "art studio")
    names = colour.split("-")
    second = next(name for name in names if name in PARTS)
    vessel = next((vessel_name for vessel_name in re.findall(EMPTY, memory.view)), "")
    if not vessel:
        view = yield from opened(memory)
        vessel = next((vessel_name for vessel_name in re.findall(EMPTY, view)), "cup")
    if f"{second} paint" not in memory.focused:
        for part in PARTS[second]:
            yield from do(f"pour cup containing {part} paint in {vessel}")
        yield from do(f"mix {vessel}")
        yield from focus(memory, f"{second} paint")
    for third in [name for name in names if name != second]:
        yield from opened(memory)
        yield from do(f"pour cup containing {third} paint in {vessel}")
        yield from do(f"mix {vessel}")
        yield from focus(memory, f"{colour} paint")
    return memory.last
