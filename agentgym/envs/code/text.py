"""Observation text: tests as Python source, output of runs, and errors in code."""

import ast
import traceback
import warnings
from collections.abc import Mapping
from typing import Any

from agentgym.rewards.programs.syntax import parse
from agentgym.rewards.programs.values import as_source
from agentgym.sandbox.protocol import Result

LONGEST = 4000
"""Maximum characters shown of a run's output."""
LONGEST_VALUE = 300
"""Maximum characters shown of an input or a result."""


def expected(data: Mapping[str, Any], number: int) -> str:
    """Return a public test and its expected result, for display."""
    test = data["public"][number]
    if data["kind"] == "checks":
        return cut(test[0], LONGEST_VALUE) + (f"\n  expected: {cut(test[1], LONGEST_VALUE)}" if len(test) > 1 else "")
    result = test[1] if data["kind"] == "program" else as_source(test[1])
    return f"{cut(call(data, test[0]), LONGEST_VALUE)}\n  expected: {cut(result, LONGEST_VALUE)}"


def call(data: Mapping[str, object], arguments: Any) -> str:
    """Return a test's call of the solution as Python source; for a program, the test's input."""
    entry = data["entry"]
    if data["kind"] == "program":
        return f"input:    {arguments}"
    if data["kind"] == "function":
        return f"{entry}({_arguments(arguments)})"
    start, calls = arguments
    return f"it = {entry}({_arguments(start)}); [{', '.join(f'it.{name}({_arguments(values)})' for name, values in calls)}]"


def _arguments(packed: list[object]) -> str:
    return ", ".join(as_source(argument) for argument in packed)


def example(data: Mapping[str, object], test: list[Any]) -> str:
    """Return a public test as shown in a statement."""
    arguments, expected = test
    if data["kind"] == "program":
        return f"input:\n{cut(arguments, LONGEST_VALUE)}\noutput:\n{cut(expected, LONGEST_VALUE)}"
    return f"{cut(call(data, arguments), 2 * LONGEST_VALUE)}  # gives {cut(as_source(expected), LONGEST_VALUE)}"


def syntax_error(code: str) -> str:
    """Return Python's syntax error message for code, or an empty string."""
    try:
        _parsed(code)
    except SyntaxError as error:
        return cut("".join(traceback.format_exception_only(error)).rstrip(), LONGEST)
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def defines(code: str, entry: str) -> bool:
    """Return True if code may define a name, by any statement; for code that cannot be parsed, if it contains the name."""
    try:
        tree = _parsed(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return entry in code
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and node.name == entry:
            return True
        if isinstance(node, ast.Name) and node.id == entry and isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.alias) and (node.asname or node.name) == entry:
            return True
    return False


def _parsed(code: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's warnings belong where the code runs
        return parse(code, "<cell>")


def run_text(result: Result, seconds: float) -> str:
    """Return a run's output, with a note if it did not end normally; `seconds` is its time limit."""
    text = cut(result.text.rstrip("\n"), LONGEST)
    ends = {
        "timeout": f"(stopped: still running after {seconds:g} s)",
        "memory": "(stopped: memory limit exceeded; variables are lost)",
        "output": "(stopped: output limit exceeded; variables are lost)",
        "killed": "(the Python process exited; variables are lost)",
    }
    return "\n".join(part for part in (text, ends.get(result.reason, "")) if part)


def cut(text: str, most: int) -> str:
    """Return a text of at most `most` characters, plus a note in place of the middle if it was longer."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … {len(text) - most} characters … {text[-(most - most // 2) :]}"
