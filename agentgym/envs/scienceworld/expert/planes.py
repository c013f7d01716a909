"""Inclined plane tasks: slide the same block down both planes, and compare."""

import re
from collections.abc import Generator

from agentgym.envs.scienceworld.expert.memory import Memory
from agentgym.envs.scienceworld.expert.moves import Play, do, focus, search, stated

SHORT, LONG = 6, 24
"""Number of looks at a sliding block in the first comparison, and in a second one if the first was a tie."""


def slower(memory: Memory) -> Play:
    """Focus on the plane with the slower slide; the faster if the task asks for the steepest or the least friction."""
    names = stated(memory, r"inclined planes \((.+?), (.+?)\)")
    (want,) = stated(memory, r"determine which .* has the (\w+)")
    yield from search(memory, "inclined plane", ("workshop",))
    planes = [plane(memory.view, name) for name in names]
    for looks in (SHORT, LONG):
        slid = [0.0, 0.0]
        for number, plane_name in enumerate(planes):
            slid[number] = yield from slide(plane_name, looks)
        if slid[0] != slid[1]:
            break
    fast = want in ("steepest", "least")
    return (yield from focus(memory, planes[(slid[0] < slid[1]) == fast]))


def plane(view: str, name: str) -> str:
    """Return the full name of a plane as it appears in the view of the room."""
    plane_match = re.search(rf"inclined plane (?:with an? )?{re.escape(name)}(?: surface)?(?=\s|$)", view)
    return plane_match[0] if plane_match else f"inclined plane {name}"


def slide(plane: str, looks: int) -> Generator[str, str, float]:
    """Put the block on a plane and return its progress after at most `looks` looks, in percent.

    The result is above 100 if the block has reached the bottom, and higher for an earlier arrival.
    """
    yield from do(f"move wood block to {plane}")
    down = 0.0
    for turn in range(looks):
        text = yield from do(f"look at {plane}")
        angle = re.search(r"approximately (\d+)% down", text)
        down = float(angle[1]) if angle else 100.0 + looks - turn if "bottom" in text else 0.0
        if down >= 100:
            break
    return down
