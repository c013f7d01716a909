"""Circuit tasks: powering a component, and testing conductivity."""

import re

from agentgym.envs.scienceworld.expert import heat
from agentgym.envs.scienceworld.expert.memory import Memory
from agentgym.envs.scienceworld.expert.moves import Play, do, focus, look, named, search, stated, take, visit, walk

RENEWABLE = ("solar panel", "wind generator")
NONRENEWABLE = ("gas generator", "nuclear generator")


def wires(view: str) -> list[str]:
    """Return the visible wires."""
    return sorted(set(re.findall(r"\b(\w+ wire)\b", view)))


def power(memory: Memory) -> Play:
    """Connect a component to a power source of the requested kind; go outside for solar and wind power."""
    thing, kind = stated(memory, r"turn on the (.+?)(?: by powering it using a (renewable|nonrenewable) power source)?\.")
    yield from search(memory, rf"\b{thing}\b", ("workshop",))
    kinds = {"renewable": RENEWABLE, "nonrenewable": NONRENEWABLE}.get(kind, ("battery",))
    carried = [name for name in memory.carried if name == thing or name in kinds or name.endswith(" wire")]
    source = next((name for name in kinds if name in memory.view or name in carried), kinds[0])
    yield from focus(memory, thing)
    if kind == "renewable" and memory.room != "outside":
        strings = wires(memory.view)[:2]
        for name in (thing, source, *strings):
            yield from take(memory, name)
        yield from walk(memory, "outside")
    for name in [name for name in memory.carried if name in (thing, source) or name.endswith(" wire")]:
        yield from do(f"drop {name}")
    yield from look()
    first, second = (*wires(memory.view), "wire", "wire")[:2]
    yield from join(source, thing, first, second)
    if "generator" in source:
        yield from do(f"activate {source}")
    return (yield from do("wait1"))


def join(source: str, thing: str, first: str, second: str) -> Play:
    """Connect both terminals of a source to a component, with the wires `first` and `second`."""
    yield from do(f"connect {source} anode to {first} terminal 1")
    yield from do(f"connect {source} cathode to {second} terminal 1")
    yield from do(f"connect {first} terminal 2 to cathode in {thing}")
    return (yield from do(f"connect {second} terminal 2 to anode in {thing}"))


def conduct(memory: Memory) -> Play:
    """Put an object into a circuit with a lamp, check if the lamp lights, and move the object to the matching box."""
    thing, room = stated(memory, r"determine if (.+?) is electrically conductive\. The .+ is located around the (.+?)\.")
    conductive, insulating = stated(memory, r"conductive, place it in the (.+?)\. .*nonconductive, place it in the (.+?)\.")
    carried = heat.POT if thing == "water" else thing
    if thing == "water":
        yield from heat.into_pot(memory, thing)
        yield from heat.focused(memory, thing)
    elif not memory.focused:
        yield from search(memory, named(thing), (room, "workshop"))
        yield from take(memory, thing)
        yield from focus(memory, thing)
    yield from visit(memory, "workshop")
    if carried in memory.carried:
        yield from do(f"drop {carried}")
    yield from look()
    lamp = (re.findall(r"\b(\w+ light bulb), which is o", memory.view) or ["light bulb"])[0]
    first, second, third = (*wires(memory.view), "wire", "wire", "wire")[:3]
    if f"{thing} terminal 2" not in " ".join(action for action, _ in memory.exchanges):
        yield from do(f"connect battery anode to {first} terminal 1")
        yield from do(f"connect battery cathode to {third} terminal 1")
        yield from do(f"connect {first} terminal 2 to cathode in {lamp}")
        yield from do(f"connect {second} terminal 2 to anode in {lamp}")
        yield from do(f"connect {thing} terminal 1 to {third} terminal 2")
        yield from do(f"connect {thing} terminal 2 to {second} terminal 1")
    yield from do("wait1")
    view = yield from look()
    box = conductive if re.search(rf"{lamp}, which is on\b", view) else insulating
    if box not in view:
        yield from take(memory, carried)
        yield from search(memory, rf"\b{box}\b", (room,))
    return (yield from do(f"move {carried} to {box}"))
