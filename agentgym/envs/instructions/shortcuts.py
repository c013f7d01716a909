"""Shortcut policies, which must not succeed."""

import re
from collections.abc import Callable, Mapping

from agentgym.envs.instructions.expert import understood
from agentgym.envs.instructions.reply import write
from agentgym.envs.instructions.rules import after, read

Shortcut = Callable[[list[str]], str]


def shortcuts(*, conflicts: bool) -> Mapping[str, Shortcut]:
    """Return the shortcut policies by name; `conflicts` adds those that need system, user and document to disagree."""
    return {
        "first message only": lambda seen: _later(seen, seen[:1]),
        "last message only": lambda seen: _later(seen, [_without_rules(seen[0]), seen[-1]] if len(seen) > 1 else seen),
        "no rules": lambda seen: write({}, *understood(seen)[1:]),
        **({"whoever spoke last": _anybody} if conflicts else {}),
        "copy the document": lambda seen: seen[0].partition("Document:\n")[2].partition("\nUser:")[0],
        "quote the rules": lambda seen: "\n".join(re.findall(r'"([^"]+)"', "\n".join(seen))) or "-",
    }


def _later(seen: list[str], remembered: list[str]) -> str:
    """Reply to the last message, keeping only the rules in the remembered messages."""
    rules, items, _ = understood(remembered)
    return write(rules, items, understood(seen)[2])


def _without_rules(text: str) -> str:
    """Return the first observation without the rules in the user's message."""
    head, _, message = text.rpartition("\nUser: ")
    return f"{head}\nUser: {message.splitlines()[0]}"


def _anybody(seen: list[str]) -> str:
    """Reply to the last message, obeying system, document and user alike; the newest order wins."""
    lines = [re.sub(r"^(?:System: |User: |- Note to the reader: )", "", line) for text in seen for line in text.splitlines()]
    operations = [operation for line in lines if (operation := read(line)) is not None]
    return write(after(operations, {}), *understood(seen)[1:])
