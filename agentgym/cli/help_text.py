"""Help text above the flags, fitted to the terminal: a sentence or two, and examples with explanations."""

import ast
import functools
import inspect
import itertools
import re
import textwrap
from dataclasses import is_dataclass
from typing import cast

_EXAMPLE = re.compile(
    r"^(?P<indent> *)(?P<command>(?:[A-Z_]+=\S+ )*[^\s`]*(?:agentgym|accelerate) .*?)(?: {2,}(?P<what>\S.*))?$"
)


def folded_text(description: str, width: int) -> str:
    """Return a command's docstring wrapped to `width` characters; only a longer word makes a longer line.

    Explanations of examples are printed next to the commands if all of them fit, else below.
    """
    lines = [line for block in inspect.cleandoc(description).split("\n\n") for line in [*_block(block, width), ""]]
    return "\n".join(lines[:-1])


@functools.cache
def docs(kind: type) -> dict[str, str]:
    """Return the doc line of each field of a dataclass, including inherited fields, parsed from the source."""
    by_field = {name: text for base in reversed(kind.__bases__) if is_dataclass(base) for name, text in docs(base).items()}
    body: list[ast.stmt] = cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]).body
    for above, below in itertools.pairwise(body):
        if isinstance(above, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            by_field[ast.unparse(above.target)] = " ".join(str(below.value.value).split())
    return by_field


def _block(block: str, width: int) -> list[str]:
    rows = [(line, _EXAMPLE.match(line)) for line in block.split("\n")]
    if not any(match for _, match in rows):
        return textwrap.wrap(" ".join(block.split()), width, break_on_hyphens=False)
    pairs = [(match["command"].rstrip(), match["what"] or "") if match else (line.strip(), "") for line, match in rows]
    column = max((len(command) for command, what in pairs if what), default=0) + 2
    if all(max(2 + len(command), (column + 2 + len(what)) if what else 0) <= width for command, what in pairs):
        return [f"  {command.ljust(column)}{what}".rstrip() for command, what in pairs]
    return [line for command, what in pairs for line in (*_folded(command, width), *([f"      {what}"] if what else []))]


def _folded(command: str, width: int) -> list[str]:
    """Return a shell command wrapped to `width` characters, with a backslash at the end of all lines but the last."""
    first, *rest = textwrap.wrap(command, width - 8, break_on_hyphens=False, break_long_words=False)
    lines = [f"  {first}", *(f"    {line}" for line in rest)]
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]
