"""Reading the answers of chat servers, which nobody vouches for."""

import json
import re
from dataclasses import replace

from agentgym.core.json_value import JSON, Object, entries, table
from agentgym.core.screen import storable
from agentgym.engines.openai.http import TOO_LONG, Garbage, check_error, only_choice
from agentgym.engines.protocol import Completion, ToolCall
from agentgym.episodes.usage import Usage, amount, count

MOST_CALLS = 64
"""Calls of one reply that are read; no model means to make more."""
_LONGEST_ID = 200
_CONTENT = re.compile(rb'(?<!\\)"content"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)
_ESCAPED = re.compile(r'(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
_ENDED = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "stop",
    "content_filter": "filter",
    "eos": "stop",  # Together's, of some models
    "eos_token": "stop",  # of servers with the names of Text Generation Inference
    "model_length": "length",  # Mistral's: cut by the model's context
}


def read_completion(answer: Object) -> Completion:
    """Return the reply in an answer of `/chat/completions`; Garbage where there is none."""
    choice = only_choice(answer)
    said = choice.get("message")
    if not isinstance(said, dict):
        raise Garbage("expected a message")
    finish, text = choice.get("finish_reason"), said.get("content")
    calls, refusal = _calls(said.get("tool_calls")), said.get("refusal")
    if text is None and isinstance(finish, str):  # calls, a refusal, or a reply that was all thought
        text = refusal or ""
    if not isinstance(finish, str) or finish not in _ENDED:
        check_error(choice)
        raise Garbage(f"finish_reason is {str(finish)[:_LONGEST_ID]!r}; expected one of {', '.join(_ENDED)}")
    if not isinstance(text, str):
        raise Garbage(f"content is {str(text)[:_LONGEST_ID]!r}; expected text")
    ended = "refusal" if refusal and finish == "stop" else _ENDED[finish]
    done = Completion([], [], ended, text=storable(text), usage=_usage(answer.get("usage")), calls=calls)
    thoughts = said.get("reasoning_content") or said.get("reasoning")
    done.reasoning = storable(thoughts) if isinstance(thoughts, str) else ""
    if calls and isinstance(kept := said.get("reasoning_content"), str) and kept:  # DeepSeek refuses calls without it
        done.echo["reasoning_content"] = storable(kept)
    if details := entries(said.get("reasoning_details")):  # OpenRouter's, of any model
        done.echo["reasoning_details"] = details
    return done


def read_beginning(content: bytes) -> Completion:
    """Return the reply that an answer begins with, where the answer is longer than one is read: its text so far, no calls.

    The quotes of a name within a string are escaped, so that no text can stand for the field.
    """
    if b'"message"' not in content:
        raise Garbage(f"more than {len(content) >> 10} KiB, and no message", TOO_LONG)
    found = _CONTENT.search(content)
    text = found[1].decode("utf-8", "ignore") if found else ""
    whole = _ESCAPED.match(text)
    return Completion([], [], "length", text=storable(json.loads(f'"{whole[0] if whole else ""}"', strict=False)))


def characters(tokens: int) -> int:
    """Return the most characters of a reply of so many tokens that are kept: no model writes 64 a token on average."""
    return 256 + 64 * tokens


def bounded(completion: Completion, most: int) -> Completion:
    """Return a reply cut at `most` characters of text, names and arguments together, with finish `length` where it is cut.

    Servers that ignore `max_tokens` would else fill the memory: every later prompt repeats the reply. Reasoning has the same
    limit, and what goes back with the reply twice as much, else it is left out.
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
    return replace(
        completion,
        finish=completion.finish if whole else "length",
        text=None if completion.text is None else text[:most],
        calls=calls,
        reasoning=completion.reasoning[:most],
        echo=completion.echo if whole and len(json.dumps(completion.echo)) <= 2 * most else {},
    )


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


def _usage(raw: JSON) -> Usage | None:
    counts = table(raw)
    asked, completion = count(counts.get("prompt_tokens")), count(counts.get("completion_tokens"))
    if asked is None or completion is None:
        return None
    of_input, of_output = table(counts.get("prompt_tokens_details")), table(counts.get("completion_tokens_details"))
    total = count(counts.get("total_tokens")) or 0
    output = max(completion, total - asked)  # xAI and Gemini count reasoning in the total alone
    cached = min(asked, count(of_input.get("cached_tokens")) or count(counts.get("prompt_cache_hit_tokens")) or 0)
    return Usage(
        asked,
        output,
        cached=cached,
        written=min(asked - cached, count(of_input.get("cache_write_tokens")) or 0),
        reasoning=min(output, count(of_output.get("reasoning_tokens")) or output - completion),
        cost=amount(counts.get("cost")),
    )
