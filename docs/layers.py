"""Draw the layers of the package from its imports: docs/made/layers.md, a picture and a table."""

import ast
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PACKAGE = DOCS.parent / "agentgym"
PAGE, PICTURE = DOCS / "made" / "layers.md", DOCS / "made" / "layers.svg"
HEAD = """# Layers

Each folder of `agentgym/` imports only from folders below it. An arrow points from a folder to one that it imports. Arrows
that follow from others are left out; the tooltip of a box lists them all. A row of the table quotes the folder's docstring.

![The folders of the package in layers](layers.svg)

"""
WIDTH, ROW, BOX, HEIGHT, LANE = 1000, 88, 92, 32, 16  # pixels: the picture, from row to row, a box, beside a box
DATA = ("packages", "sites")  # repositories and pages that environments show: they import nothing of the package's layers
Arrows = dict[str, set[str]]


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def parts() -> dict[str, str]:
    """Return what the package consists of, a folder or file at its top each, with its sentence."""
    folders = {path.parent.name: first_line(path) for path in PACKAGE.glob("*/__init__.py")}
    files = {path.stem: first_line(path) for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")}
    return dict(sorted((folders | files).items()))


def inner(part: str) -> dict[str, str]:
    """Return the folders in a folder with their sentences; environments are no layers of their own."""
    found = sorted(PACKAGE.glob(f"{part}/*/__init__.py")) if part != "envs" else []
    return {path.parent.name: first_line(path) for path in found}


def arrows() -> Arrows:
    """Return which part imports which, wherever in a file the import stands."""
    known = parts()
    drawn: Arrows = {name: set() for name in known}
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE).with_suffix("").parts
        if place[0] not in known or any(name in DATA for name in place):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            targets = {module.split(".")[1] for module in modules if module.startswith("agentgym.")}
            drawn[place[0]] |= targets & known.keys() - {place[0]}
    return drawn


def reach(drawn: Arrows, start: str) -> set[str]:
    """Return all that a part imports, through others too."""
    seen: set[str] = set()
    left = set(drawn[start])
    while left:
        one = left.pop()
        seen.add(one)
        left |= drawn[one] - seen
    return seen


def direct(drawn: Arrows) -> Arrows:
    """Return the arrows that say something: those that no way through other parts says already."""
    return {
        name: {to for to in used if not any(to in reach(drawn, by) for by in used - {to})} for name, used in drawn.items()
    }


def depths(drawn: Arrows) -> dict[str, int]:
    """Return each part's layer: one above the highest that it imports."""
    found: dict[str, int] = {}
    while len(found) < len(drawn):
        ready = {name for name, used in drawn.items() if name not in found and used <= found.keys()}
        if not ready:
            raise SystemExit(f"these import one another in a circle: {sorted(drawn.keys() - found.keys())}")
        found |= {name: 1 + max((found[one] for one in drawn[name]), default=-1) for name in ready}
    return found


def rows(drawn: Arrows) -> tuple[list[list[str]], list[list[str]]]:
    """Return the rows from the top down and the way of each arrow; one that passes a row has a place in it (`a>b`)."""
    layer = depths(drawn)
    top = max(layer.values())
    ways: list[list[str]] = []
    lines: list[list[str]] = [[name for name in sorted(layer) if layer[name] == depth] for depth in range(top, -1, -1)]
    for name, used in sorted(direct(drawn).items()):
        for to in sorted(used):
            passed = range(top - layer[name] + 1, top - layer[to])
            ways.append([name, *(f"{name}>{to}" for _ in passed), to])
            for row in passed:
                lines[row].append(f"{name}>{to}")
    for _ in range(8):  # each to the middle of what it is joined with, from above and from below in turn
        for row in [*range(1, len(lines)), *range(len(lines) - 2, -1, -1)]:
            middle = {name: _middle(name, row, lines, ways) for name in lines[row]}
            lines[row].sort(key=lambda name: (middle[name], name))
    return lines, ways


def _middle(name: str, row: int, lines: list[list[str]], ways: list[list[str]]) -> float:
    """Return the mean place, from 0 to 1, of what a name is joined with in the rows beside its own."""
    joined: list[float] = []
    for way in ways:
        start = next(number for number, line in enumerate(lines) if way[0] in line)
        at = row - start
        if 0 <= at < len(way) and way[at] == name:
            joined += [_share(way[one], lines[start + one]) for one in (at - 1, at + 1) if 0 <= one < len(way)]
    return sum(joined) / len(joined) if joined else 0.5


def _share(name: str, line: list[str]) -> float:
    return (line.index(name) + 0.5) / len(line)


def picture(drawn: Arrows) -> str:
    """Return the picture as SVG: a row for each layer, an arrow from who imports to what is imported."""
    lines, ways = rows(drawn)
    place: dict[tuple[str, int], tuple[int, int]] = {}
    for row, line in enumerate(lines):
        widths = [LANE if ">" in name else BOX + LANE for name in line]
        gap = (WIDTH - sum(widths)) / len(line)
        x = gap / 2
        for name, width in zip(line, widths, strict=True):
            place[name, row] = (round(x + width / 2), row * ROW + HEIGHT)
            x += width + gap
    start = {name: row for name, row in place if ">" not in name}
    drawing = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {len(lines) * ROW}" font-family="sans-serif" '
        'font-size="14">',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#678"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for way in ways:
        drawing.append(
            f'<path class="arrow" data-from="{way[0]}" data-to="{way[-1]}" d="{_curve(way, start[way[0]], place)}" '
            'fill="none" stroke="#678" marker-end="url(#head)"/>'
        )
    for name, row in sorted(start.items()):
        x, y = place[name, row]
        imports = ", ".join(sorted(drawn[name])) or "nothing of the package"
        drawing.append(
            f'<g><title>{name} imports {imports}</title><rect x="{x - BOX // 2}" y="{y - HEIGHT // 2}" width="{BOX}" '
            f'height="{HEIGHT}" rx="6" fill="#eef3f8" stroke="#456"/>'
            f'<text x="{x}" y="{y + 5}" text-anchor="middle" fill="#123">{name}</text></g>'
        )
    return "\n".join([*drawing, "</svg>", ""])


def _curve(way: list[str], row: int, place: dict[tuple[str, int], tuple[int, int]]) -> str:
    """Return the path of an arrow: straight down through the rows it passes, bent between them."""
    half = HEIGHT // 2
    x, y = place[way[0], row]
    path = f"M{x} {y + half}"
    y += half
    for number, name in enumerate(way[1:], row + 1):
        u, v = place[name, number]
        path += f"C{x} {y + 26} {u} {v - half - 26} {u} {v - half}"
        if ">" in name:
            path += f"V{v + half}"
        x, y = u, v + half
    return path


def table(drawn: Arrows) -> str:
    """Return one line for each folder, from the top of the picture to its bottom."""
    layer, sentences = depths(drawn), parts()
    lines = ["| folder | what is in it |", "|---|---|"]
    for name in sorted(drawn, key=lambda name: (-layer[name], name)):
        is_folder = (PACKAGE / name / "__init__.py").exists()
        lines.append(f"| `{name}{'/' if is_folder else '.py'}` | {sentences[name]} |")
        lines += [f"| `{name}/{folder}/` | {sentence} |" for folder, sentence in inner(name).items()]
    return "\n".join([*lines, ""])


def main() -> None:
    """Write both."""
    drawn = arrows()
    PAGE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(drawn), encoding="utf-8", newline="\n")
    PAGE.write_text(HEAD + table(drawn), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
