"""Push-optimal solutions by A*; walks between pushes cost nothing.

The search skips two kinds of deadlock: a box on a square that no pushes connect to a target (a table computed once per
room), and boxes off target that walls and other boxes immobilize.
"""

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache

from agentgym.envs.sokoban.rooms import MOVES, Boxes, Cell, Push, Room, pushed, walked, walks

POSITIONS = 2000
"""Maximum number of positions searched, which takes well below a second. Generated rooms need 20 to 150."""


def solution(room: Room, targets: Boxes, place: Cell, boxes: Boxes) -> tuple[str, ...] | None:
    """Return moves that solve a room with the fewest pushes; None if there are none, or none within POSITIONS positions.

    `place` is the player's square.

    The pushes depend on the boxes and on the squares that the player can reach, not on the player's exact square. So a
    caller that asks again after each move never turns back between two pushes, and reaches the end.
    """
    pushes = fewest_pushes(room, targets, min(walks(room, place, boxes)), boxes)
    return None if pushes is None else walked(room, place, boxes, pushes)


@lru_cache(maxsize=4096)
def fewest_pushes(room: Room, targets: Boxes, place: Cell, boxes: Boxes) -> tuple[Push, ...] | None:
    """Return the fewest pushes that solve a room, the first found among ties; None if POSITIONS positions yield none."""
    tables = [_pushes_to(room, target) for target in sorted(targets)]
    least: dict[Boxes, int | None] = {boxes: _least_pushes(tables, boxes)}
    start = (place, boxes)
    if least[boxes] is None:
        return None
    # Ties in the lower bound go to the longest path, then to the fewest moves, then to the first found.
    queue: list[tuple[int, int, int, int, Cell, Boxes, _Way]] = [(0, 0, 0, 0, *start, None)]
    closed: set[tuple[Cell, Boxes]] = set()
    discovered = 0
    while queue and len(closed) < POSITIONS:
        _, done, moves, _, place, boxes, way = heapq.heappop(queue)
        if boxes == targets:
            return tuple(_unrolled(way))
        away, pushes = _pushes(room, place, boxes)
        if (min(away), boxes) in closed:
            continue
        closed.add((min(away), boxes))
        for push, (there, after) in pushes:
            if after not in least:
                least[after] = None if _frozen(room, after) - targets else _least_pushes(tables, after)
            rest = least[after]
            if rest is not None:
                discovered += 1
                order = (1 - done + rest, done - 1, moves + away[push[0]] + 1, discovered)
                heapq.heappush(queue, (*order, there, after, (push, way)))
    return None


_Way = tuple[Push, "_Way"] | None
"""A push and the pushes before it."""


def _unrolled(way: _Way) -> list[Push]:
    pushes: list[Push] = []
    while way is not None:
        push, way = way
        pushes.append(push)
    return pushes[::-1]


def _pushes(room: Room, place: Cell, boxes: Boxes) -> tuple[dict[Cell, int], list[tuple[Push, tuple[Cell, Boxes]]]]:
    """Return the walking distance of each reachable square, and the possible pushes with their results."""
    away, queue = {place: 0}, deque([place])
    pushes: list[tuple[Push, tuple[Cell, Boxes]]] = []
    while queue:
        row, column = cell = queue.popleft()
        for word, (rows, columns) in MOVES.items():
            there = (row + rows, column + columns)
            if there in boxes:
                after = pushed(room, cell, boxes, word)
                if after is not None:
                    pushes.append(((cell, word), after))
            elif there not in away and room[there[0]][there[1]] != "#":
                away[there] = away[cell] + 1
                queue.append(there)
    return away, pushes


def _least_pushes(tables: Sequence[Mapping[Cell, int]], boxes: Boxes) -> int | None:
    """Return a lower bound on the pushes that bring the boxes to distinct targets; None if impossible.

    `tables` has the result of `_pushes_to` for each target.
    """
    best = {0: 0}  # by the set of occupied targets
    for box in boxes:
        longer: dict[int, int] = {}
        for occupied, pushes in best.items():
            for number, table in enumerate(tables):
                if not occupied >> number & 1 and box in table:
                    with_it, total = occupied | 1 << number, pushes + table[box]
                    longer[with_it] = min(longer.get(with_it, total), total)
        best = longer
    return min(best.values(), default=None)


def _frozen(room: Room, boxes: Boxes) -> Boxes:
    """Return the boxes that can never be pushed again: walls or other frozen boxes block them along both axes."""
    frozen = boxes
    while True:
        free = {(r, c) for r, c in frozen if not _blocked(room, frozen, (r - 1, c), (r + 1, c))}
        free |= {(r, c) for r, c in frozen if not _blocked(room, frozen, (r, c - 1), (r, c + 1))}
        if not free:
            return frozen
        frozen -= free


def _blocked(room: Room, frozen: Boxes, *sides: Cell) -> bool:
    return any(side in frozen or room[side[0]][side[1]] == "#" for side in sides)


@lru_cache(maxsize=4096)
def _pushes_to(room: Room, target: Cell) -> dict[Cell, int]:
    """Return a lower bound on the pushes from each square to a target.

    Other boxes and the player's walks are ignored. Squares from which no pushes lead to the target are absent.
    """
    steps, queue = {target: 0}, deque([target])
    while queue:
        row, column = queue.popleft()
        for rows, columns in MOVES.values():
            box, player = (row - rows, column - columns), (row - 2 * rows, column - 2 * columns)
            inside = 0 <= player[0] < len(room) and 0 <= player[1] < len(room[0])
            if inside and box not in steps and room[box[0]][box[1]] != "#" and room[player[0]][player[1]] != "#":
                steps[box] = steps[row, column] + 1
                queue.append(box)
    return steps
