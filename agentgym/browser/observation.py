"""A page as text: its address, notes for the agent, and its elements as an indented tree."""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

MOST_HEAD = 400  # characters shown of an address or a title
_LINE = re.compile(r"\[(\d+)\] (\S+)(?: (\"(?:[^\"\\]|\\.)*\"))?(.*)", re.DOTALL)


class Element(NamedTuple):
    """An element with an id, as shown in the observation."""

    id: int
    role: str
    name: str
    facts: str
    """The rest of the element's line: `checked`, `value="…"`, `disabled`, …"""

    def fact(self, key: str) -> str:
        """Return the value after `key=` in `facts`, or an empty string."""
        match = re.search(rf'(?:^| ){re.escape(key)}=("(?:[^"\\]|\\.)*"|\S+)', self.facts)
        text = match[1] if match else ""
        return json.loads(text) if text.startswith('"') else text

    def has(self, word: str) -> bool:
        """Return True if `facts` contains a word such as `checked`."""
        return word in re.sub(r'"(?:[^"\\]|\\.)*"', "", self.facts).split()


def elements(seen: dict[str, Any]) -> list[Element]:
    """Return all elements with an id of a page as `page.js` reports it, including those cut from the observation."""
    elements_seen: list[Element] = []
    for _, text, _ in seen["lines"]:
        match = _LINE.fullmatch(text)
        if match:
            elements_seen.append(
                Element(int(match[1]), match[2], json.loads(match[3]) if match[3] else "", match[4].strip())
            )
    return elements_seen


def written(seen: dict[str, Any], most: int, error: str | None = None) -> str:
    """Return the observation of a page as `page.js` reports it, in at most `most` characters.

    It is longer only if the lines above the elements (URL, title, tabs, focus, error, notes) leave fewer than 200.
    """
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
    """Return the tree of elements in at most `most` characters.

    A longer tree is cut to the part from the window's top on, with lines that count what is omitted above and below.
    """
    lines = [(min(depth, 30), text, top) for depth, text, top in seen["lines"]]
    if not lines:
        return "(the page is empty)"
    whole = "\n".join("  " * depth + text for depth, text, _ in lines)
    if len(whole) <= most and not seen["more"]:
        return whole
    start = _first_in_window(lines) if len(whole) > most and seen["scroll"][0] > 0 else 0
    visible: list[str] = []
    room = most - 160
    for depth, text, _ in lines[start:]:
        line = "  " * depth + text
        if room < len(line) + 1:
            if not visible:
                visible.append(line[: room - 1] + "…")
            break
        visible.append(line)
        room -= len(line) + 1
    below = len(lines) - start - len(visible)
    if start:
        visible.insert(0, f"({start} lines above are not shown; scroll[up] shows them)")
    if seen["more"]:
        visible.append(f"({below} lines below are not shown, and more of a page too large to read; scroll[down] shows some)")
    elif below:
        visible.append(f"({below} lines below are not shown; scroll[down] shows them)")
    return "\n".join(visible)


def _first_in_window(lines: Sequence[tuple[int, str, int]]) -> int:
    """Return the index of the first line whose element begins at or below the window's top; else of the last line."""
    return next((i for i, (_, _, top) in enumerate(lines) if top >= 0), len(lines) - 1)
