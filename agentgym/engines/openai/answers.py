"""Parsing of untrusted answers from chat servers."""

import json
import re
from dataclasses import replace

from agentgym.core.json_value import JSON, Object, entries, table
from agentgym.core.screen import storable
from agentgym.engines.openai.http import TOO_LONG, Garbage, check_error, only_choice
from agentgym.engines.protocol import Completion, ToolCall
from agentgym.episodes.usage import Usage, amount, count

MOST_CALLS = 64
"""Maximum number of tool calls parsed from one reply, more than any model intends."""
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
    """Return the completion in an answer of `/chat/completions`.

    Raises:
        Garbage: the answer is an error or not a valid reply.
    """
    choice = only_choice(answer)
    reply = choice.get("message")
    if not isinstance(reply, dict):
        raise Garbage("expected a message")
    finish, text = choice.get("finish_reason"), reply.get("content")
    calls, refusal = _calls(reply.get("tool_calls")), reply.get("refusal")
    if text is None and isinstance(finish, str):  # calls, a refusal, or a reply of thoughts only
        text = refusal or ""
    if not isinstance(finish, str) or finish not in _ENDED:
        check_error(choice)
        raise Garbage(f"finish_reason is {str(finish)[:_LONGEST_ID]!r}; expected one of {', '.join(_ENDED)}")
    if not isinstance(text, str):
        raise Garbage(f"content is {str(text)[:_LONGEST_ID]!r}; expected text")
    ended = "refusal" if refusal and finish == "stop" else _ENDED[finish]
    done = Completion([], [], ended, text=storable(text), usage=_usage(answer.get("usage")), calls=calls)
    thoughts = reply.get("reasoning_content") or reply.get("reasoning")
    done.reasoning = storable(thoughts) if isinstance(thoughts, str) else ""
    if calls and isinstance(thought := reply.get("reasoning_content"), str) and thought:  # DeepSeek refuses calls without it
        done.echo["reasoning_content"] = storable(thought)
    if details := entries(reply.get("reasoning_details")):  # OpenRouter's, of any model
        done.echo["reasoning_details"] = details
    return done


def read_beginning(content: bytes) -> Completion:
    """Return a completion from the first bytes of an answer that is too long: its text so far, without tool calls.

    The message is found by its JSON field name. Quotes inside strings are escaped, so the model's text cannot imitate
    the name.

    Raises:
        Garbage: the answer has no message.
    """
    if b'"message"' not in content:
        raise Garbage(f"more than {len(content) >> 10} KiB, and no message", TOO_LONG)
    found = _CONTENT.search(content)
    text = found[1].decode("utf-8", "ignore") if found else ""
    whole = _ESCAPED.match(text)
    return Completion([], [], "length", text=storable(json.loads(f'"{whole[0] if whole else ""}"', strict=False)))


def characters(tokens: int) -> int:
    """Return the maximum characters to keep of a reply of `tokens` tokens: 256, plus 64 per token, above any average."""
    return 256 + 64 * tokens


def bounded(completion: Completion, most: int) -> Completion:
    """Return a reply cut to `most` characters of text, names and arguments together, with finish `length` if it is cut.

    Servers that ignore `max_tokens` could otherwise fill the memory, since every later prompt repeats the reply.
    Reasoning is cut to `most` characters, too. `echo` is dropped if the reply is cut, or if the JSON of
    `echo` exceeds 2 * `most` characters.
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
    """Return the first `MOST_CALLS` tool calls of a message, with arguments as unparsed text; `{}` if they are missing.

    Raises:
        Garbage: a call has no name, or its arguments are neither text nor an object.
    """
    calls: list[ToolCall] = []
    for entry in entries(raw)[:MOST_CALLS]:
        call = table(entry)
        function = table(call.get("function"))
        name, arguments, id = function.get("name"), function.get("arguments"), call.get("id")
        if isinstance(arguments, dict):  # as in Ollama's own API
            arguments = json.dumps(arguments)
        if not isinstance(name, str) or not isinstance(arguments, str | None):
            raise Garbage("expected tool calls with the name and the arguments of a function")
        calls.append(ToolCall(storable(id) if isinstance(id, str) else "", storable(name), storable(arguments or "{}")))
    return calls


def _usage(raw: JSON) -> Usage | None:
    counts = table(raw)
    prompt, completion = count(counts.get("prompt_tokens")), count(counts.get("completion_tokens"))
    if prompt is None or completion is None:
        return None
    of_input, of_output = table(counts.get("prompt_tokens_details")), table(counts.get("completion_tokens_details"))
    total = count(counts.get("total_tokens")) or 0
    output = max(completion, total - prompt)  # xAI and Gemini count reasoning in the total alone
    cached = min(prompt, count(of_input.get("cached_tokens")) or count(counts.get("prompt_cache_hit_tokens")) or 0)
    return Usage(
        prompt,
        output,
        cached=cached,
        written=min(prompt - cached, count(of_input.get("cache_write_tokens")) or 0),
        reasoning=min(output, count(of_output.get("reasoning_tokens")) or output - completion),
        cost=amount(counts.get("cost")),
    )
