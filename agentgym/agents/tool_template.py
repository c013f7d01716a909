"""A chat template with tools: schemas in the prompt and results as tool messages, all as tokens."""

import json
import re
from collections.abc import Mapping, Sequence
from os.path import commonprefix

from agentgym.agents.encode import Encoder, hide, mark, marked_once
from agentgym.agents.template import PROBE, ChatTemplate, Split
from agentgym.agents.tool_calls import CALL_ID, FAMILIES, Attempt, CallForm
from agentgym.core.actions import Call, Tool, parse_call, samples
from agentgym.errors import BadConfig

_TAG_BEGUN = re.compile(r"<[^<>\n]*\Z")
"""An unfinished tag at the end of a text: the common beginning of `<tool_call>` and a template's own `<think>`."""
_AWKWARD = 'a "b"\n<c> \\d'
"""A test argument that some call syntaxes would change."""


class ToolTemplate(ChatTemplate):
    """A chat template with tools: `start` shows the tools, and `results` is the bridge after calls.

    A reply without a call is followed by a user message (`bridge`). `family` names the syntax of calls; None detects it
    from the template's rendering. Raises BadConfig if the template does not show tools, has an unknown call syntax, or
    cannot be continued after calls.
    """

    def __init__(
        self,
        tokenizer: object,
        options: Mapping[str, object] | None,
        tools: Mapping[str, Tool],
        *,
        family: str | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        schemas = [tool.schema() for tool in tools.values()]
        super().__init__(tokenizer, {**(options or {}), "tools": schemas}, role="user", encoder=encoder)
        self._names = list(tools)
        self._check_schemas(schemas)
        rendered = self._called([mark(0)])
        prefix = self.render(self._first)
        written = rendered.partition(mark("u"))[2].partition(mark(0))[0]
        if self._names[0] not in prefix or mark("a") not in written or mark(0) not in rendered:
            raise BadConfig("the chat template has no place for tools, calls and their results: use tools='text'")
        self.family: CallForm = FAMILIES[family or _found(written)]
        """Syntax of tool calls in this template."""
        self._call_end = self._results([mark(0)])[0]
        if not self._call_end:
            raise BadConfig("the chat template has no token that ends a tool call: use tools='text'")
        self.stop_ids: tuple[int, ...] = tuple(dict.fromkeys([*self._call_end[-1:], *self.stop_ids, *self._more_ends()]))
        self._escaped = self._escapes()
        for tool in tools.values():
            self._check_calls(tool, alike=family is None)
        self._parallel = mark(1) in self._called([mark(0), mark(1)]).partition(mark(0))[2]

    def _check_schemas(self, schemas: Sequence[Mapping[str, object]]) -> None:
        """Check that no schema contains a control string, since the template renders schemas as trusted text.

        Raises:
            BadConfig: a schema contains a control string of the model.
        """
        text = json.dumps(schemas, ensure_ascii=False)
        for string in (*self.encoder.control, *"\ue000\ue001"):
            if string in text:
                raise BadConfig(f"the tools' schemas hold {string!r}, a control string of this model: use tools='text'")

    def _more_ends(self) -> list[int]:
        """Return additional end tokens: Llama 3 may end a call with `<|eom_id|>`, which its template never writes."""
        return [self.encoder.control[name] for name in ("<|eom_id|>",) if name in self.encoder.control]

    def _called(
        self, results: Sequence[str], attempts: Sequence[Attempt] = (), after: Sequence[tuple[str, str]] = ()
    ) -> str:
        """Render a reply with one call per result, the results, and later messages; empty if the template refuses."""
        padded = [*attempts, *[Attempt("")] * (len(results) - len(attempts))]
        ids = [attempt.id or CALL_ID.format(place) for place, attempt in enumerate(padded)]
        names = [self._known_name(attempt) or self._names[0] for attempt in padded]
        functions: list[dict[str, object]] = [{"name": name, "arguments": {"x": ""}} for name in names]
        functions[-1]["arguments"] = {"x": mark("a")}
        calls = [{"type": "function", "id": id, "function": function} for id, function in zip(ids, functions, strict=True)]
        chat: list[dict[str, object]] = [self.message(role, content) for role, content in self._first]
        chat.append({"role": "assistant", "content": "", "tool_calls": calls})
        chat += [
            dict[str, object](self.message("tool", result), name=name, tool_call_id=id)
            for result, name, id in zip(results, names, ids, strict=True)
        ]
        chat += [self.message(role, content) for role, content in after]
        try:
            return self.render_chat(chat)
        except Exception:  # whatever the template's author or jinja raise
            return ""

    def _known_name(self, attempt: Attempt) -> str:
        """Return the name of the called tool; empty if the tool does not exist."""
        return attempt.name if attempt.name in self._names else ""

    def _escapes(self) -> bool:
        """Return True if the template writes results as the inside of a JSON string.

        Raises:
            BadConfig: the template writes a test result neither verbatim nor escaped.
        """
        rendered = self._called([mark("b") + PROBE + mark("c")])
        between = rendered.partition(mark("b"))[2].partition(mark("c"))[0]
        if between not in (PROBE, json.dumps(PROBE)[1:-1]):
            raise BadConfig(f"the chat template writes {PROBE!r} in a tool's result as {between!r}: use tools='text'")
        return between != PROBE

    def _check_calls(self, tool: Tool, alike: bool) -> None:
        """Check that the family's parser reads the calls that the template writes.

        If `alike`, the family must also write them like the template.

        Raises:
            BadConfig: a call does not round-trip, or the template cannot write one.
        """
        arguments = {key: _AWKWARD if value == "…" else value for key, value in samples(tool).items()}
        call = Call(tool.name, arguments)
        written_call = {"type": "function", "id": CALL_ID.format(0), "function": {"name": call.name, "arguments": arguments}}
        chat = [self.message(role, content) for role, content in self._first]
        try:
            chat.append({"role": "assistant", "content": "", "tool_calls": [written_call]})
            result = {**self.message("tool", mark(0)), "name": tool.name, "tool_call_id": CALL_ID.format(0)}
            before, after = (self.render_chat(messages).partition(mark("u"))[2] for messages in (chat[:-1], [*chat, result]))
            shared = _TAG_BEGUN.sub("", commonprefix([before, after]))  # noqa: RUF071
            written = after[len(shared) :].partition(mark(0))[0]
        except Exception as error:  # whatever the template's author or jinja raise
            raise BadConfig(f"the chat template cannot write a call of {tool.name}: {error}. Use tools='text'") from error
        calls = [parse_call(attempt.action, {tool.name: tool}) for attempt in self.family.read(written, {tool.name: tool})]
        if calls != [call] or (alike and "".join(self.family.write(call)) not in written):
            raise BadConfig(
                f"the chat template writes a call of {tool.name} as {written!r}, "
                f"which does not come back as the call that it was. Use tools='text'"
            )

    def check_written(self, text: bool, calls: int) -> None:
        """Check that the template renders past calls the same from text as from structured calls.

        `calls` is the number of calls in the reply; `text` is True if text precedes them.

        Raises:
            BadConfig: the renderings differ.
        """
        sample_calls = [Call(self._names[0], {"x": "1"})] * calls
        text_calls = "".join(["t\n"] * text) + "\n".join("".join(self.family.write(call)) for call in sample_calls)
        ids = [CALL_ID.format(place) for place in range(calls)]
        before = [self.message(role, content) for role, content in self._first]
        after = [
            {**self.message("tool", mark(place)), "name": self._names[0], "tool_call_id": id} for place, id in enumerate(ids)
        ]
        functions = [
            {"type": "function", "id": id, "function": {"name": call.name, "arguments": call.arguments}}
            for call, id in zip(sample_calls, ids, strict=True)
        ]
        own = {"role": "assistant", "content": "t" if text else "", "tool_calls": functions}
        try:
            same = self.render_chat([*before, own, *after]) == self.render_chat(
                [
                    *before,
                    self.message("assistant", text_calls),
                    *[{"role": "tool", "content": mark(n)} for n in range(calls)],
                ]
            )
        except Exception:  # whatever the template's author or jinja raise
            same = False
        if not same:
            raise BadConfig(
                "the chat template writes past tool calls in an unknown format: send the conversation unchanged, "
                "without removing or editing messages"
            )

    def ends(self, ids: Sequence[int], called: bool) -> bool:
        """Return True if sampled tokens end the turn, so that the bridge does not have to.

        `called` is True if results of calls come next, False if a user message does.
        """
        if not ids or ids[-1] not in self.stop_ids:
            return False
        if self._call_end[-1:] == self.end_ids[-1:]:
            return True
        return ids[-1:] == list((self._call_end if called else self.end_ids)[-1:])  # GLM: each names who comes next

    def results(
        self,
        results: Sequence[Sequence[str]],
        attempts: Sequence[Attempt],
        ended: bool,
        after: Sequence[tuple[str, Sequence[str]]] = (),
    ) -> list[int]:
        """Return the tokens between a reply with calls and the next reply: one tool message per result, in order.

        `attempts` are the calls; `after` are later messages as (role, pieces). If the template takes only one call per
        turn (Llama 3), the results are joined to one message. Raises BadConfig if the template has no place for the
        messages.
        """
        if not self._parallel:
            results, attempts = [[piece for result in results for piece in (*result, "\n\n")][:-1]], attempts[:1]
        cores: list[str] = []
        hidden = [hide(result, cores) for result in results]
        cores = self._as_written(cores)
        rest = self._encoded_messages(after, cores)
        calls = ",".join(f"{self._known_name(attempt)} {attempt.id}" for attempt in attempts)
        key = ("results", "\0".join([*hidden, *("\0".join(message) for message in rest)]), calls)
        known = self.known(key)
        end, skeleton = known if known is not None else self.keep(key, self._results(hidden, attempts, rest, len(cores)))
        tokens = skeleton.fill(cores)
        return tokens if ended else [*end, *tokens]

    def _encoded_messages(self, messages: Sequence[tuple[str, Sequence[str]]], cores: list[str]) -> list[tuple[str, str]]:
        """Return messages with placeholders, and append the texts to `cores`; tools' results as the template writes them."""
        hidden: list[tuple[str, str]] = []
        for role, pieces in messages:
            count = len(cores)
            hidden.append((role, hide(pieces, cores)))
            if role == "tool":
                cores[count:] = self._as_written(cores[count:])
        return hidden

    def _as_written(self, cores: list[str]) -> list[str]:
        """Return texts as the template writes them in a tool's result: escaped for a JSON string, or unchanged."""
        return [json.dumps(core, ensure_ascii=False)[1:-1] for core in cores] if self._escaped else cores

    def _results(
        self,
        results: Sequence[str],
        attempts: Sequence[Attempt] = (),
        after: Sequence[tuple[str, str]] = (),
        marks: int = 0,
    ) -> Split:
        tail = self._called(results, attempts, after).partition(mark("a"))[2]
        if after and not marked_once(tail, marks):
            raise BadConfig("the chat template has no place for these messages after the results of tools")
        if self.family.close:
            tail = tail.partition(self.family.close)[2]
        return self.split(tail)


def _found(written: str) -> str:
    """Return the name of the family whose call syntax matches the template's.

    Raises:
        BadConfig: no family matches.
    """
    for name, family in FAMILIES.items():
        if family.sign.search(written):
            return name
    example = written.replace(mark("a"), "…").strip()
    raise BadConfig(
        f"the chat template writes a tool call in no form that is known here: {example[-120:]!r}. "
        f"Name one that fits (tools={', '.join(map(repr, FAMILIES))}), or use tools='text'"
    )
