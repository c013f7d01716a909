"""Boxes to be pushed onto marks: moves that cannot be taken back, and a plan that must be right."""

import heapq
from collections import deque
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from agentgym.core import Outcome, TextEnv
from agentgym.tasks import Task

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
MOST_BOXES = 4
NODES = 500
"""Places of the search for a solution that are looked at before it gives up."""
Cell = tuple[int, int]
Boxes = frozenset[Cell]
Room = tuple[str, ...]


class Sokoban(TextEnv):
    """Push every box onto a target.

    The room is 6 squares wide at difficulty 0 and one more at each level; there are 2 to 4 boxes. Signs as in RAGEN
    (arXiv 2504.20073): `#` wall, `_` floor, `O` target, `X` box, `P` you, `√` box on a target, `S` you on a target. A
    push may be a mistake for good: `restart` puts everything back and costs a turn. Nothing is hidden, so the expert is
    the oracle.
    """

    horizon = 60
    random_bound = 0.3
    shared = ("room", "targets", "start", "plan")

    def begin(self, task: Task) -> str:
        rows: list[str] = list(task.data["room"])
        cells = {(r, c): sign for r, row in enumerate(rows) for c, sign in enumerate(row)}
        self.room: Room = tuple("".join("#" if sign == "#" else "_" for sign in row) for row in rows)
        self.targets: Boxes = frozenset(cell for cell, sign in cells.items() if sign in "O√S")
        self.start: tuple[Cell, Boxes] = (
            next(cell for cell, sign in cells.items() if sign in "PS"),
            frozenset(cell for cell, sign in cells.items() if sign in "X√"),
        )
        self.plan: tuple[str, ...] = tuple(task.data["plan"])
        self.place, self.boxes = self.start
        return (
            "Push every box onto a target: # wall, _ floor, O target, X box, P you, √ box on a target, S you on a target.\n"
            f"Say up, down, left, right, or restart.\n\n{self._picture()}"
        )

    def act(self, action: str) -> str | Outcome:
        word = action.strip().lower()
        if word == "restart":
            self.place, self.boxes = self.start
            return self._picture()
        if word not in MOVES:
            return self.invalid(f"{word[:40]!r} is not a move. Say up, down, left, right or restart.")
        moved = pushed(self.room, self.place, self.boxes, word)
        if moved is None:
            return self.invalid(f"Something is in the way {word}.\n\n{self._picture()}")
        self.place, self.boxes = moved
        text = self._picture()
        return self.win(text) if self.boxes == self.targets else text

    def admissible(self) -> list[str]:
        return [*(word for word in MOVES if pushed(self.room, self.place, self.boxes, word)), "restart"]

    def state(self) -> tuple[Cell, list[Cell]]:
        return self.place, sorted(self.boxes)

    def measures(self) -> dict[str, float]:
        """Which part of the boxes is on targets."""
        return {"placed": len(self.boxes & self.targets) / len(self.targets)}

    def oracle(self) -> Iterator[str]:
        found = self._rest_of_plan() or solution(self.room, self.targets, self.place, self.boxes)
        if found is None:  # a box is stuck, or too much has been mixed up
            yield "restart"
            found = self.plan
        yield from found

    def _rest_of_plan(self) -> tuple[str, ...] | None:
        """Return what is left of the room's plan; None where the episode has left it."""
        now, rest = self.start, None
        for done, word in enumerate(self.plan):
            if now == (self.place, self.boxes):
                rest = self.plan[done:]  # of several times that it comes by here, the last
            now = pushed(self.room, *now, word) or now
        return rest

    def expert(self) -> Iterator[str]:
        return self.oracle()

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        side, count = 6 + difficulty, min(2 + difficulty, MOST_BOXES)
        while True:
            room = _carved(rng, side)
            drawn = _drawn(rng, room, count) if room else None
            if drawn is not None:
                return Task(instruction="Push every box onto a target.", data={"room": drawn[0], "plan": drawn[1]})

    def split_key(self, task: Task) -> object:
        return task.data["room"]

    def _picture(self) -> str:
        signs = {**dict.fromkeys(self.targets, "O")}
        signs |= {box: "√" if box in self.targets else "X" for box in self.boxes}
        signs[self.place] = "S" if self.place in self.targets else "P"
        return "\n".join("".join(signs.get((r, c), s) for c, s in enumerate(row)) for r, row in enumerate(self.room))


def pushed(room: Room, place: Cell, boxes: Boxes, word: str) -> tuple[Cell, Boxes] | None:
    """Return where the player and the boxes are after a move; None where it is not possible."""
    rows, columns = MOVES[word]
    there = (place[0] + rows, place[1] + columns)
    if room[there[0]][there[1]] == "#":
        return None
    if there not in boxes:
        return there, boxes
    beyond = (there[0] + rows, there[1] + columns)
    if room[beyond[0]][beyond[1]] == "#" or beyond in boxes:
        return None
    return there, boxes - {there} | {beyond}


