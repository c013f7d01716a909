"""Plans for solving web tasks, with steps that name links by text and fields by label; and a parser of pages."""

import json
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Node:
    """Node of a displayed page. `id` is the number that tools use, or "" if the node is not interactive."""

    role: str
    name: str = ""
    id: str = ""
    value: str = ""
    children: tuple["Node", ...] = ()

    def walk(self) -> Iterator["Node"]:
        """Yield this node and all its descendants, in page order."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def text(self) -> str:
        """Name of the node, or the joined text of its descendants if it has no name."""
        return self.name or " ".join(filter(None, (child.text for child in self.children)))

    def all(self, role: str, name: str | None = None) -> list["Node"]:
        """Return this node and its descendants, filtered by role and, if given, by name."""
        return [node for node in self.walk() if node.role == role and name in (None, node.name)]


@dataclass(frozen=True)
class Page:
    """A page as displayed to the agent."""

    url: str
    root: Node = field(default_factory=lambda: Node("page"))

    def find(self, role: str, name: str, row: str = "") -> Node | None:
        """Return the first node with this role and name.

        With `row`, search only the table rows, list items and articles that contain a node with exactly this text.
        """
        places = [self.root] if not row else [node for node in self.boxes() if any(row == n.text for n in node.walk())]
        return next((node for place in places for node in place.all(role, name)), None)

    def boxes(self) -> list[Node]:
        """Return the page's table rows, list items and articles."""
        return [node for node in self.root.walk() if node.role in ("row", "article", "listitem")]

    def has(self, role: str, name: str) -> bool:
        """Return whether the page has a node with this role and name."""
        return self.find(role, name) is not None

    def says(self, text: str) -> bool:
        """Return whether a text occurs in the name or value of a node of the page."""
        return any(text in node.name or text in node.value for node in self.root.walk())

    def records(self, column: str) -> list[dict[str, str]]:
        """Return the rows of all tables that have this column, as dicts from column header to cell text.

        Rows with more or fewer cells than the header are left out.
        """
        records_found: list[dict[str, str]] = []
        for table in self.root.all("table"):
            rows = [[cell.text for cell in row.children] for row in table.all("row")]
            if rows and column in rows[0]:
                records_found += [dict(zip(rows[0], row, strict=True)) for row in rows[1:] if len(row) == len(rows[0])]
        return records_found

    def fact(self, name: str) -> str:
        """Return the value next to a name in a table; "" if there is no such row."""
        for row in self.root.all("row"):
            if len(row.children) == 2 and row.children[0].text == name:
                return row.children[1].text
        return ""


_LINE = re.compile(r"(?:\[(\d+)\] )?(\S+)(?: (\"(?:[^\"\\]|\\.)*\"))?(.*)", re.DOTALL)
_VALUE = re.compile(r"(?:^| )value=(\"(?:[^\"\\]|\\.)*\")")
_CELL = re.compile(r"\"(?:[^\"\\]|\\.)*\"")


def page_of(url: str, lines: Sequence[tuple[int, str]]) -> Page:
    """Parse the lines of an observation, each (depth, text), into a page."""

    def nodes(start: int, end: int) -> tuple[Node, ...]:
        nodes_found: list[Node] = []
        while start < end:
            depth, after = lines[start][0], start + 1
            while after < end and lines[after][0] > depth:
                after += 1
            nodes_found.append(_node(lines[start][1], nodes(start + 1, after)))
            start = after
        return tuple(nodes_found)

    return Page(url, Node("page", children=nodes(0, len(lines))))


def _node(line: str, below: tuple[Node, ...]) -> Node:
    """Parse a line into a node: `[12] textbox "Name" value="…"`, or `row "…" | "…"` for a table row of plain cells."""
    if line.startswith('row "') and not below:
        return Node("row", children=tuple(Node("cell", json.loads(cell)) for cell in _CELL.findall(line)))
    match = _LINE.fullmatch(line)
    assert match is not None
    value = _VALUE.search(match[4])
    name = json.loads(match[3]) if match[3] else ""
    return Node(match[2], name, match[1] or "", json.loads(value[1]) if value else "", below)


@dataclass(frozen=True)
class Goto:
    """Open an address."""

    url: str


@dataclass(frozen=True)
class Click:
    """Click the first node with this role and name, such as a link or button.

    `row`, if set, is the text of a node in the same table row, list item or article.
    """

    role: str
    name: str
    row: str = ""


@dataclass(frozen=True)
class Fill:
    """Replace the text of the field with this label."""

    label: str
    text: str
    row: str = ""


@dataclass(frozen=True)
class Select:
    """Choose an option of the list with this label."""

    label: str
    option: str
    row: str = ""


@dataclass(frozen=True)
class Answer:
    """End the task with an answer: `done`, `impossible`, or the requested value."""

    text: str


Step = Goto | Click | Fill | Select | Answer
Plan = Generator[Step, Page, None]
"""Generator that yields steps and receives the page after each; a plan knows only the instruction and the pages."""

DONE, IMPOSSIBLE = "done", "impossible"
_FIELDS = ("textbox", "searchbox", "spinbutton")
_LISTS = ("combobox", "listbox")


class ImpossibleTask(LookupError):
    """The task's subject is missing or off limits; a plan that raises it ends with the answer `impossible`."""


class Lost(LookupError):
    """A step refers to a node that is not on the page."""


def target(step: Click | Fill | Select, page: Page) -> Node:
    """Return the node that a step acts on.

    Raises:
        Lost: the page has no such interactive node.
    """
    roles = (step.role,) if isinstance(step, Click) else _FIELDS if isinstance(step, Fill) else _LISTS
    name = step.name if isinstance(step, Click) else step.label
    for role in roles:
        node = page.find(role, name, step.row)
        if node is not None and node.id:
            return node
    raise Lost(f"{step} on {page.url}: there is no such thing on the page")


def follow(plan: Callable[[], Plan], act: Callable[[Step], Page]) -> None:
    """Execute a plan to its end; `act` executes a step and returns the resulting page."""
    steps = plan()
    try:
        step = next(steps)
        while True:
            step = steps.send(act(step))
    except StopIteration:
        return
