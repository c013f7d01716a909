"""The view of a solver: the goal and the displayed page."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentgym.browser.observation import Element, elements
from agentgym.core.actions import spell

Solver = Callable[["Page"], str]
"""Function from the current view to the next action; it is stateless, so it can continue from any state."""


@dataclass(frozen=True)
class Page:
    """The goal and the page displayed at one moment."""

    goal: str
    seen: dict[str, Any]

    @property
    def elements(self) -> list[Element]:
        """Elements that have an id, in page order."""
        return elements(self.seen)

    @property
    def parts(self) -> list[Element]:
        """Elements that have an id, and the texts between them as elements with id 0."""
        loose = [f"[0] {line}" if line.startswith("text ") else line for line in self.texts]
        return elements({"lines": [(0, line, 0) for line in loose]})

    @property
    def texts(self) -> list[str]:
        """Lines of the page, without indentation."""
        return [text for _, text, _ in self.seen["lines"]]

    def all(self, role: str | None = None, name: str | None = None, style: str | None = None) -> list[Element]:
        """Return the elements with this role, name and CSS class, in page order; None matches any."""
        return [
            e
            for e in self.elements
            if role in (None, e.role) and name in (None, e.name) and (style is None or style in e.fact("class").split())
        ]

    def one(self, role: str | None = None, name: str | None = None, style: str | None = None) -> Element:
        """Return the first element with this role, name and CSS class; None matches any.

        Raises:
            LookupError: no element matches.
        """
        matching = self.all(role, name, style)
        if not matching:
            raise LookupError(f"no {role} {name!r} {style}")
        return matching[0]

    def known(self, id: str) -> Element:
        """Return the element with this `id` attribute in the document.

        Raises:
            LookupError: no element has this attribute.
        """
        matching = [e for e in self.elements if e.fact("id") == id]
        if not matching:
            raise LookupError(f"no element with id {id!r}")
        return matching[0]

    def has(self, id: str) -> bool:
        """Return whether an element with this `id` attribute is displayed."""
        return any(e.fact("id") == id for e in self.elements)

    def quoted(self) -> list[str]:
        """Return the texts in double quotes in the goal."""
        return re.findall(r'"([^"]*)"', self.goal)

    def match(self, pattern: str) -> re.Match[str]:
        """Search the goal for a pattern, and return the match.

        Raises:
            LookupError: the goal does not match.
        """
        match = re.search(pattern, self.goal)
        if match is None:
            raise LookupError(f"{self.goal!r} is not {pattern!r}")
        return match


def click(element: Element) -> str:
    """Return the call that clicks an element."""
    return spell("click", element.id)


def call(name: str, **arguments: object) -> str:
    """Return a tool call with named arguments, as JSON."""
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


def fill(element: Element, text: str) -> str:
    """Return the call that fills a field."""
    return call("fill", id=element.id, text=text)


def submit(page: Page) -> str:
    """Return the call that clicks the element labeled Submit."""
    return click(page.one("button", "Submit"))


def entered(page: Page, *values: tuple[Element, str]) -> str | None:
    """Return the call for the first (field, text) pair whose field must still be filled; None if no field must."""
    return next((fill(e, text) for e, text in values if e.fact("value") != text), None)


def nth(text: str) -> int:
    """Return the zero-based index for an ordinal: 2 for `3rd`."""
    return int(re.sub(r"\D", "", text)) - 1
