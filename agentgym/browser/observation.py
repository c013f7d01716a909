"""A page as text: where it is, what the agent must be told, and its elements as an indented tree."""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

MOST_HEAD = 400  # characters of an address or a title that are shown
_LINE = re.compile(r"\[(\d+)\] (\S+)(?: (\"(?:[^\"\\]|\\.)*\"))?(.*)", re.DOTALL)


class Element(NamedTuple):
    """An element with an id, as it is shown."""

    id: int
    role: str
    name: str
    facts: str
    """The rest of its line: `checked`, `value="…"`, `disabled`, …"""

    def fact(self, key: str) -> str:
        """Return what is said behind `key=`, or an empty string."""
        match = re.search(rf'(?:^| ){re.escape(key)}=("(?:[^"\\]|\\.)*"|\S+)', self.facts)
        text = match[1] if match else ""
        return json.loads(text) if text.startswith('"') else text

    def has(self, word: str) -> bool:
        """Return whether a word such as `checked` is said."""
        return word in re.sub(r'"(?:[^"\\]|\\.)*"', "", self.facts).split()


def elements(seen: dict[str, Any]) -> list[Element]:
    """Return all elements of a page that have an id, also those that the observation cut."""
    elements_seen: list[Element] = []
    for _, text, _ in seen["lines"]:
        match = _LINE.fullmatch(text)
        if match:
            elements_seen.append(
                Element(int(match[1]), match[2], json.loads(match[3]) if match[3] else "", match[4].strip())
            )
    return elements_seen


def written(seen: dict[str, Any], most: int, error: str | None = None) -> str:
    """Return the observation, at most so many characters long."""
    head = [f"URL: {seen['url'][:MOST_HEAD]}", f"Title: {seen['title']}"]
    tabs = seen["tabs"]
    if len(tabs) > 1:
        head += [
            f"Tab {i}{' (current)' if i - 1 == seen['current'] else ''}: {t} {u[:MOST_HEAD]}"
            for i, (u, t) in enumerate(tabs, 1)
        ]
    head.append(f"Focus: {seen['focus'] or 'nothing'}")
    if error:
        head.append(f"Error: {error}")
    head += seen["notes"]
    text = "\n".join(head) + "\n\n"
    return text + body(seen, max(most - len(text), 200))


def body(seen: dict[str, Any], most: int) -> str:
    """Return the tree; of a long page what begins at the top of the window, with lines that say what is not shown."""
    lines = [(min(depth, 30), text, top) for depth, text, top in seen["lines"]]
    if not lines:
        return "(the page is empty)"
    whole = "\n".join("  " * depth + text for depth, text, _ in lines)
    if len(whole) <= most and not seen["more"]:
        return whole
    start = _first_in_window(lines) if len(whole) > most and seen["scroll"][0] > 0 else 0
    shown: list[str] = []
    room = most - 160
    for depth, text, _ in lines[start:]:
        line = "  " * depth + text
        if room < len(line) + 1:
            if not shown:
                shown.append(line[: room - 1] + "…")
            break
        shown.append(line)
        room -= len(line) + 1
    below = len(lines) - start - len(shown)
    if start:
        shown.insert(0, f"({start} lines above are not shown; scroll[up] shows them)")
    if seen["more"]:
        shown.append(f"({below} lines below are not shown, and more of a page too large to read; scroll[down] shows some)")
    elif below:
        shown.append(f"({below} lines below are not shown; scroll[down] shows them)")
    return "\n".join(shown)


def _first_in_window(lines: Sequence[tuple[int, str, int]]) -> int:
    """Return the number of the first line whose element begins in the window, or of the last line."""
    return next((i for i, (_, _, top) in enumerate(lines) if top >= 0), len(lines) - 1)
