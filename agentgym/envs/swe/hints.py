"""Hints: the file to change, the function to change, and a failing test."""

import ast
import re
from collections.abc import Mapping, Sequence

from agentgym.envs.swe.tasks import Instance
from agentgym.rewards.programs.syntax import parse

LINES = 30
"""Maximum source lines of a test in a hint."""
_HUNK = re.compile(r"@@ [^@]*@@ ?(.*)")


def steps_of(instance: Instance) -> list[str]:
    """Return the hints for a task made by `agentgym swe make`."""
    tree, functions = instance.mutated(), list[str]()
    for edit in instance.gold:
        text = tree[edit.path].decode("utf-8")
        functions.append(_enclosing(text, _first_line(text, edit.old, edit.new)))
        edit.apply(tree)
    test = instance.fail_to_pass[0]
    where = _listed("It is in {}.", functions)
    return steps([edit.path for edit in instance.gold], where, [test, *_source(instance.mutated(), test)])


def steps_of_patch(patch: str, test: str) -> list[str]:
    """Return the hints for a repair given as a patch, whose hunk headers name the enclosing functions."""
    files = [line.rpartition(" b/")[2] for line in patch.splitlines() if line.startswith("diff --git ")]
    hunks = [match[1].strip() for line in patch.splitlines() if (match := _HUNK.match(line))]
    return steps(files, _listed("It is in or below `{}`.", hunks), [test])


def steps(files: Sequence[str], where: str, test: Sequence[str]) -> list[str]:
    """Return three hints: the files to change, the sentence `where`, and a failing test (its id, then its lines)."""
    return [
        _listed("The change belongs in {}.", files),
        where or "It is outside any function.",
        "\n".join([f"A hidden test that fails until the issue is fixed: {test[0]}", *test[1:]]),
    ]


def _listed(sentence: str, names: Sequence[str]) -> str:
    """Return `sentence` filled with the distinct names; empty without names."""
    different = list(dict.fromkeys(name for name in names if name))
    return sentence.format(" and ".join(different)) if different else ""


def _first_line(text: str, old: str, new: str) -> int:
    """Return the number, from 1, of the first line changed by an edit."""
    pairs = zip(old.splitlines(), new.splitlines(), strict=False)
    same = next((place for place, (a, b) in enumerate(pairs) if a != b), min(old.count("\n"), new.count("\n")))
    return text[: text.index(old)].count("\n") + min(same, max(old.count("\n") - 1, 0)) + 1


def _enclosing(text: str, line: int) -> str:
    """Return the qualified name of the innermost function or class around a line; empty at module level."""
    names: list[str] = []

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                if first <= line <= (child.end_lineno or line):
                    names.append(child.name)
                    visit(child)
            else:
                visit(child)

    try:
        visit(parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return ".".join(names)


def _source(tree: Mapping[str, bytes], test: str) -> list[str]:
    """Return the first `LINES` lines of a test's function; empty if the function is not found."""
    path, _, name = test.partition("::")
    name = name.rpartition("::")[2].partition("[")[0]
    text = tree.get(path, b"").decode("utf-8", "replace")
    try:
        nodes = [node for node in ast.walk(parse(text)) if isinstance(node, ast.FunctionDef) and node.name == name]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return text.splitlines()[nodes[0].lineno - 1 : nodes[0].end_lineno][:LINES] if nodes else []
