"""The expert: reads system prompt, document and messages, and tracks the active rules."""

import re
from collections.abc import Sequence

import numpy as np

from agentgym.envs.instructions.generate import PLURALS
from agentgym.envs.instructions.reply import Item, write
from agentgym.envs.instructions.rules import Operation, Rules, after, read

_ITEM = re.compile(r"- (\w+) \((\w+), (\d+) kg\)")
_REQUEST = re.compile(r"List the ([\w ]+) in the document\.")


def understood(texts: Sequence[str]) -> tuple[Rules, list[Item], str]:
    """Return the active rules, the document's items, and the category to list, given all observations."""
    head, _, first = texts[0].rpartition("\nUser: ")
    instructions, _, document = head.partition("\nDocument:\n")
    system = _operations([line.removeprefix("System: ") for line in instructions.splitlines()])
    items = [(name, kind, int(weight)) for name, kind, weight in _ITEM.findall(document)]
    messages = [first, *(text.partition("User: ")[2] for text in texts[1:])]
    wishes = [operation for message in messages for operation in _operations(message.splitlines())]
    listed = _REQUEST.findall(messages[-1])
    category = {plural: kind for kind, plural in PLURALS.items()}.get(listed[0] if listed else "", "")
    return after(wishes, after(system, {})), items, category


def _operations(lines: Sequence[str]) -> list[Operation]:
    return [operation for line in lines if (operation := read(line)) is not None]


def reply(texts: Sequence[str]) -> str:
    """Return a reply to the last message that keeps all active rules."""
    return write(*understood(texts))


def slip(texts: Sequence[str], rng: np.random.Generator) -> str | None:
    """Return a reply that ignores one active rule; None if there is no rule, or nothing is left to write."""
    rules, items, category = understood(texts)
    if not rules:
        return None
    dropped = sorted(rules)[int(rng.integers(len(rules)))]
    return write({about: value for about, value in rules.items() if about != dropped}, items, category) or None
