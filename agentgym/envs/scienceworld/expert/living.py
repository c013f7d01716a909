"""Tasks about living things: finding one, life spans, life stages."""

import re

from agentgym.envs.scienceworld.expert.memory import Memory
from agentgym.envs.scienceworld.expert.moves import Play, do, focus, look, stated, visit, walk

LIFESPAN = (
    "giant tortoise", "parrot", "elephant", "crocodile", "brown bear", "turtle", "beaver", "wolf", "toad", "frog",
    "chipmunk", "rabbit", "blue jay", "dove", "hedgehog", "chameleon", "mouse", "dragonfly", "ant", "moth", "butterfly",
)  # fmt: skip
"""Animals ordered by life span, longest first."""
PLACES = {"animal": "outside", "plant": "greenhouse", "living thing": "outside", "non-living thing": "kitchen"}

YOUNG = "baby |adult |hatchling |juvenile |tadpole|caterpillar|.* (?:egg|pupa)$"

NAMES = {
    "common toad": "toad|frog|tadpole",
    "frog": "frog|tadpole",
    "butterfly": "butterfly|caterpillar",
    "moth": "moth|butterfly|caterpillar",
}
"""Pattern of an animal's names in all life stages, if these differ."""


def animals(view: str) -> list[str]:
    """Return the animals in a view of the garden, as the view names them."""
    names = re.findall(r"\n\tan? ([a-z ]+)(?=\n)", view)
    return [name for name in names if re.match(YOUNG, name)]


def by_lifespan(names: list[str]) -> list[str]:
    """Return animals ordered by life span, longest first; those missing in LIFESPAN also come first."""
    return sorted(names, key=lambda name: next((n for n, species in enumerate(LIFESPAN) if species in name), 0))


def find(memory: Memory) -> Play:
    """Find something of the requested kind, focus on it, and move it to a box."""
    kind, box, room = stated(memory, r"find a\(n\) (.+?)\. .* move it to the (.+?) in the (.+?)\.")
    if not memory.focused:
        yield from visit(memory, PLACES[kind])
    if kind == "non-living thing":
        thing, carried = "thermometer", "thermometer"
    elif kind == "plant":
        pot = re.search(r"(flower pot \d) \(containing an? ([a-z]+ (?:tree|plant))", memory.view)
        thing, carried = (pot[2], pot[1]) if pot else ("", "")
    else:
        thing = carried = next(iter(animals(memory.view)), "")
    if not memory.focused:
        yield from focus(memory, thing)
    for _ in range(2):
        if memory.carried:
            break
        if not re.search(rf"\b{carried}\b", memory.view):
            yield from look()
        if "You move" not in (yield from do(f"pick up {carried}")):  # it has grown and changed its name
            view = yield from look()
            carried = next(iter(animals(view)), carried)
    yield from walk(memory, room)
    text = yield from do(f"move {memory.carried[-1] if memory.carried else carried} to {box}")
    if "You move" not in text:
        inventory = yield from do("inventory")
        for name in re.findall(r"\n\tan? ([a-z ]+?)(?= \(|\n|$)", inventory):
            text = yield from do(f"move {name} to {box}")
    return text


def lifespan(memory: Memory) -> Play:
    """Focus on the animal with the longest life span, the shortest, or both in turn."""
    view = yield from visit(memory, "outside")
    for want in re.findall("the (longest|shortest) life span", memory.task.partition("First, focus")[0])[
        len(memory.focused) :
    ]:
        while not (order := by_lifespan(animals(view))):  # the agent is elsewhere, or no animal is visible now
            yield from walk(memory, "outside")
            view = yield from look()
        text = yield from focus(memory, order[0] if want == "longest" else order[-1])
        view = memory.view if "You focus" in text else (yield from look())
    return memory.last


def stages(memory: Memory) -> Play:
    """Watch an animal grow, and focus on each of its stages in turn."""
    (kind,) = stated(memory, r"life stages of the (.+?), starting")
    if "plant" in kind:
        return (yield from plant_stages(memory, kind.removesuffix(" plant")))
    yield from visit(memory, "outside")
    name = NAMES.get(kind, kind)
    seen = ""
    for _ in range(60):
        view = yield from look()
        now = next((stage for stage in animals(view) if re.search(name, stage)), "")
        if now and now != seen and now not in memory.focused:
            yield from focus(memory, now)
            seen = now
        yield from do("wait1")
    return memory.last


def plant_stages(memory: Memory, kind: str) -> Play:
    """Focus on the stages of adjacent plants; wait for a stage that no plant has reached."""
    yield from visit(memory, "outside")
    for stage in ("seed", "seedling", "adult", "reproducing")[len(memory.focused) :]:
        name = rf"{kind} seed" if stage == "seed" else rf"{kind} tree in the {stage} stage"
        for _ in range(40):
            pot = re.search(rf"(self watering flower pot \d) \(containing an? {name}", memory.view)
            if pot and "You focus" in (yield from do(f"focus on {name} in {pot[1]}")):
                break
            yield from do("wait1")
            yield from look()
    return memory.last
