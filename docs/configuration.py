"""Write the page of every setting of a run and of an evaluation, docs/made/configuration.md, from the dataclasses."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from agentgym.cli.eval import Config
from agentgym.cli.help_text import docs
from agentgym.trainers.config.settings import TABLES, EnvSpec

PAGE = Path(__file__).resolve().parent / "made" / "configuration.md"
HEAD = """# Configuration

Every setting of a training run and of an evaluation, made from the dataclasses. In a recipe a key stands in the table that
its heading names, without the table's prefix, or at the top under the name of its flag. `agentgym train --help` and
`agentgym eval --help` print the same. Options of a stage are on the pages of the [stages](../seams/README.md).
"""


def page() -> str:
    """Return the page."""
    lines = [HEAD, "## Training: `agentgym train`", ""]
    for kind, table in TABLES.items():
        lines += [f"### {f'[{table}]' if table else 'Top of the file'}", "", str(kind.__doc__), "", *rows(kind)]
    lines += ["### [[envs]]", "", "One of several environments.", "", *rows(EnvSpec, flags=False)]
    lines += ["## Evaluation: `agentgym eval`", "", *rows(Config)]
    return "\n".join(lines).rstrip("\n") + "\n"


def rows(kind: type, *, flags: bool = True) -> Iterator[str]:
    """Yield the lines of a table of the fields of a dataclass."""
    yield from ("| key | values | default | meaning |", "|---|---|---|---|")
    texts, hints = docs(kind), get_type_hints(kind, include_extras=True)
    for field in (field for field in dataclasses.fields(kind) if field.name != "envs" or kind is Config):
        options = field.name.endswith("options")
        name = f"--{field.name.removesuffix('_options')}.KEY" if options else f"--{field.name.replace('_', '-')}"
        label = f"`{name}`" if flags else f"`{field.name}`"
        yield f"| {label} | {values(hints[field.name])} | {default(field)} | {cell(texts.get(field.name, ''))} |"
    yield ""


def values(hint: Any) -> str:
    """Return the values of a field in words: its type, or the literals it takes."""
    if get_origin(hint) is Annotated:
        return values(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return cell(", ".join(f"`{value}`" for value in get_args(hint)))
    text = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
    return cell(re.sub(r"\b(?:\w+\.)+(?=\w)", "", text))


def default(field: "dataclasses.Field[Any]") -> str:
    """Return the default of a field; empty if it has none, or an empty one."""
    made = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
    if made in (dataclasses.MISSING, None, "", (), {}):
        return ""
    return f"`{cell(' '.join(map(str, made)) if isinstance(made, tuple) else str(made))}`"


def cell(text: str) -> str:
    """Return a text that stands in one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Write the page."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
