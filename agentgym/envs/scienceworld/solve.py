"""The simulator's own solutions, and recovery after a deviation."""

import functools
import re
from collections import deque

from agentgym.core.tasks import Task
from agentgym.envs.scienceworld.simulator import LOAD, QUESTION, STEP, Simulator, give_back, lent, refused

GOLD = 300.0
"""Time limit in seconds for computing the simulator's own solution."""
TRIES = 8
"""Number of positions at which the oracle tries to resume a solution before it gives up."""
DOORS = {
    "hallway": ("art studio", "bedroom", "greenhouse", "kitchen", "living room", "workshop"),
    "kitchen": ("bathroom", "outside"),
    "outside": ("foundry", "greenhouse"),
}
Key = tuple[str, int, str]
"""Task name, variation, simplifications."""


@functools.lru_cache(maxsize=256)
def solution(key: Key) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the actions of the simulator's own solution, and the room of each action.

    Actions that the simulator itself does not understand (`connect block terminal 1 ...`) are dropped.
    """
    nobody = Task()  # owns the machine meanwhile
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
    """Return tested actions that lead from the end of a log to score 100; empty if none were found.

    The solution is resumed where the log left it, else at earlier and later positions, after a walk to the right room. The
    search can fail: objects that were used up, broken or wrongly chosen cannot always be restored.
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
    """Return the positions at which a solution may be resumed, the most likely first."""
    together = next((n for n, pair in enumerate(zip(gold, log, strict=False)) if pair[0] != pair[1]), len(log))
    met = 0
    for action in log:
        met += met < len(gold) and action == gold[met]
    order = [met, together, 0, *range(together - 1, 0, -1), *range(together + 1, len(gold))]
    return list(dict.fromkeys(order))[:TRIES]


def _tried(
    machine: Simulator, key: Key, log: list[str], gold: tuple[str, ...], rooms: tuple[str, ...], start: int
) -> tuple[str, ...]:
    """Return the actions that resume a solution at position `start` after a log; empty if they do not reach score 100."""
    if start >= len(gold):
        return ()
    machine.ask(LOAD, "load", *key, False)
    text = ""
    for action in log:
        text = str(machine.ask(STEP, "step", action))
    way = ["0"] if text.startswith(QUESTION) else []  # a question is pending
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
    """Return the actions from one room to another; empty if there is no way, or both are the same room."""
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
