"""Interpretation of chat servers' refusals: the cause, and the reaction."""

import json
import re
from collections.abc import Mapping, Sequence

from agentgym.core.json_value import entries, table
from agentgym.core.screen import storable
from agentgym.engines.openai.http import Refused
from agentgym.errors import BadConfig

LIMITS = ("max_tokens", "max_completion_tokens")
ECHO = "reasoning_content"
"""Name, in lists of refused parameters, for all reasoning that is sent back with a reply."""
_TOO_LONG = re.compile(rb"context_length_exceeded|maximum context length|prompt is too long", re.IGNORECASE)
_OF_TOOLS = re.compile(r"\btools?\b|\bfunctions?\b", re.IGNORECASE)
_PLAIN = (*LIMITS, "temperature", "top_p", "top_k", "seed")  # names that are parameters in any sentence
_OWN = ("messages", "model", "tools")  # parts of a request that are not settings
_UNKNOWN = re.compile(r"unsupported|not supported|unrecogni[sz]ed|unknown|extra (?:inputs|fields)|instead", re.IGNORECASE)


def too_long(refusal: Refused) -> bool:
    """Return True if a server reports that the messages exceed its context."""
    return refusal.status in (400, 413, 422) and _TOO_LONG.search(refusal.content) is not None


def unknown_there(refusal: Refused) -> bool:
    """Return True if a refusal says that the server does not know a parameter, rather than that it refuses the value."""
    return _UNKNOWN.search(refusal.content.decode("utf-8", "replace")) is not None


def named_parameter(refusal: Refused, body: Mapping[str, object], *, first: bool) -> str | None:
    """Return the parameter that a refusal names (`ECHO` for reasoning in a message), or None.

    Free text is searched only if the request is the first of its conversation: later refusals may quote the model.
    """
    if refusal.status not in (400, 422):
        return None
    try:
        answer = table(json.loads(refusal.content))
    except (ValueError, RecursionError):
        answer = {}
    error = table(answer.get("error"))
    paths = [str(error.get("param") or "")]
    for entry in entries(answer.get("detail")):  # as in FastAPI
        paths.append(".".join(map(str, entries(table(entry).get("loc"))[1:])))
    for path in paths:
        if path.startswith("messages") and ECHO in path:
            return ECHO
        if (name := re.split(r"[.\[]", path)[0]) in body and name not in _OWN:
            return name
    return _in_sentence(refusal.content.decode("utf-8", "replace"), body) if first else None


def _in_sentence(text: str, body: Mapping[str, object]) -> str | None:
    """Return the parameter of the request body that the text mentions first, or None."""
    found: dict[str, int] = {}
    for name in body:
        plain = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
        marked = rf"[`'\"]{re.escape(name)}[`'\"]|[\"']{re.escape(name)}(?:\.\w+)*:"
        if name not in _OWN and (match := re.search(plain if name in _PLAIN else marked, text)):
            found[name] = match.start()
    return min(found, key=lambda name: found[name], default=None)


def first_request(messages: Sequence[Mapping[str, object]]) -> bool:
    """Return True if no message of the conversation was written by the model."""
    return not any(message["role"] == "assistant" for message in messages)


def tools_refused(
    body: Mapping[str, object], messages: Sequence[Mapping[str, object]], error: Exception
) -> BadConfig | None:
    """Return a BadConfig if the server refuses the tools of a request; None if it refuses something else.

    Only the first request of a conversation is examined: later ones contain the model's text, which must not be able to
    end an evaluation.
    """
    if "tools" in body and first_request(messages) and _OF_TOOLS.search(str(error)):
        return BadConfig(
            f"{error}. The request offers the environment's tools as `tools=`. Where the server or its model takes none, "
            "use --tools text (in Python: tools='text'): then the prompt lists them. vLLM takes tools when it is started "
            "with --enable-auto-tool-choice and --tool-call-parser"
        )
    return None


def results_refused(messages: Sequence[Mapping[str, object]], refusal: Refused) -> Refused | None:
    """Return the refusal with advice added if the request has tool results; otherwise None."""
    if all(message["role"] != "tool" for message in messages):
        return None
    hint = "The request holds results of tools as messages of the role `tool`: if the server takes none, use --tools text"
    return Refused(f"{refusal}. {hint}", refusal.status, refusal.content)


def failed_call(refusal: Refused) -> str | None:
    """Return the reply that a server such as Groq's refuses for lack of a valid tool call; None for any other refusal."""
    if refusal.status != 400:
        return None
    try:
        error = table(table(json.loads(refusal.content)).get("error"))
    except (ValueError, RecursionError):
        return None
    return storable(str(error.get("failed_generation") or "")) if error.get("code") == "tool_use_failed" else None
