"""The agent's view of a level, in words and as a map of letters."""

from agentgym.envs.babyai.parts import Cell, Level

SIGNS = {"wall": "#", "ball": "b", "box": "x", "key": "k"}
DOORS = {"open": "o", "closed": "c", "locked": "l"}
AHEAD: tuple[tuple[int, int], ...] = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""Unit vector (x, y) of each view direction, indexed by minigrid's direction number."""
LEGEND = "# wall, . floor, ? unseen, b ball, x box, k key, o open door, c closed door, l locked door"


def thing(cell: Cell) -> str:
    """Return the name of a square's content: `red ball`, `locked blue door`."""
    return f"{_door(cell)} {cell.color} door" if cell.type == "door" else f"{cell.color} {cell.type}"


def _door(cell: Cell) -> str:
    return "open" if cell.is_open else "locked" if cell.is_locked else "closed"


def described(level: Level) -> str:
    """Return the observation: visible objects with their positions, the carried object, and the 7 by 7 view."""
    cells, seen = in_view(level)
    last, middle = len(cells) - 1, len(cells) // 2
    sightings: list[tuple[int, int, str]] = []
    rows: list[str] = []
    for j, row in enumerate(cells):
        signs: list[str] = []
        for i, cell in enumerate(row):
            if not seen[j][i]:
                signs.append("?")
                continue
            here = (i, j) == (middle, last)
            signs.append("^" if here else _sign(cell))
            if cell is not None and cell.type != "wall" and not here:
                sightings.append((last - j, i - middle, thing(cell)))
        rows.append("".join(signs))
    sightings.sort(key=lambda place: (abs(place[0]) + abs(place[1]), place))
    things = (
        "; ".join(f"a {words} {_where(ahead, side)}" for ahead, side, words in sightings) or "nothing but walls and floor"
    )
    carried = f"a {thing(level.carrying)}" if level.carrying else "nothing"
    return f"You see {things}.\nYou are carrying {carried}.\n" + "\n".join(rows)


def in_view(level: Level) -> tuple[list[list[Cell | None]], list[list[bool]]]:
    """Return the squares in front of the agent, row by row from the farthest, and which of them are visible.

    This equals minigrid's `gen_obs_grid` and `process_vis`, which rotate copies of the map. Squares outside the map are
    walls.
    """
    size, half = level.agent_view_size, level.agent_view_size // 2
    width, height, squares = level.grid.width, level.grid.height, level.grid.grid
    x, y = (int(k) for k in level.agent_pos)
    ahead_x, ahead_y = AHEAD[int(level.agent_dir)]
    cells: list[list[Cell | None]] = []
    for ahead in range(size - 1, -1, -1):
        row: list[Cell | None] = []
        for side in range(-half, size - half):
            i, j = x + ahead * ahead_x - side * ahead_y, y + ahead * ahead_y + side * ahead_x
            row.append(squares[j * width + i] if 0 <= i < width and 0 <= j < height else squares[0])  # a corner is wall
        cells.append(row)
    return cells, _seen(cells, half)


def _seen(cells: list[list[Cell | None]], half: int) -> list[list[bool]]:
    """Return True for each visible square; sight spreads from square to square, sideways and ahead, unless blocked.

    `half` is the column of the agent, which stands in the last row.
    """
    size = len(cells)
    seen = [[False] * size for _ in cells]
    seen[-1][half] = True
    for j in range(size - 1, -1, -1):
        for step, columns in ((1, range(size - 1)), (-1, range(size - 1, 0, -1))):
            for i in columns:
                cell = cells[j][i]
                if seen[j][i] and (cell is None or cell.see_behind()):
                    seen[j][i + step] = True
                    if j:
                        seen[j - 1][i + step] = seen[j - 1][i] = True
    return seen


def _sign(cell: Cell | None) -> str:
    if cell is None:
        return "."
    return DOORS[_door(cell)] if cell.type == "door" else SIGNS[cell.type]


def _where(ahead: int, side: int) -> str:
    parts = [f"{ahead} ahead"] if ahead else []
    parts += [f"{abs(side)} to the {'right' if side > 0 else 'left'}"] if side else []
    return "underfoot" if not parts else " and ".join(parts)
