"""Notes for agents whose window is shorter than the text to read: write, search and delete a limited number."""

import re
from typing import Any, ClassVar

from agentgym.core.actions import tool
from agentgym.core.env import Outcome, TextEnv
from agentgym.errors import BadConfig

LONGEST_NOTE = 80
"""Maximum length of a note in characters."""
FOUND = 5
"""Maximum number of notes that a search shows."""


class Notes(TextEnv):
    """An environment with notes; a subclass sets `noted` and `found` in `begin`, and clears `found` in each new session."""

    task_settings: ClassVar[tuple[str, ...]] = ("notes",)
    settings: ClassVar[tuple[str, ...]] = task_settings
    notes: int = 12
    """Maximum number of notes at a time; 0: no notes."""
    noted: list[str]
    found: str
    """Query of the last search in the current session; empty if there was none."""

    def check_options(self) -> None:
        count: Any = self.notes
        if isinstance(count, bool) or not isinstance(count, int) or not (count == 0 or 2 <= count <= 100):
            raise BadConfig(f"notes of Memory is {count!r}; expected an integer from 2 to 100, or 0")
        super().check_options()

    def setup(self) -> None:
        super().setup()
        for name in ("note", "search_notes", "delete_note"):  # listed after the environment's own tools, or removed
            own = self.tools.pop(name)
            if self.notes:
                self.tools[name] = own

    def about_notes(self) -> str:
        """Return the sentence of the first observation that explains notes; empty if `notes` is 0."""
        return f"\nYou can keep {self.notes} notes of up to {LONGEST_NOTE} characters." if self.notes else ""

    @tool
    def note(self, text: str) -> str | Outcome:
        """Write a note."""
        if not text.strip() or len(text) > LONGEST_NOTE:
            return self.invalid(f"A note has 1 to {LONGEST_NOTE} characters.")
        if len(self.noted) == self.notes:
            return self.invalid(f"There are {self.notes} notes already. Delete one with delete_note.")
        self.noted.append(" ".join(text.split()))
        return f"Noted as number {len(self.noted)}."

    @tool
    def search_notes(self, query: str) -> str | Outcome:
        """Show the notes that share the most words with a query."""
        if len(query) > LONGEST_NOTE:
            return self.invalid(f"A query has at most {LONGEST_NOTE} characters.")
        self.found = query
        return self._matches(query) or "No note has any of these words."

    def _matches(self, query: str) -> str:
        query_words = set(re.findall(r"\w+", query.lower()))
        scores = {place: len(query_words & set(re.findall(r"\w+", text.lower()))) for place, text in enumerate(self.noted)}
        best = sorted((place for place in scores if scores[place]), key=lambda place: (-scores[place], place))
        return "\n".join(f"{place + 1}: {self.noted[place]}" for place in best[:FOUND])

    @tool
    def delete_note(self, number: int) -> str | Outcome:
        """Delete a note. Later notes move up by one number."""
        if not 0 < number <= len(self.noted):
            return self.invalid(f"There are {len(self.noted)} notes, numbered from 1.")
        return f"Deleted: {self.noted.pop(number - 1)}"