@lru_cache(maxsize=4096)
def solution(room: Room, targets: Boxes, place: Cell, boxes: Boxes) -> tuple[str, ...] | None:
    """Return moves that solve a room, few of them pushes (A* over pushes); None where none is found in NODES places."""
    lengths = [_pull_distances(room, target) for target in sorted(targets)]

    def least(some: Boxes) -> float:
        return sum(min(length.get(box, np.inf) for length in lengths) for box in some)

    queue: list[tuple[float, int, int, Cell, Boxes, tuple[str, ...]]] = [(least(boxes), 0, 0, place, boxes, ())]
    seen: set[tuple[Cell, Boxes]] = set()
    number = 0
    while queue and len(seen) < NODES:
        bound, _, count, here, now, way = heapq.heappop(queue)
        if now == targets:
            return way
        ways = _walks(room, here, now)
        key = (min(ways), now)
        if key in seen or bound == np.inf:
            continue
        seen.add(key)
        for cell, steps in ways.items():
            for word in MOVES:
                moved = pushed(room, cell, now, word)
                if moved is not None and moved[1] != now:
                    number += 1
                    after = (count + 1 + least(moved[1]), number, count + 1, *moved, (*way, *steps, word))
                    heapq.heappush(queue, after)
    return None


def _walks(room: Room, place: Cell, boxes: Boxes) -> dict[Cell, tuple[str, ...]]:
    """Return the shortest way to every square that can be reached without a push."""
    found: dict[Cell, tuple[str, ...]] = {place: ()}
    queue = deque([place])
    while queue:
        cell = queue.popleft()
        for word in MOVES:
            moved = pushed(room, cell, boxes, word)
            if moved is not None and moved[1] == boxes and moved[0] not in found:
                found[moved[0]] = (*found[cell], word)
                queue.append(moved[0])
    return found


@lru_cache(maxsize=4096)
def _pull_distances(room: Room, target: Cell) -> dict[Cell, int]:
    """Return the fewest pushes from each square to a target in an empty room; stuck squares are left out."""
    found, queue = {target: 0}, deque([target])
    while queue:
        row, column = queue.popleft()
        for rows, columns in MOVES.values():
            box, player = (row - rows, column - columns), (row - 2 * rows, column - 2 * columns)
            inside = 0 <= player[0] < len(room) and 0 <= player[1] < len(room[0])
            if inside and box not in found and room[box[0]][box[1]] != "#" and room[player[0]][player[1]] != "#":
                found[box] = found[row, column] + 1
                queue.append(box)
    return found


def _carved(rng: np.random.Generator, side: int) -> Room | None:
    """Return a room in one piece, a fifth of it pillars or more; None where these leave too little."""
    inner = (rng.random((side - 2, side - 2)) < 0.2).tolist()
    wall = "#" * side
    room = (wall, *("#" + "".join("#" if pillar else "_" for pillar in row) + "#" for row in inner), wall)
    floor = [(r, c) for r, row in enumerate(room) for c, sign in enumerate(row) if sign == "_"]
    if not floor:
        return None
    reached = _walks(room, floor[int(rng.integers(len(floor)))], frozenset())
    if len(reached) < 0.6 * (side - 2) ** 2:
        return None
    return tuple("".join("_" if (r, c) in reached else "#" for c in range(side)) for r in range(side))


def _drawn(rng: np.random.Generator, room: Room, count: int) -> tuple[Room, tuple[str, ...]] | None:
    """Return the room with boxes, targets and player, and a plan that solves it; None where the draw is no good.

    Boxes begin on the targets and are pulled away at random: pushes the other way round.
    """
    floor = [(r, c) for r, row in enumerate(room) for c, sign in enumerate(row) if sign == "_"]
    if len(floor) < 2 * count + 3:
        return None
    first, *others = (floor[int(i)] for i in rng.choice(len(floor), count + 1, replace=False))
    place, boxes, targets = first, frozenset(others), frozenset(others)
    pushes: list[tuple[Cell, str]] = []  # where the player stands before each push, last push first
    for _ in range(5 * count):
        pulls = _pulls(room, place, boxes)
        if not pulls:
            break
        cell, word = pulls[int(rng.integers(len(pulls)))]
        rows, columns = MOVES[word]
        box, behind = (cell[0] + rows, cell[1] + columns), (cell[0] - rows, cell[1] - columns)
        boxes, place = boxes - {box} | {cell}, behind
        pushes.append((behind, word))
    if boxes & targets or len({MOVES[word][0] == 0 for _, word in pushes}) < 2:  # up and down alone is no puzzle
        return None
    plan = _walked(room, place, boxes, pushes[::-1])
    if len(plan) > 40 + 15 * count:
        return None
    signs = {**dict.fromkeys(targets, "O"), **dict.fromkeys(boxes, "X"), place: "S" if place in targets else "P"}
    return tuple("".join(signs.get((r, c), s) for c, s in enumerate(row)) for r, row in enumerate(room)), plan


def _pulls(room: Room, place: Cell, boxes: Boxes) -> list[tuple[Cell, str]]:
    """Return the pulls there are: where the player stands beside the box, and the way it would be pushed back."""
    found: list[tuple[Cell, str]] = []
    for cell in sorted(_walks(room, place, boxes)):
        for word, (rows, columns) in MOVES.items():
            behind = (cell[0] - rows, cell[1] - columns)
            if (cell[0] + rows, cell[1] + columns) in boxes and behind not in boxes and room[behind[0]][behind[1]] != "#":
                found.append((cell, word))
    return found


def _walked(room: Room, place: Cell, boxes: Boxes, pushes: list[tuple[Cell, str]]) -> tuple[str, ...]:
    """Return the moves that make pushes one after another, with the shortest ways between."""
    plan: list[str] = []
    for cell, word in pushes:
        plan += [*_walks(room, place, boxes)[cell], word]
        moved = pushed(room, cell, boxes, word)
        assert moved is not None
        place, boxes = moved
    return tuple(plan)
