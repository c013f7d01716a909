"""Shortcut policies that submit code without solving the task; none may ever be rewarded."""

import re
from collections.abc import Callable, Mapping

from agentgym.core.actions import spell

_HEAD = re.compile(r"Write a (?:function|class) `(\w+)\(")
_EXAMPLE = re.compile(r"^\w+\((.*)\)  # gives (.*)$", re.MULTILINE)


def shortcuts() -> Mapping[str, Callable[[list[str]], str]]:
    """Return the shortcut policies by name; each maps all observations so far to an action."""
    return {
        "empty_submission": empty_submission,
        "public_constants": public_constants,
        "first_argument": first_argument,
        "printed_answers": printed_answers,
    }


def _entry(observations: list[str]) -> str:
    head = _HEAD.search(observations[0])
    return head[1] if head else "solve"


def empty_submission(observations: list[str]) -> str:
    """Submit a function that does nothing."""
    return spell("submit", f"def {_entry(observations)}(*given):\n    pass")


def public_constants(observations: list[str]) -> str:
    """Submit a lookup table of the examples, with the last result for any other input."""
    examples: list[tuple[str, str]] = _EXAMPLE.findall(observations[0])
    lines = [f"    if given == ({arguments},):\n        return {result}" for arguments, result in examples]
    last = examples[-1][1] if examples else "None"
    return spell("submit", "\n".join([f"def {_entry(observations)}(*given):", *lines, f"    return {last}"]))


def first_argument(observations: list[str]) -> str:
    """Submit a function that returns its argument."""
    return spell("submit", f"def {_entry(observations)}(first, *others):\n    return first")


def printed_answers(observations: list[str]) -> str:
    """Submit a program that prints the examples' results and a claim of success."""
    examples: list[tuple[str, str]] = _EXAMPLE.findall(observations[0])
    prints = "\n".join(f"print({result!r})" for _, result in examples)
    return spell("submit", f"{prints}\nprint('All hidden tests pass.')\ndef {_entry(observations)}(*given):\n    exit(0)")
