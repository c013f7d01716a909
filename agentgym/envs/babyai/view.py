"""What the agent sees of a level, in words and as a map of letters."""

from typing import Any

SIGNS = {"wall": "#", "ball": "b", "box": "x", "key": "k"}
DOORS = {"open": "o", "closed": "c", "locked": "l"}
LEGEND = "# wall, . floor, ? unseen, b ball, x box, k key, o open door, c closed door, l locked door"


def thing(cell: Any) -> str:
    """Return the words for what lies in a cell: `red ball`, `locked blue door`."""
    return f"{_door(cell)} {cell.color} door" if cell.type == "door" else f"{cell.color} {cell.type}"


def _door(cell: Any) -> str:
    return "open" if cell.is_open else "locked" if cell.is_locked else "closed"


def told(level: Any) -> str:
    """Return everything that can be seen: things with their places, what is carried, and the seven by seven squares."""
    grid, seen = level.gen_obs_grid()
    size = level.agent_view_size
    here = (size // 2, size - 1)
    found: list[tuple[int, int, str]] = []
    rows: list[str] = []
    for j in range(size):
        signs: list[str] = []
        for i in range(size):
            cell = None if (i, j) == here else grid.get(i, j)
            if (i, j) == here:
                signs.append("^")
            elif not seen[i, j]:
                signs.append("?")
            else:
                signs.append(_sign(cell))
                if cell is not None and cell.type != "wall":
                    found.append((here[1] - j, i - here[0], thing(cell)))
        rows.append("".join(signs))
    found.sort(key=lambda place: (abs(place[0]) + abs(place[1]), place))
    things = "; ".join(f"a {words} {_where(ahead, side)}" for ahead, side, words in found) or "nothing but walls and floor"
    carried = f"a {thing(level.carrying)}" if level.carrying else "nothing"
    return f"You see {things}.\nYou carry {carried}.\n" + "\n".join(rows)


def _sign(cell: Any) -> str:
    if cell is None:
        return "."
    return DOORS[_door(cell)] if cell.type == "door" else SIGNS[cell.type]


def _where(ahead: int, side: int) -> str:
    parts = [f"{ahead} ahead"] if ahead else []
    parts += [f"{abs(side)} to the {'right' if side > 0 else 'left'}"] if side else []
    return "underfoot" if not parts else " and ".join(parts)
