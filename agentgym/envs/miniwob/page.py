"""What a solver sees: the goal, and the page as it is shown."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentgym.browser.observation import Element, elements
from agentgym.core.actions import spell

Solver = Callable[["Page"], str]
"""From what is shown to the next action: it remembers nothing, so it goes on from any state."""


@dataclass(frozen=True)
class Page:
    """Goal and page of one moment."""

    goal: str
    seen: dict[str, Any]

    @property
    def elements(self) -> list[Element]:
        """All elements with an id."""
        return elements(self.seen)

    @property
    def parts(self) -> list[Element]:
        """All elements with an id, and between them the texts that have none, as elements with the id 0."""
        loose = [f"[0] {line}" if line.startswith("text ") else line for line in self.texts]
        return elements({"lines": [(0, line, 0) for line in loose]})

    @property
    def texts(self) -> list[str]:
        """All lines, without their depth."""
        return [text for _, text, _ in self.seen["lines"]]

    def all(self, role: str | None = None, name: str | None = None, style: str | None = None) -> list[Element]:
        """Return the elements of a role, a name, a class, in order."""
        return [
            e
            for e in self.elements
            if role in (None, e.role) and name in (None, e.name) and (style is None or style in e.fact("class").split())
        ]

    def one(self, role: str | None = None, name: str | None = None, style: str | None = None) -> Element:
        """Return the first of them; LookupError where there is none."""
        matching = self.all(role, name, style)
        if not matching:
            raise LookupError(f"no {role} {name!r} {style}")
        return matching[0]

    def known(self, id: str) -> Element:
        """Return the element with that `id` in the document; LookupError where there is none."""
        matching = [e for e in self.elements if e.fact("id") == id]
        if not matching:
            raise LookupError(f"no element with id {id!r}")
        return matching[0]

    def has(self, id: str) -> bool:
        """Return whether an element with that `id` is shown."""
        return any(e.fact("id") == id for e in self.elements)

    def quoted(self) -> list[str]:
        """Return what the goal has in double quotes."""
        return re.findall(r'"([^"]*)"', self.goal)

    def match(self, pattern: str) -> re.Match[str]:
        """Return where the goal matches; LookupError where it does not."""
        match = re.search(pattern, self.goal)
        if match is None:
            raise LookupError(f"{self.goal!r} is not {pattern!r}")
        return match


def click(element: Element) -> str:
    """Return the call that clicks an element."""
    return spell("click", element.id)


def call(name: str, **arguments: object) -> str:
    """Return a call with several arguments."""
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


def fill(element: Element, text: str) -> str:
    """Return the call that fills a field."""
    return call("fill", id=element.id, text=text)


def submit(page: Page) -> str:
    """Return the call that clicks what is labelled Submit."""
    return click(page.one("button", "Submit"))


def entered(page: Page, *wanted: tuple[Element, str]) -> str | None:
    """Return the call that fills the first field which does not hold its text yet, or None."""
    return next((fill(e, text) for e, text in wanted if e.fact("value") != text), None)


def nth(text: str) -> int:
    """Return 2 for `3rd`: the number of an ordinal, from 0."""
    return int(re.sub(r"\D", "", text)) - 1
