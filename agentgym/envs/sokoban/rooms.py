"""Rooms: the effect of a move, and the generation of solvable rooms."""

from collections import deque
from collections.abc import Sequence

import numpy as np

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
Cell = tuple[int, int]
Boxes = frozenset[Cell]
Room = tuple[str, ...]
Push = tuple[Cell, str]
"""The player's square before a push, and its direction."""


def pushed(room: Room, place: Cell, boxes: Boxes, word: str) -> tuple[Cell, Boxes] | None:
    """Return the squares of player and boxes after the move `word` from square `place`; None if it is impossible."""
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


def walks(room: Room, place: Cell, boxes: Boxes) -> dict[Cell, tuple[str, ...]]:
    """Return the shortest walk from `place`, as moves, to each square that is reachable without a push."""
    paths: dict[Cell, tuple[str, ...]] = {place: ()}
    queue = deque([place])
    while queue:
        cell = queue.popleft()
        for word in MOVES:
            moved = pushed(room, cell, boxes, word)
            if moved is not None and moved[1] == boxes and moved[0] not in paths:
                paths[moved[0]] = (*paths[cell], word)
                queue.append(moved[0])
    return paths


def carved(rng: np.random.Generator, side: int) -> Room | None:
    """Return a random connected room, `side` squares wide, with pillars on about a fifth of it.

    None: less than 60 % of the inner squares are connected floor.
    """
    inner = (rng.random((side - 2, side - 2)) < 0.2).tolist()
    wall = "#" * side
    room = (wall, *("#" + "".join("#" if pillar else "_" for pillar in row) + "#" for row in inner), wall)
    floor = [(r, c) for r, row in enumerate(room) for c, sign in enumerate(row) if sign == "_"]
    if not floor:
        return None
    reached = walks(room, floor[int(rng.integers(len(floor)))], frozenset())
    if len(reached) < 0.6 * (side - 2) ** 2:
        return None
    return tuple("".join("_" if (r, c) in reached else "#" for c in range(side)) for r in range(side))


def drawn(rng: np.random.Generator, room: Room, count: int) -> tuple[Room, tuple[str, ...]] | None:
    """Return the room with `count` boxes, their targets and the player, and moves that solve it; None if the draw fails.

    Boxes begin on the targets and are pulled away at random, which reverses pushes.
    """
    floor = [(r, c) for r, row in enumerate(room) for c, sign in enumerate(row) if sign == "_"]
    if len(floor) < 2 * count + 3:
        return None
    first, *others = (floor[int(i)] for i in rng.choice(len(floor), count + 1, replace=False))
    place, boxes, targets = first, frozenset(others), frozenset(others)
    pushes: list[Push] = []  # the player's square before each push, last push first
    for _ in range(5 * count):
        pulls = _pulls(room, place, boxes)
        if not pulls:
            break
        cell, word = pulls[int(rng.integers(len(pulls)))]
        rows, columns = MOVES[word]
        box, behind = (cell[0] + rows, cell[1] + columns), (cell[0] - rows, cell[1] - columns)
        boxes, place = boxes - {box} | {cell}, behind
        pushes.append((behind, word))
    if boxes & targets or len({MOVES[word][0] == 0 for _, word in pushes}) < 2:  # pushes along one axis make no puzzle
        return None
    plan = walked(room, place, boxes, pushes[::-1])
    if len(plan) > 40 + 15 * count:
        return None
    signs = {**dict.fromkeys(targets, "O"), **dict.fromkeys(boxes, "X"), place: "S" if place in targets else "P"}
    return tuple("".join(signs.get((r, c), s) for c, s in enumerate(row)) for r, row in enumerate(room)), plan


def _pulls(room: Room, place: Cell, boxes: Boxes) -> list[Push]:
    """Return the possible pulls: the player's square next to the box, and the direction of the reverse push."""
    pulls: list[Push] = []
    for cell in sorted(walks(room, place, boxes)):
        for word, (rows, columns) in MOVES.items():
            behind = (cell[0] - rows, cell[1] - columns)
            if (cell[0] + rows, cell[1] + columns) in boxes and behind not in boxes and room[behind[0]][behind[1]] != "#":
                pulls.append((cell, word))
    return pulls


def walked(room: Room, place: Cell, boxes: Boxes, pushes: Sequence[Push]) -> tuple[str, ...]:
    """Return the moves that perform pushes in order, with the shortest walks between them."""
    plan: list[str] = []
    for cell, word in pushes:
        plan += [*walks(room, place, boxes)[cell], word]
        moved = pushed(room, cell, boxes, word)
        assert moved is not None
        place, boxes = moved
    return tuple(plan)


def pushes_of(room: Room, place: Cell, boxes: Boxes, moves: Sequence[str]) -> tuple[Push, ...]:
    """Return the pushes among moves, in order; impossible moves are skipped."""
    pushes: list[Push] = []
    for word in moves:
        moved = pushed(room, place, boxes, word)
        if moved is None:
            continue
        if moved[1] != boxes:
            pushes.append((place, word))
        place, boxes = moved
    return tuple(pushes)
