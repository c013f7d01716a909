"""Rows of numbers for the terminal, each with a name that is never broken: a long one stands on a line of its own."""

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from agentgym.core.screen import printable

GAP = 2


def say(console: Console, text: str, style: str = "") -> None:
    """Print a sentence, made harmless: in a terminal in whole words within its width, in a file as one line."""
    console.print(Text(printable(text), style=style), soft_wrap=not console.is_terminal)


def labelled(rows: Mapping[str, str], *, indent: int = 2) -> Table:
    """Return texts beside their names, made harmless; a long text stays in its column."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows.items():
        table.add_row(" " * indent + printable(name), Text(printable(text)))
    return table


class Rows:
    """A renderable table: names on the left, numbers in columns to the right; print it with `soft_wrap=True`."""

    def __init__(self, title: str, columns: Sequence[str]) -> None:
        self.rows: list[tuple[str, Sequence[str], str]] = [(title, columns, "bold")]

    def add(self, name: str, cells: Sequence[str], style: str = "") -> None:
        """Add a row; name and cells are made harmless here."""
        self.rows.append((printable(name).replace("\n", " ").replace("\t", " "), cells, style))

    def note(self, text: str, style: str = "") -> None:
        """Add a line of text, which takes part in no column."""
        self.add(text, (), style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield a line for each row, and one more before it for a name that the console's width leaves no room for."""
        table = [cells for _, cells, _ in self.rows if cells]
        widths = [max(cell_len(cells[i]) for cells in table) for i in range(len(self.rows[0][1]))]
        numbers = sum(widths) + GAP * len(widths)
        longest = max(cell_len(name) for name, cells, _ in self.rows if cells)
        room = min(longest, max(0, options.max_width - numbers))
        for name, cells, style in self.rows:
            if not cells:
                yield _line(name, style)
                continue
            if cell_len(name) > room:
                yield _line(name, style)
                name = ""
            padded = "".join(" " * (GAP + width - cell_len(cell)) + cell for width, cell in zip(widths, cells, strict=True))
            yield _line(name + " " * (room - cell_len(name)) + padded, style)


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ignore", end="\n")
