"""Parses the action for the environment from a reply."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from agentgym.core.actions import Call, Tool, parse_call, spell
from agentgym.errors import BadConfig

FALLBACK = 30  # characters of a reply without an action that are sent all the same, as in verl-agent's ALFWorld setting
PROJECTIONS = {"verl-agent": (FALLBACK, False), "verl-agent-webshop": (20, True)}
"""verl-agent's parsing in ALFWorld and WebShop: characters sent without an action, and whether Chinese is valid."""
_CLOSE = "</think>"
_OPEN = "<think>"
_CHINESE = re.compile("[\u4e00-\u9fff]")
KINDS = ("bare", "block", "call", "tag", "until", *PROJECTIONS)


class Parsed(NamedTuple):
    """An action for the environment, and whether it was found in the reply."""

    action: str
    has_action: bool


def project(text: str, last: int = FALLBACK, chinese: bool = False) -> Parsed:
    """Return the action of a reply by the rules of verl-agent's projections, and its validity.

    The action is the lower-case text from the first `<action>` to the first `</action>`, or without these tags the
    `last` characters. It is valid if the reply has both tags of a thought and, unless `chinese`, no Chinese character.
    """
    lowered = text.lower()
    start, end = lowered.find("<action>"), lowered.find("</action>")
    if start < 0 or end < 0:
        return Parsed(lowered[-last:], False)
    thought = _OPEN in text and _CLOSE in text
    return Parsed(lowered[start + len("<action>") : end].strip(), thought and (chinese or not _CHINESE.search(text)))


def split_thought(text: str, opened: bool) -> tuple[bool, bool, str]:
    """Return (has a complete thought, has an unfinished thought, the stripped text after the thought) for a reply."""
    head, closed, rest = text.partition(_CLOSE)
    if not closed:
        return False, opened or text.lstrip().startswith(_OPEN), text.strip()
    return opened or _OPEN in head, False, rest.strip()


@dataclass(frozen=True, slots=True)
class Reply:
    """Form of the replies that a prompt asks for.

    `kind` is `bare` (the whole reply is the action), `tag` (the last `<tag>…</tag>`), `call` (one tool call, sent
    untouched), `block` (the only fenced block of the language `tag`: what the environment's first tool is called with, as
    mini-swe-agent does), `until` (the reply ends with the first closing tag of the first name of `until` that has one; it
    goes to the environment whole, and was found where it holds a block of any), or a key of `PROJECTIONS` (see `project`).
    `think` says that a thought must come before it; one is always allowed.
    """

    kind: str
    tag: str = "action"
    think: bool = False
    until: tuple[str, ...] = ()

    @staticmethod
    def read(text: str, name: str) -> "Reply":
        """Parse the section `[reply]` of a prompt.

        It is a key of `PROJECTIONS`, or `bare`, `call`, `tag NAME`, `block NAME` or `until NAME…`, optionally after `think`.

        Raises:
            BadConfig: the text has none of these forms.
        """
        words = text.split()
        think = words[:1] == ["think"]
        kind, *rest = words[think:] or [""]
        if (
            kind not in KINDS
            or (len(rest) > (kind in ("tag", "block")) if kind != "until" else not rest)
            or (think and kind in PROJECTIONS)
        ):
            raise BadConfig(
                f"prompt {name}: [reply] is {text!r}; expected bare, call, tag NAME, block NAME or until NAME…, maybe after "
                f"think, or {' or '.join(PROJECTIONS)}"
            )
        if kind in PROJECTIONS:
            return Reply(kind, think=True)
        if kind == "until":
            return Reply(kind, think=think, until=tuple(rest))
        return Reply(kind, rest[0] if rest else "bash" if kind == "block" else "action", think)

    def parse(self, text: str, tools: Mapping[str, Tool], *, opened: bool = False, complete: bool = True) -> Parsed:
        """Return the text to send to the environment, and whether an action was found.

        `opened`: the prompt already opened the thought. `complete`: the reply was not cut by length. Without an action, a
        `tag` reply sends its last 30 characters and the others their text without the thought.
        """
        if self.kind in PROJECTIONS:
            return project(text, *PROJECTIONS[self.kind])
        if self.kind == "until":
            text = self.ended(text)
            return Parsed(text, any(re.search(f"<{name}>.*?</{name}>", text, re.DOTALL) for name in self.until))
        whole = _CLOSE in text and self.kind == "call" and not (opened or self.think) and _is_call(text, tools)
        thought, unfinished, rest = (False, False, text.strip()) if whole else split_thought(text, opened)
        calls = None if unfinished else self._find(rest, tools, complete)
        if calls is None:
            return Parsed(rest[-FALLBACK:].strip() if self.kind == "tag" else rest, False)
        return Parsed(calls, thought or not self.think)

    def closer(self, text: str) -> str | None:
        """Return the closing tag that ends an `until` reply; None if it has none."""
        return next((closer for name in self.until if (closer := f"</{name}>") in text), None)

    def ended(self, text: str) -> str:
        """Return an `until` reply up to its end."""
        closer = self.closer(text)
        return text if closer is None else text.partition(closer)[0] + closer

    def _find(self, text: str, tools: Mapping[str, Tool], complete: bool) -> str | None:
        if self.kind == "tag":
            before, closed, _ = text.rpartition(f"</{self.tag}>")
            _, opened, inside = before.rpartition(f"<{self.tag}>")
            return inside.strip() if closed and opened and inside.strip() else None
        if self.kind == "bare":
            return text if text and complete else None
        if self.kind == "block":
            blocks = re.findall(rf"```{re.escape(self.tag)}\s*\n(.*?)\n```", text, re.DOTALL)
            return _called(blocks[0].strip(), tools) if len(blocks) == 1 else None
        if _is_call(text, tools):
            return text
        last = text.rsplit("\n", 1)[-1].strip()
        return last if _is_call(last, tools) else None


def _called(body: str, tools: Mapping[str, Tool]) -> str:
    """Return the call of an environment's first tool with a body, or the body if there are no tools."""
    return spell(next(iter(tools)), body) if tools else body


def _is_call(text: str, tools: Mapping[str, Tool]) -> bool:
    return bool(tools) and isinstance(parse_call(text, tools), Call)
