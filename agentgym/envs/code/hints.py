"""Hints for a task: a plan, a signature, and a test case that the statement does not show."""

import ast
from collections.abc import Iterator

from agentgym.core.tasks import Data
from agentgym.envs.code.text import LONGEST_VALUE, cut, expected
from agentgym.rewards.programs.syntax import parse

_PARTS: dict[str, tuple[type[ast.AST], ...]] = {
    "a loop": (ast.For, ast.While),
    "a comprehension": (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    "a branch": (ast.If, ast.IfExp),
    "an inner function": (ast.Lambda,),
    "exceptions": (ast.Try,),
}
"""Parts of a program that a plan may mention, and their types in the syntax tree."""


def steps(data: Data) -> list[str]:
    """Return the hints for a task; raise NotImplementedError if neither a solution nor a test is known."""
    tree = _tree(data["reference"])
    number = len(data["public"]) - 1
    found = [
        *([_plan(tree)] if tree else []),
        _signature(tree, data["entry"], data["kind"]),
        *([f"Test case: {expected(data, number)}"] if number >= 0 else []),
    ]
    if not tree and number < 0:
        raise NotImplementedError("the task has neither a reference solution nor a public test")
    return found


def _tree(reference: str) -> ast.Module | None:
    try:
        return parse(reference) if reference else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _plan(tree: ast.Module) -> str:
    nodes = list(ast.walk(tree))
    lines = sum(isinstance(node, ast.stmt) for node in nodes)
    parts = [name for name, kinds in _PARTS.items() if any(isinstance(node, kinds) for node in nodes)]
    calls = sorted({node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)})
    uses = ", ".join([*parts, *(f"{name}()" for name in calls[:6])])
    return f"Plan: a solution has about {lines} statements" + (f" and uses {uses}." if uses else ".")


def _signature(tree: ast.Module | None, entry: str, kind: str) -> str:
    if kind == "program":
        return "The program reads its input with input() or sys.stdin and prints its results."
    signatures = list(_defined(tree, entry)) if tree else []
    return cut("\n".join(["Define:", *(signatures or [entry])]), 2 * LONGEST_VALUE)


def _defined(tree: ast.Module, entry: str) -> Iterator[str]:
    """Yield the line that defines the solution; for a class, also the lines that define its methods."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            yield f"def {entry}({ast.unparse(node.args)}):"
        elif isinstance(node, ast.ClassDef) and node.name == entry:
            yield f"class {entry}:"
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            yield from (f"    def {method.name}({ast.unparse(method.args)}):" for method in methods)
