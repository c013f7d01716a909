"""Models behind plain chat: messages in, text and tool calls out, no token ids. For evaluation only."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentgym.core.json_value import JSON, Object, entries, table
from agentgym.core.screen import storable
from agentgym.engines import Completion, Sampling, ToolCall
from agentgym.engines.openai.client import BESIDE
from agentgym.engines.openai.http import TOO_LONG, Garbage, Refused, ServedEngine, Servers, only_choice
from agentgym.errors import BadConfig

KEY = "AGENTGYM_API_KEY"
OMITTABLE = ("temperature", "top_p", "seed")
_LIMITS = ("max_tokens", "max_completion_tokens")
_TOO_LONG = re.compile(rb"context_length_exceeded|maximum context length|prompt is too long", re.IGNORECASE)
_OF_TOOLS = re.compile(r"\btools?\b|\bfunctions?\b", re.IGNORECASE)
MOST_CALLS = 64
"""Calls of one reply that are read; no model means to make more."""
_LONGEST_ID = 200
_CONTENT = re.compile(rb'(?<!\\)"content"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)
_ESCAPED = re.compile(r'(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
_ENDED = {"stop": "stop", "length": "length", "tool_calls": "stop", "content_filter": "filter"}


class OpenAIChatEngine(ServedEngine):
    """One model of an OpenAI-compatible server, asked over `/chat/completions`; `target` is `URL#MODEL`.

    The key is read from the environment variable `key_env` and goes nowhere but into the header of requests. `omit`
    names with commas between what the server refuses to be told (`temperature`, `top_p`, `seed`); `limit` is what it
    calls the most tokens of a reply. Without `#MODEL` the server must list exactly one. Raises BadConfig when refused.
    """

    tokenizer = None
    """There is none: an agent over tokens refuses this engine."""

    def __init__(
        self,
        target: str,
        *,
        key_env: str | None = None,
        omit: str = "",
        limit: str = "max_tokens",
        retries: int = 6,
        backoff: float = 0.5,
        timeout: float = 600.0,
        requests_per_minute: float = 0.0,
    ) -> None:
        url, _, model = target.partition("#")
        urls = [part.strip() for part in url.split(",") if part.strip()]
        self.omitted = tuple(name for name in (part.strip() for part in omit.split(",")) if name)
        if limit not in _LIMITS or not set(self.omitted) <= set(OMITTABLE):
            raise BadConfig(
                f"limit is {limit!r}, omit {omit!r}; expected limit to be one of {', '.join(_LIMITS)}, and omit some of "
                f"{', '.join(OMITTABLE)}"
            )
        if any("@" in part or "?" in part for part in urls):
            raise BadConfig(
                "the address contains an @ or a ?: addresses are recorded, so they must not contain a key or password; "
                f"put the key into the environment variable {KEY}, or name another with key_env"
            )
        self._limit = limit
        super().__init__(
            Servers(
                urls,
                key=_key(key_env),
                retries=retries,
                backoff=backoff,
                timeout=timeout,
                requests_per_minute=requests_per_minute,
            )
        )
        self.model = model or _only_model(self.servers)

    async def chat(
        self, messages: Sequence[dict[str, object]], tools: Sequence[dict[str, object]], sampling: Sampling, session: str
    ) -> Completion:
        """Return one reply: text and tool calls; finish is `context` where the server says that the messages are too long.

        Raises BadConfig where no request would be answered (a first one with tools included), Fault after the last retry.
        """
        if not sampling.plain() or sampling.stop_ids:
            raise BadConfig("the chat engine takes temperature and max_tokens only: no filters, penalties or stop_ids")
        body, most = self._request(messages, tools, sampling), characters(sampling.max_tokens)
        done = await self.asked(lambda: self._ask(body, messages, session, most), session)
        return done or Completion([], [], "abort", text="")

    def _request(
        self, messages: Sequence[dict[str, object]], tools: Sequence[dict[str, object]], sampling: Sampling
    ) -> dict[str, object]:
        said = {"temperature": sampling.temperature, "top_p": 1.0, "seed": sampling.seed % 2**31}  # some take 32 bits
        body = {"model": self.model, "messages": list(messages), self._limit: sampling.max_tokens, "n": 1, "stream": False}
        offered = {"tools": list(tools)} if tools else {}
        return {**body, **offered, **{name: value for name, value in said.items() if name not in self.omitted}}

    async def _ask(
        self, body: dict[str, object], messages: Sequence[Mapping[str, object]], session: str, most: int
    ) -> Completion:
        try:
            return await self.servers.post(
                "/chat/completions",
                body,
                session,
                lambda answer: bounded(_completion(answer), most),
                BESIDE + 2 * most,
                lambda start: bounded(_beginning(start), most),
            )
        except Refused as refusal:
            if refusal.status in (400, 413, 422) and _TOO_LONG.search(refusal.content):
                return Completion([], [], "context", text="")
            if refusal.status == 400 and (said := _failed_call(refusal.content)) is not None:
                return bounded(Completion([], [], "stop", text=said), most)
            raise _tools_refused(body, messages, refusal) or _results_refused(messages, refusal) or refusal from None
        except BadConfig as error:  # a status that is hopeless, which some servers and models answer to tools with
            raise _tools_refused(body, messages, error) or error from None


def characters(tokens: int) -> int:
    """Return the most characters of a reply of so many tokens that are kept: no model writes 64 a token on average."""
    return 256 + 64 * tokens


def bounded(completion: Completion, most: int) -> Completion:
    """Return a reply cut at `most` characters of text, names and arguments together, with finish `length` where it is cut.

    Servers that ignore `max_tokens` would else fill the memory: every later prompt repeats the reply.
    """
    text = completion.text or ""
    left, calls = most - min(len(text), most), list[ToolCall]()
    whole = len(text) <= most
    for call in completion.calls:
        size = len(call.name) + len(call.arguments)
        whole = whole and size <= left
        if left > 0:
            name = call.name[:left]
            calls.append(ToolCall(call.id[: _LONGEST_ID + 1], name, call.arguments[: left - len(name)]))
            left -= min(size, left)
    finish = completion.finish if whole else "length"
    return replace(completion, text=None if completion.text is None else text[:most], calls=calls, finish=finish)


def _tools_refused(
    body: Mapping[str, object], messages: Sequence[Mapping[str, object]], error: Exception
) -> BadConfig | None:
    """Return what to do where a server refuses the tools of a request; None where it refuses something else.

    Only a first request is looked at: a later one holds the model's own words, which must not end an evaluation.
    """
    first = not any(message["role"] == "assistant" for message in messages)
    if "tools" in body and first and _OF_TOOLS.search(str(error)):
        return BadConfig(
            f"{error}. The request offers the environment's tools as `tools=`. Where the server or its model takes none, "
            "use --tools text (in Python: tools='text'): then the prompt lists them. vLLM takes tools when it is started "
            "with --enable-auto-tool-choice and --tool-call-parser"
        )
    return None


def _results_refused(messages: Sequence[Mapping[str, object]], refusal: Refused) -> Refused | None:
    """Return the refusal of a request that holds results of tools, with what helps where the server takes none."""
    if all(message["role"] != "tool" for message in messages):
        return None
    hint = "The request holds results of tools as messages of the role `tool`: if the server takes none, use --tools text"
    return Refused(f"{refusal}. {hint}", refusal.status, refusal.content)


def _failed_call(content: bytes) -> str | None:
    """Return what the model wrote where a server (Groq's) refuses its own model's words since they make no call."""
    try:
        error = table(table(json.loads(content)).get("error"))
    except (ValueError, RecursionError):
        return None
    return storable(str(error.get("failed_generation") or "")) if error.get("code") == "tool_use_failed" else None


def _key(name: str | None) -> str | None:
    """Return the key from the environment; no error ever shows it."""
    key = os.environ.get(name or KEY, "").strip()
    if name is not None and not key:
        raise BadConfig(f"key_env is {name!r}, and there is no such environment variable, or it is empty")
    if not re.fullmatch(r"[!-~]*", key):
        raise BadConfig(f"the key in the environment variable {name or KEY} holds characters that no key has")
    return key or None


def _only_model(servers: Servers) -> str:
    names = [str(entry.get("id")) for entry in servers.models()]
    if len(names) != 1:
        raise BadConfig(f"say which model: chat:URL#MODEL. The server lists {', '.join(names[:20]) or 'none'}")
    return names[0]


def _completion(answer: Object) -> Completion:
    """Read an answer that nobody vouches for."""
    choice = only_choice(answer)
    said = choice.get("message")
    if not isinstance(said, dict):
        raise Garbage("expected a message")
    finish, text = choice.get("finish_reason"), said.get("content")
    calls = _calls(said.get("tool_calls"))
    refusal = said.get("refusal")
    if text is None and isinstance(finish, str):  # calls, a refusal, or a reply that was all thought
        text = refusal or ""
    if not isinstance(text, str) or not isinstance(finish, str) or finish not in _ENDED:
        raise Garbage("expected text and a finish_reason")
    ended = "refusal" if refusal and finish == "stop" else _ENDED[finish]
    return Completion([], [], ended, text=storable(text), usage=_usage(answer.get("usage")), calls=calls)


def _beginning(content: bytes) -> Completion:
    """Return the reply that an answer begins with, where the answer is longer than one is read: its text so far, no calls.

    The quotes of a name within a string are escaped, so that no text can stand for the field.
    """
    if b'"message"' not in content:
        raise Garbage(f"more than {len(content) >> 10} KiB, and no message", TOO_LONG)
    found = _CONTENT.search(content)
    text = found[1].decode("utf-8", "ignore") if found else ""
    whole = _ESCAPED.match(text)
    return Completion([], [], "length", text=storable(json.loads(f'"{whole[0] if whole else ""}"', strict=False)))


def _calls(raw: JSON) -> list[ToolCall]:
    """Return the tool calls of a message; what the server says of them is taken as it is, where it is text."""
    calls: list[ToolCall] = []
    for entry in entries(raw)[:MOST_CALLS]:
        call = table(entry)
        function = table(call.get("function"))
        name, arguments, id = function.get("name"), function.get("arguments"), call.get("id")
        if isinstance(arguments, dict):  # as Ollama's own API has them
            arguments = json.dumps(arguments)
        if not isinstance(name, str) or not isinstance(arguments, str | None):
            raise Garbage("expected tool calls with the name and the arguments of a function")
        calls.append(ToolCall(storable(id) if isinstance(id, str) else "", storable(name), storable(arguments or "{}")))
    return calls


def _usage(raw: JSON) -> tuple[int, int] | None:
    counts = table(raw)
    asked, completion = counts.get("prompt_tokens"), counts.get("completion_tokens")
    if type(asked) is not int or type(completion) is not int or min(asked, completion) < 0:
        return None
    return asked, completion
