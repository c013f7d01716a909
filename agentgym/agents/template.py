"""The tokens that a chat template puts around a new message (the bridge), found by rendering placeholders."""

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.agents.encode import Encoder, Skeleton, hide, mark, marked_once
from agentgym.errors import BadConfig

_CLOCK = datetime.datetime(2024, 7, 26)  # templates that print a date print this one: a prompt never depends on the clock
_THINK = re.compile(r"<think>\s*\Z")
_TOOL_ROLE = re.compile(r"""['"]tool['"]""")
PROBE = 'a"\\b'
_KEPT = 2048  # skeletons; one per shape of message, where the environment decides only the white space
_LONGEST = 8192  # characters of a shape worth keeping
Split = tuple[tuple[int, ...], Skeleton]
"""(the tokens that end a turn, the tokens after them)."""


def _date(format: str) -> str:
    return _CLOCK.strftime(format)


class ChatTemplate:
    """The chat template of a tokenizer, compiled so that first prompts and bridges need no rendering each time.

    `options` are passed to the template (`enable_thinking=False`, …). `role` is the role of observations; None detects
    it. `encoder` is an existing encoder for the same tokenizer. Raises BadConfig if there is no template, or if its
    rendering of a conversation cannot be continued.
    """

    def __init__(
        self,
        tokenizer: Any,
        options: Mapping[str, object] | None = None,
        *,
        role: str | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        if not tokenizer.chat_template:
            raise BadConfig("the tokenizer has no chat_template: use an instruction-tuned model, or set its chat_template")
        self.encoder = encoder or Encoder(tokenizer)
        self._tokenizer = tokenizer
        self._options = {"strftime_now": _date, **(options or {})}
        self._skeletons: dict[tuple[str, str, str], Split] = {}
        self._listed = False
        """True if the template expects a message's content as a list of parts."""
        self._listed = not self._works([("user", mark("u"))], "u")
        if self._listed and not self._works([("user", mark("u"))], "u"):
            raise BadConfig("the chat template renders no user message, neither from a string nor from a list of parts")
        self.system = self._works([("system", mark("s")), ("user", mark("u"))], "s", "u") and self._system_stays()
        """True if the template supports a system message; otherwise the system text begins the first user message."""
        self._first = [*([("system", mark("s"))] if self.system else []), ("user", mark("u"))]
        self._past = [*self._first, ("assistant", mark("a"))]
        self.escape = False
        """True if the template writes observations as the inside of a JSON string."""
        self.role: str = role or ("tool" if self._has_tool_role() else "user")
        """Role of observations in the conversation: `tool` if the template has that role, otherwise `user`."""
        self._learn_assistant(tokenizer.eos_token_id)

    def _learn_assistant(self, eos: int | None) -> None:
        """Find the tokens that open and close the model's turn.

        Raises:
            BadConfig: the template cannot render an observation after a reply.
        """
        whole = [*self._past, (self.role, mark(0))]
        if not self._works(whole, "u", "a", "0") or mark(0) not in self.render(whole).partition(mark("a"))[2]:
            raise BadConfig("the chat template cannot render an observation after a reply: it cannot be continued")
        before, after = self.render(self._first), self.render(whole)
        thinking = _THINK.search(before)
        self.opened = thinking[0] if thinking else ""
        """Tag that the generation prompt opens: `<think>` with the white space after it, or empty."""
        self.prefix = after[len(before) :].partition(mark("a"))[0] if after.startswith(before) else ""
        """Text that the template writes before a plain reply, but not in the generation prompt (in gpt-oss, a channel)."""
        self.end_ids, _ = self._bridge(mark(0))
        """Tokens that end the model's turn when the conversation continues."""
        final = self.render(self._past, generate=False).partition(mark("a"))[2]
        ends = self.split(final)[0][-1:]
        self._closes = bool(ends)
        """True if a turn has its own end token. Otherwise (GLM) the token that opens the next turn ends it."""
        self.stop_ids = tuple(dict.fromkeys([*(ends or self._openers()), *([] if eos is None else [int(eos)])]))
        """Ids of the tokens that a model samples to end its turn."""

    # Rendering

    def render(self, messages: Sequence[tuple[str, str]], generate: bool = True) -> str:
        """Render (role, content) pairs; `generate` adds the generation prompt."""
        return self.render_chat([self.message(role, content) for role, content in messages], generate)

    def message(self, role: str, content: str) -> dict[str, object]:
        """Return a message in the format that this template expects."""
        return {"role": role, "content": [{"type": "text", "text": content}] if self._listed else content}

    def render_chat(self, chat: Sequence[Mapping[str, object]], generate: bool = True) -> str:
        """Render messages; `generate` adds the generation prompt."""
        text = self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=generate, **self._options)
        return str(text)

    def _works(self, messages: Sequence[tuple[str, str]], *names: str) -> bool:
        try:
            rendered = self.render(messages)
        except Exception:  # templates raise whatever jinja, the template's author or a wrong content type makes them raise
            return False
        return all(rendered.count(mark(name)) == 1 for name in names)

    def _system_stays(self) -> bool:
        """Return True if the system message stays in place; some (Mistral Nemo) move it to the last user message."""
        past = [("system", mark("s")), ("user", mark("u")), ("assistant", mark("a")), ("user", mark(0))]
        return not self._works(past, "s", "a") or mark("s") in self.render(past).partition(mark("a"))[0]

    def _has_tool_role(self) -> bool:
        """Return True if an observation may follow a plain reply as role=tool, and a generation prompt may follow that.

        Also set `escape`.
        """
        source = str(self._tokenizer.chat_template)
        if not _TOOL_ROLE.search(source) or not self._works([*self._past, ("tool", mark(0))], "u", "a", "0"):
            return False
        messages = [*self._past, ("tool", mark("b") + PROBE + mark("c"))]
        rendered = self.render(messages)
        if rendered == self.render(messages, generate=False):
            return False
        between = rendered.partition(mark("b"))[2].partition(mark("c"))[0]
        self.escape = between == json.dumps(PROBE)[1:-1]
        return between == PROBE or self.escape

    def _openers(self) -> list[int]:
        """Return the tokens that open a turn of either role, if they also end the turn before."""
        openers: list[int] = []
        for role in dict.fromkeys((self.role, "user")):
            tail = self.render([*self._past, (role, mark(0))]).partition(mark("a"))[2]
            openers += self.split(tail)[0][-1:]
        return openers

    def ended(self, ids: Sequence[int]) -> bool:
        """Return True if sampled tokens end the turn, so that the bridge does not have to."""
        if not ids or ids[-1] not in self.stop_ids:
            return False
        return self._closes or ids[-1:] == list(self.end_ids[-1:])

    def final(self, text: str) -> str:
        """Return the visible part of a reply: all of it, or the text after the header that the model's family uses."""
        header = self.prefix.strip()
        return text.rpartition(header)[2] if header and "</think>" not in header else text

    # Tokens

    def start(self, system: Sequence[str], user: Sequence[str]) -> list[int]:
        """Return the tokens of a first prompt; untrusted text in either message never becomes a control token."""
        cores: list[str] = []
        first = hide(system, cores)
        second = hide(user, cores)
        key = ("start", first, second)
        known = self.known(key)
        if known is None:
            known = self.keep(key, ((), self.encoder.compile(self.render(self.opening(first, second)))))
        return known[1].fill(cores)

    def opening(self, system: str, user: str) -> list[tuple[str, str]]:
        """Return the first messages as (role, content) pairs."""
        if not system:
            return [("user", user)]
        return [("system", system), ("user", user)] if self.system else [("user", f"{system}\n\n{user}")]

    def bridge(self, observation: Sequence[str], ended: bool = True) -> list[int]:
        """Return the tokens between a reply and the next one: an observation and the generation prompt.

        `ended` is True if the reply's last token already ended the turn; otherwise the result begins with an end token.
        """
        cores: list[str] = []
        hidden = hide(observation, cores)
        end, skeleton = self._bridge(hidden)
        ids = skeleton.fill(self.escaped(cores))
        return ids if ended else [*end, *ids]

    def whole(self, messages: Sequence[tuple[str, Sequence[str]]]) -> list[int]:
        """Return the tokens of a whole conversation of (role, pieces), followed by a generation prompt.

        System messages before the first user message are joined. Raises BadConfig if the template refuses the messages.
        """
        cores: list[str] = []
        hidden = self._encoded_messages(messages, cores)
        count = next((i for i, (role, _) in enumerate(hidden) if role != "system"), len(hidden))
        system, rest = "\n\n".join(content for _, content in hidden[:count]), hidden[count:]
        if rest and rest[0][0] == "user":
            hidden = [*self.opening(system, rest[0][1]), *rest[1:]]
        return self.encoder.compile(self._complete(hidden, cores)).fill(cores)

    def extension(self, messages: Sequence[tuple[str, Sequence[str]]], ended: bool = True) -> list[int]:
        """Return the tokens that (role, pieces) messages put between a reply and the next one; see `bridge`.

        Raises BadConfig if the template refuses the messages.
        """
        cores: list[str] = []
        rendered = self._complete([*self._past, *self._encoded_messages(messages, cores)], cores)
        end, skeleton = self.split(rendered.partition(mark("a"))[2])
        ids = skeleton.fill(cores)
        return ids if ended else [*end, *ids]

    def _encoded_messages(self, messages: Sequence[tuple[str, Sequence[str]]], cores: list[str]) -> list[tuple[str, str]]:
        hidden: list[tuple[str, str]] = []
        for role, pieces in messages:
            count = len(cores)
            content = hide(pieces, cores)
            if role == "tool":
                role, cores[count:] = self.role, self.escaped(cores[count:])
            hidden.append((role, content))
        return hidden

    def _complete(self, chat: Sequence[tuple[str, str]], cores: Sequence[str]) -> str:
        """Render messages and check that the template writes each of them exactly once.

        Raises:
            BadConfig: the template refuses the messages, leaves one out or writes it twice.
        """
        try:
            rendered = self.render(chat)
        except Exception as error:  # whatever the template's author or jinja raise
            raise BadConfig(f"the chat template refuses these messages: {error}") from error
        if not marked_once(rendered, len(cores)):
            raise BadConfig("the chat template leaves out one of these messages, or writes it twice")
        return rendered

    def escaped(self, cores: list[str]) -> list[str]:
        """Return texts as the template writes them in an observation: escaped for a JSON string, or unchanged."""
        return [json.dumps(core, ensure_ascii=False)[1:-1] for core in cores] if self.escape else cores

    def _bridge(self, observation: str) -> Split:
        key = ("bridge", self.role, observation)
        known = self.known(key)
        if known is not None:
            return known
        rendered = self.render([*self._past, (self.role, observation)])
        return self.keep(key, self.split(rendered.partition(mark("a"))[2]))

    def split(self, tail: str) -> Split:
        """Split the text after a reply into the tokens that end the turn and the tokens after them."""
        return self.encoder.compile(tail).split(self.encoder.control_ids)

    def known(self, key: tuple[str, str, str]) -> Split | None:
        """Return the cached skeleton for a key, or None."""
        return self._skeletons.get(key)

    def keep(self, key: tuple[str, str, str], value: Split) -> Split:
        """Cache a skeleton for later messages of the same shape, unless the shape is long, and return the skeleton."""
        if len(self._skeletons) >= _KEPT:
            self._skeletons.clear()
        if len(key[1]) + len(key[2]) <= _LONGEST:
            self._skeletons[key] = value
        return value
