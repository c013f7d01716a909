"""Terminal table of numbers whose row names are never broken: a long name gets its own line."""

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from agentgym.core.screen import printable

GAP = 2


def say(console: Console, text: str, style: str = "") -> None:
    """Print an escaped sentence: wrapped by words in a terminal, as one line in a file."""
    console.print(Text(printable(text), style=style), soft_wrap=not console.is_terminal)


def labelled(rows: Mapping[str, str], *, indent: int = 2) -> Table:
    """Return a table of names and escaped texts; a long text wraps in its column."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows.items():
        table.add_row(" " * indent + printable(name), Text(printable(text)))
    return table


class Rows:
    """Renderable table with names on the left and number columns on the right; print it with `soft_wrap=True`."""

    def __init__(self, title: str, columns: Sequence[str]) -> None:
        self.rows: list[tuple[str, Sequence[str], str]] = [(title, columns, "bold")]

    def add(self, name: str, cells: Sequence[str], style: str = "") -> None:
        """Add a row; name and cells are escaped here."""
        self.rows.append((printable(name).replace("\n", " ").replace("\t", " "), cells, style))

    def note(self, text: str, style: str = "") -> None:
        """Add a line of text outside the columns."""
        self.add(text, (), style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield a line for each row; a name that does not fit the width gets its own line before the row."""
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
