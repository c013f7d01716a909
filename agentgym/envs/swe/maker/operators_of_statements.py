"""Mutations of statements: omissions, early or late exits, and wrong exceptions."""

import ast
import re
from collections.abc import Iterator

from agentgym.envs.swe.maker.code import Code, Splice
from agentgym.envs.swe.maker.operators import operator

ERRORS = {
    **{"ValueError": "TypeError", "TypeError": "ValueError", "KeyError": "IndexError", "IndexError": "KeyError"},
    **{"LookupError": "ValueError", "AttributeError": "KeyError", "RuntimeError": "ValueError", "OSError": "ValueError"},
    **{"StopIteration": "KeyError", "NotImplementedError": "TypeError", "OverflowError": "ValueError"},
}
SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "-=",
    ast.Sub: "+=",
    ast.Mult: "+=",
    ast.BitOr: "&=",
    ast.BitAnd: "|=",
    ast.Div: "*=",
}


@operator("dropped statement", 3, ast.Expr, ast.AugAssign, ast.Assign, ast.Delete)
def _dropped_statement(code: Code, node: ast.Expr | ast.AugAssign | ast.Assign | ast.Delete) -> Iterator[Splice | None]:
    """Yield a splice that drops a call, a deletion or an update; an assignment that alone defines a name stays.

    The splice is None if other code shares the statement's lines.
    """
    if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call):
        return
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        function = code.function(node)
        names = [
            inner.id
            for inner in ast.walk(function or code.tree)
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
        ]
        if names.count(node.targets[0].id) < 2:  # the name would be undefined
            return
    yield code.drop(node)


@operator("dropped guard", 4, ast.If)
def _dropped_guard(code: Code, node: ast.If) -> Iterator[Splice | None]:
    """Yield a splice that drops a short `if` ending with `return`, `raise`, `continue` or `break`.

    The splice is None if other code shares the statement's lines.
    """
    leaves = isinstance(node.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
    if leaves and not node.orelse and len(node.body) <= 2 and code.text(node).startswith("if"):
        yield code.drop(node)


@operator("dropped branch", 3, ast.If)
def _dropped_branch(code: Code, node: ast.If) -> Iterator[Splice | None]:
    """Yield a splice that drops the last branch, an `elif` with its body or an `else`; otherwise yield nothing."""
    start, end = code.span(node)
    if code.text(node).startswith("elif") and not node.orelse:
        line = code.raw.rfind(b"\n", 0, start) + 1
        close = code.raw.find(b"\n", end) + 1 or len(code.raw)
        yield Splice(line, close, "")
    elif node.orelse and not (len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)):
        body_end = code.span(node.body[-1])[1]
        between = code.raw[body_end : code.span(node.orelse[0])[0]]
        if re.fullmatch(rb"[ \t]*(#[^\n]*)?\n\s*else:\s*", between):
            yield Splice(body_end, end, "")


@operator("early exit", 4, ast.Break, ast.Continue, ast.Return)
def _early_exit(code: Code, node: ast.Break | ast.Continue | ast.Return) -> Iterator[Splice | None]:
    """Yield a splice that replaces `break` by `continue` or vice versa, or drops a nested `return`.

    The splice is None if other code shares the lines of the `return`.
    """
    if isinstance(node, ast.Break):
        yield code.replace(node, "continue")
        return
    if isinstance(node, ast.Continue):
        yield code.replace(node, "break")
        return
    function, above = code.function(node), code.parent(node)
    if function is None or above is function:
        return
    block = code.block(node)
    if len(block) > 1:
        yield code.drop(node)


@operator("early return", 3, ast.For, ast.While)
def _early_return(code: Code, node: ast.For | ast.While) -> Iterator[Splice | None]:
    """Yield a splice that moves a one-line `return` after a loop to the end of the loop's body."""
    block = code.block(node)
    place = block.index(node) if node in block else -1
    if place < 0 or place + 1 >= len(block) or not isinstance(block[place + 1], ast.Return) or node.orelse:
        return
    after = block[place + 1]
    start, end = code.span(after)
    before = code.raw[code.span(node)[1] : start]
    if not before.strip() and "\n" not in code.text(after):
        yield Splice(start - after.col_offset, end, " " * node.body[-1].col_offset + code.text(after))


@operator("other error", 2, ast.Raise, ast.ExceptHandler)
def _other_error(code: Code, node: ast.Raise | ast.ExceptHandler) -> Iterator[Splice | None]:
    if isinstance(node, ast.ExceptHandler):
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        if isinstance(node.type, ast.Tuple) and len(node.type.elts) == 2:
            for element in node.type.elts:
                yield code.replace(node.type, code.text(element))
    else:
        kinds = [node.exc.func if isinstance(node.exc, ast.Call) else node.exc]
    for kind in kinds:
        if isinstance(kind, ast.Name) and kind.id in ERRORS:
            yield code.replace(kind, ERRORS[kind.id])


@operator("other update", 4, ast.AugAssign)
def _other_update(code: Code, node: ast.AugAssign) -> Iterator[Splice | None]:
    start, text = code.between(node.target, node.value)
    match = re.search(r"[-+*/%|&^@<>]+=", text)
    if match is None or "#" in text:
        return
    for new in (SIGNS.get(type(node.op)), "="):
        if new is not None:
            yield Splice(start + match.start(), start + match.end(), new)


@operator("one after the other", 2, ast.Assign)
def _one_after_the_other(code: Code, node: ast.Assign) -> Iterator[Splice | None]:
    """Yield a splice that turns a simultaneous assignment such as `a, b = b, a + b` into `a = b` and `b = a + b`."""
    target = node.targets[0]
    if not (isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) and len(target.elts) == 2):
        return
    if len(node.value.elts) == 2 and len(node.targets) == 1:
        pairs = zip(target.elts, node.value.elts, strict=True)
        lines = [f"{code.text(name)} = {code.text(value)}" for name, value in pairs]
        yield code.replace(node, f"\n{' ' * node.col_offset}".join(lines))
