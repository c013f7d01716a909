"""Source code with its syntax tree; edits splice text, which preserves comments and layout."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast

from agentgym.rewards.programs.syntax import parse

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_ATOMS = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript, ast.List, ast.Dict, ast.Set, ast.ListComp)


@dataclass(frozen=True)
class Splice:
    """A byte range of a file and its replacement."""

    start: int
    end: int
    text: str


class Code:
    """A parsed Python file.

    Raises:
        SyntaxError: the file cannot be parsed.
        UnicodeDecodeError: the file is not UTF-8.
    """

    def __init__(self, path: str, raw: bytes) -> None:
        self.path = path
        self.raw = raw
        self.tree = parse(raw.decode("utf-8"))
        self._starts = [0]
        for line in raw.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._parents: dict[ast.AST, ast.AST] = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return a node's byte range: start and exclusive end."""
        assert isinstance(node, ast.expr | ast.stmt | ast.keyword | ast.arg | ast.excepthandler)
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[end_line - 1] + end_column

    def text(self, node: ast.AST) -> str:
        """Return the source of a node."""
        start, end = self.span(node)
        return self.raw[start:end].decode("utf-8")

    def operand(self, node: ast.expr) -> str:
        """Return a node's source, in parentheses if it could not stand next to an operator otherwise."""
        text = self.text(node)
        return text if isinstance(node, _ATOMS) else f"({text})"

    def between(self, left: ast.AST, right: ast.AST) -> tuple[int, str]:
        """Return the start (in bytes) and the content of the text between two nodes."""
        start, end = self.span(left)[1], self.span(right)[0]
        return start, self.raw[start:end].decode("utf-8")

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return a node's parent; None for the module."""
        return self._parents.get(node)

    def function(self, node: ast.AST) -> FunctionNode | None:
        """Return the innermost function around a node; None outside functions."""
        above = self.parent(node)
        while above is not None and not isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            above = self.parent(above)
        return above

    def place(self, node: ast.AST) -> str:
        """Return `PATH:NAME`; NAME is the qualified name of the innermost function or class around a node, or empty."""
        names: list[str] = []
        above: ast.AST | None = node
        while above is not None:
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.append(above.name)
            above = self.parent(above)
        return ":".join([self.path, ".".join(reversed(names))])

    def replace(self, node: ast.AST, text: str) -> Splice:
        """Return the splice that replaces a node's text."""
        return Splice(*self.span(node), text)

    def drop(self, node: ast.stmt) -> Splice | None:
        """Return the splice that removes a statement's lines; None if these lines contain other code.

        A block's only statement is replaced by `pass`.
        """
        start, end = self._starts[node.lineno - 1], self._starts[min(node.end_lineno or node.lineno, len(self._starts) - 1)]
        first, last = self.span(node)
        if self.raw[start:first].strip() or self.raw[last:end].split(b"#")[0].strip():
            return None
        block = self.block(node)
        alone = len([statement for statement in block if not is_docstring(statement)]) < 2
        return Splice(start, end, " " * node.col_offset + "pass\n" if alone else "")

    def block(self, node: ast.stmt) -> list[ast.stmt]:
        """Return the list of statements that contains the statement."""
        above = self.parent(node)
        for name in ("body", "orelse", "finalbody"):
            statements: object = getattr(above, name, None)
            if isinstance(statements, list) and node in statements:
                return cast("list[ast.stmt]", statements)
        return []

    def spliced(self, splice: Splice) -> bytes:
        """Return the file's content after a splice."""
        return self.raw[: splice.start] + splice.text.encode() + self.raw[splice.end :]

    def candidates(self) -> Iterator[ast.AST]:
        """Yield the nodes in functions, except annotations, docstrings, decorators and f-strings."""
        left: list[ast.AST] = [self.tree]
        while left:
            node = left.pop()
            if self.function(node) is not None or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node
            left += [child for child in ast.iter_child_nodes(node) if not self._skipped(node, child)]

    def _skipped(self, node: ast.AST, child: ast.AST) -> bool:
        if isinstance(child, ast.JoinedStr) or (isinstance(child, ast.stmt) and is_docstring(child)):
            return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return child is node.returns or child in node.decorator_list
        return isinstance(node, ast.arg | ast.AnnAssign) and child is node.annotation


def is_docstring(node: ast.stmt) -> bool:
    """Return True if a statement consists of a string only."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
