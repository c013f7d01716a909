"""From a reply to an action: what is sent to the world, and whether an action was found."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from agentgym.actions import Call, Tool, parse_call
from agentgym.errors import BadConfig

FALLBACK = 30  # characters of a reply without an action that are sent all the same, as in verl-agent's ALFWorld setting
_CLOSE = "</think>"
_OPEN = "<think>"


class Parsed(NamedTuple):
    """An action for the world, and whether it was found in the reply."""

    action: str
    found: bool


def split_thought(text: str, opened: bool) -> tuple[bool, bool, str]:
    """Return whether a reply holds a whole thought, whether it holds an unfinished one, and what follows it, stripped."""
    head, closed, rest = text.partition(_CLOSE)
    if not closed:
        return False, opened or text.lstrip().startswith(_OPEN), text.strip()
    return opened or _OPEN in head, False, rest.strip()


@dataclass(frozen=True, slots=True)
class Reply:
    """How a prompt asks to be answered.

    `kind` is `bare` (the whole reply is the action), `tag` (the last `<tag>…</tag>`), or `call` (one tool call, sent
    untouched). `think` says that a thought must come before it; a thought is always allowed.
    """

    kind: str
    tag: str = "action"
    think: bool = False

    @staticmethod
    def read(text: str, name: str) -> "Reply":
        """Read a prompt's `[reply]` section: `bare`, `call`, `tag` or `tag NAME`, and `think` before any of these."""
        words = text.split()
        think = words[:1] == ["think"]
        kind, *rest = words[think:] or [""]
        if kind not in ("bare", "call", "tag") or len(rest) > (kind == "tag"):
            raise BadConfig(
                f"prompt {name}: [reply] is {text!r}; expected bare, call or tag NAME, with or without think before"
            )
        return Reply(kind, rest[0] if rest else "action", think)

    def parse(self, text: str, tools: Mapping[str, Tool], *, opened: bool = False, complete: bool = True) -> Parsed:
        """Return what goes to the world, and whether an action was found.

        `opened` says that the prompt already opened the thought; `complete` that the reply was not cut by length.
        Without an action, a `tag` reply sends its last 30 characters and the others their text without the thought.
        """
        whole = _CLOSE in text and self.kind == "call" and not (opened or self.think) and _is_call(text, tools)
        thought, unfinished, rest = (False, False, text.strip()) if whole else split_thought(text, opened)
        found = None if unfinished else self._find(rest, tools, complete)
        if found is None:
            return Parsed(rest[-FALLBACK:].strip() if self.kind == "tag" else rest, False)
        return Parsed(found, thought or not self.think)

    def _find(self, text: str, tools: Mapping[str, Tool], complete: bool) -> str | None:
        if self.kind == "tag":
            before, closed, _ = text.rpartition(f"</{self.tag}>")
            _, opened, inside = before.rpartition(f"<{self.tag}>")
            return inside.strip() if closed and opened and inside.strip() else None
        if self.kind == "bare":
            return text if text and complete else None
        if _is_call(text, tools):
            return text
        last = text.rsplit("\n", 1)[-1].strip()
        return last if _is_call(last, tools) else None


def _is_call(text: str, tools: Mapping[str, Tool]) -> bool:
    return bool(tools) and isinstance(parse_call(text, tools), Call)
