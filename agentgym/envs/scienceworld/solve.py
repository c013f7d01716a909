"""The simulator's own solutions, and how to get back to one after a deviation."""

import functools
import re
from collections import deque

from agentgym.core.tasks import Task
from agentgym.envs.scienceworld.simulator import LOAD, QUESTION, STEP, Simulator, give_back, lent, refused

GOLD = 300.0
"""Seconds that the simulator may take to find its own solution."""
TRIES = 8
"""Places of a solution at which it is taken up again before the oracle gives up."""
DOORS = {
    "hallway": ("art studio", "bedroom", "greenhouse", "kitchen", "living room", "workshop"),
    "kitchen": ("bathroom", "outside"),
    "outside": ("foundry", "greenhouse"),
}
Key = tuple[str, int, str]
"""Name of a task, its variation, simplifications."""


@functools.lru_cache(maxsize=256)
def solution(key: Key) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the simulator's own solution of a variation, and the room that each of its actions is done in.

    Some solutions have an action that the simulator does not understand (`connect block terminal 1 ...`); it is left out.
    """
    nobody = Task()  # holds the machine meanwhile
    with lent(nobody) as machine:
        machine.played = (None, [])
        machine.ask(GOLD, "load", *key, True)
        gold = tuple(" ".join(str(action).lower().split()) for action in machine.ask(STEP, "getGoldActionSequence"))
        steps: list[tuple[str, str]] = []
        last = ""
        for action in gold:
            step = action, _room(machine)
            before, last = last, str(machine.ask(STEP, "step", action)).strip()
            if not refused(last, before):
                steps.append(step)
    give_back(nobody)
    return tuple(action for action, _ in steps), tuple(room for _, room in steps)


def plan(key: Key, log: list[str]) -> tuple[str, ...]:
    """Return actions that lead from the end of a log to the score 100, tried out; none where none were found.

    The solution is taken up where the log left it, else at earlier and later places, after a walk to the room it was in.
    What was used up, broken or wrongly chosen cannot always be made good, and the simulator does not say so.
    """
    gold, rooms = solution(key)
    if list(gold[: len(log)]) == log:
        return gold[len(log) :]
    nobody = Task()
    with lent(nobody) as machine:
        machine.played = (None, [])
        way_found = next((way for start in _starts(gold, log) if (way := _tried(machine, key, log, gold, rooms, start))), ())
    give_back(nobody)
    return way_found


def _starts(gold: tuple[str, ...], log: list[str]) -> list[int]:
    """Return the places of a solution at which it may be taken up again, the likeliest first."""
    together = next((n for n, pair in enumerate(zip(gold, log, strict=False)) if pair[0] != pair[1]), len(log))
    met = 0
    for action in log:
        met += met < len(gold) and action == gold[met]
    order = [met, together, 0, *range(together - 1, 0, -1), *range(together + 1, len(gold))]
    return list(dict.fromkeys(order))[:TRIES]


def _tried(
    machine: Simulator, key: Key, log: list[str], gold: tuple[str, ...], rooms: tuple[str, ...], start: int
) -> tuple[str, ...]:
    """Return the actions that take a solution up at a place, or none where they do not lead to the score 100."""
    if start >= len(gold):
        return ()
    machine.ask(LOAD, "load", *key, False)
    text = ""
    for action in log:
        text = str(machine.ask(STEP, "step", action))
    way = ["0"] if text.startswith(QUESTION) else []  # a question stands open
    for action in way:
        text = str(machine.ask(STEP, "step", action))
    rest = [*way_between(_room(machine), rooms[start]), *gold[start:]]
    for action in rest:
        before, text = text, str(machine.ask(STEP, "step", action)).strip()
        if refused(text, before):
            continue
        way.append(action)
        if machine.ask(STEP, "getScore") >= 1:
            return tuple(way)
        if machine.ask(STEP, "getCompleted") or machine.ask(STEP, "getScore") < 0:
            return ()
    return ()


def _room(machine: Simulator) -> str:
    room = re.search(r"called the (.+?)\.", str(machine.ask(STEP, "freeActionLook")))
    return room[1] if room else ""


def way_between(here: str, there: str) -> list[str]:
    """Return the actions that lead from one room to another; none where there is no way, or no need of one."""
    before: dict[str, str] = {here: ""}
    queue = deque([here])
    while queue and there not in before:
        room = queue.popleft()
        beyond = (*DOORS.get(room, ()), *(other for other, doors in DOORS.items() if room in doors))
        for other in beyond:
            if other not in before:
                before[other] = room
                queue.append(other)
    way: list[str] = []
    while before.get(there):
        way = [f"open door to {there}", f"go to {there}", *way]
        there = before[there]
    return way
