"""Parsing of the action for the environment from a reply."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from agentgym.core.actions import Call, Tool, parse_call, spell
from agentgym.errors import BadConfig

FALLBACK = 30  # characters of a reply without an action that are sent all the same, as in verl-agent's ALFWorld setting
PROJECTIONS = {"verl-agent": (FALLBACK, False), "verl-agent-webshop": (20, True)}
"""verl-agent's parsing in ALFWorld and WebShop: (characters sent if there is no action, True if Chinese is valid)."""
_CLOSE = "</think>"
_OPEN = "<think>"
_CHINESE = re.compile("[\u4e00-\u9fff]")
KINDS = ("bare", "block", "call", "tag", "until", *PROJECTIONS)


class Parsed(NamedTuple):
    """An action for the environment, and True if the reply contained it."""

    action: str
    has_action: bool


def project(text: str, last: int = FALLBACK, chinese: bool = False) -> Parsed:
    """Return the action of a reply, and True if it is valid, by the rules of verl-agent's projections.

    The action is the text from the first `<action>` to the first `</action>`; if a tag is missing, it is the last
    `last` characters of the reply. Both are in lower case. The reply is valid if it has both tags, the tags of a thought
    and, unless `chinese`, no Chinese character.
    """
    lowered = text.lower()
    start, end = lowered.find("<action>"), lowered.find("</action>")
    if start < 0 or end < 0:
        return Parsed(lowered[-last:], False)
    thought = _OPEN in text and _CLOSE in text
    return Parsed(lowered[start + len("<action>") : end].strip(), thought and (chinese or not _CHINESE.search(text)))


def split_thought(text: str, opened: bool) -> tuple[bool, bool, str]:
    """Return (reply has a complete thought, reply has an unfinished thought, stripped text after the thought).

    Without a closing tag, the text is the whole reply. `opened`: the prompt already opened the thought.
    """
    head, closed, rest = text.partition(_CLOSE)
    if not closed:
        return False, opened or text.lstrip().startswith(_OPEN), text.strip()
    return opened or _OPEN in head, False, rest.strip()


@dataclass(frozen=True, slots=True)
class Reply:
    """The form of reply that a prompt asks for.

    `kind` is the name of the form:

    - `bare`: the whole reply is the action.
    - `tag`: the action is in the last `<tag>…</tag>`.
    - `call`: the reply, or its last line, is one tool call, which is sent unchanged.
    - `block`: the only fenced block in the language `tag` is the argument of the environment's first tool, as in
      mini-swe-agent.
    - `until`: the reply ends with the closing tag of the first name in `until` that occurs. The environment receives
      the whole reply, which has an action if it contains a complete block of any of these names.
    - a key of `PROJECTIONS`: see `project`.

    If `think` is True, a thought must come first; otherwise it is optional.
    """

    kind: str
    tag: str = "action"
    think: bool = False
    until: tuple[str, ...] = ()

    @staticmethod
    def read(text: str, name: str) -> "Reply":
        """Parse the section `[reply]` of a prompt.

        The section is a key of `PROJECTIONS`, or `bare`, `call`, `tag NAME`, `block NAME` or `until NAME…`, optionally
        after `think`. NAME defaults to `action` after `tag`, and to `bash` after `block`. `name` is that of the prompt.

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
        """Return the text to send to the environment, and True if it has an action (and, if required, a thought).

        `opened`: the prompt already opened the thought. `complete`: the reply was not cut off by length. If there is no
        action, the text is the reply without its thought; for `tag` replies, only its last 30 characters. The forms
        `until` and those of `PROJECTIONS` ignore both options.
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
        """Return the closing tag that ends an `until` reply, or None."""
        return next((closer for name in self.until if (closer := f"</{name}>") in text), None)

    def ended(self, text: str) -> str:
        """Return an `until` reply up to and including its closing tag, if it has one."""
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
    """Return a call of the environment's first tool with `body` as its argument; if there are no tools, return `body`."""
    return spell(next(iter(tools)), body) if tools else body


def _is_call(text: str, tools: Mapping[str, Tool]) -> bool:
    return bool(tools) and isinstance(parse_call(text, tools), Call)
