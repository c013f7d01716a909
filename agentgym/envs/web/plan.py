"""Plans of tasks: steps in the words of a page (the link called so, the field labelled so), and the page as it is seen."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Node:
    """One node of a page as it is shown. `id` is what tools call it by; "" where it cannot be acted on."""

    role: str
    name: str = ""
    id: str = ""
    value: str = ""
    children: tuple["Node", ...] = ()

    def walk(self) -> Iterator["Node"]:
        """Yield this node and all below it, in the order of the page."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def text(self) -> str:
        """What the node says: its name, else what those below it say."""
        return self.name or " ".join(filter(None, (child.text for child in self.children)))

    def all(self, role: str, name: str | None = None) -> list["Node"]:
        """Return the nodes of a role (and of a name) here and below."""
        return [node for node in self.walk() if node.role == role and name in (None, node.name)]


@dataclass(frozen=True)
class Page:
    """A page as the agent is shown it."""

    url: str
    root: Node = field(default_factory=lambda: Node("page"))

    def find(self, role: str, name: str, row: str = "") -> Node | None:
        """Return the first node of a role and a name; with `row`, only in table rows and articles that say so."""
        places = [self.root] if not row else [node for node in self.boxes() if any(row == n.text for n in node.walk())]
        return next((node for place in places for node in place.all(role, name)), None)

    def boxes(self) -> list[Node]:
        """Return the rows of tables, the items of lists and the articles of the page."""
        return [node for node in self.root.walk() if node.role in ("row", "article", "listitem")]

    def has(self, role: str, name: str) -> bool:
        """Return whether there is a node of that role and name."""
        return self.find(role, name) is not None

    def says(self, text: str) -> bool:
        """Return whether a text stands anywhere on the page."""
        return any(text in node.name or text in node.value for node in self.root.walk())

    def records(self) -> list[dict[str, str]]:
        """Return the rows of the page's tables, each as the texts of its cells by column header."""
        found: list[dict[str, str]] = []
        headers: list[str] = []
        for row in self.root.all("row"):
            tops = [node.text for node in row.children if node.role == "columnheader"]
            headers = tops or headers
            cells = [node.text for node in row.children if node.role in ("cell", "gridcell", "rowheader")]
            if not tops and len(cells) == len(headers):
                found.append(dict(zip(headers, cells, strict=True)))
        return found

    def fact(self, name: str) -> str:
        """Return what a table says beside a row header; "" where there is no such row."""
        for row in self.root.all("row"):
            if row.children and row.children[0].role == "rowheader" and row.children[0].text == name:
                return " ".join(cell.text for cell in row.children[1:])
        return ""


@dataclass(frozen=True)
class Goto:
    """Open an address."""

    url: str


@dataclass(frozen=True)
class Click:
    """Click the link or button called so; with `row`, the one in the table row or article that says so."""

    role: str
    name: str
    row: str = ""


@dataclass(frozen=True)
class Fill:
    """Replace the text of the field labelled so."""

    label: str
    text: str
    row: str = ""


@dataclass(frozen=True)
class Select:
    """Choose an option of the list labelled so."""

    label: str
    option: str
    row: str = ""


@dataclass(frozen=True)
class Answer:
    """End the task with an answer: `done`, `impossible`, or what was asked for."""

    text: str


Step = Goto | Click | Fill | Select | Answer
Plan = Generator[Step, Page, None]
"""A plan yields steps and is sent the page that each brought; it knows what the instruction says, and the pages."""

DONE, IMPOSSIBLE = "done", "impossible"
_FIELDS = ("textbox", "searchbox", "spinbutton")
_LISTS = ("combobox", "listbox")


class Lost(LookupError):
    """A plan names something that is not on the page."""


def target(step: Click | Fill | Select, page: Page) -> Node:
    """Return the node that a step acts on; Lost where the page has none."""
    roles = (step.role,) if isinstance(step, Click) else _FIELDS if isinstance(step, Fill) else _LISTS
    name = step.name if isinstance(step, Click) else step.label
    for role in roles:
        node = page.find(role, name, step.row)
        if node is not None and node.id:
            return node
    raise Lost(f"{step} on {page.url}: there is no such thing on the page")


def follow(plan: Callable[[], Plan], act: Callable[[Step], Page]) -> None:
    """Carry a plan out to its end; `act` takes a step and returns the page it brought."""
    steps = plan()
    try:
        step = next(steps)
        while True:
            step = steps.send(act(step))
    except StopIteration:
        return
