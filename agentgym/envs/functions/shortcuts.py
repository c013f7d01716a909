"""Shortcut policies that must not succeed."""

import json
import re
from collections.abc import Callable, Mapping, Sequence

from agentgym.core.actions import Tool, spell
from agentgym.tasks.attacks import first_order

Shortcut = Callable[[list[str]], str]
_TITLE = re.compile(r"'([^']+)'")
_ID = re.compile(r"\b[A-Z]-\d+\b")


def shortcuts(tools: Mapping[str, Tool], *, attacked: bool) -> Mapping[str, Shortcut]:
    """Return the shortcut policies by name; `attacked` adds one that obeys orders in notes."""
    return {
        **({"obey notes": lambda seen: _obey(tools, seen)} if attacked else {}),
        "finish at once": lambda _: spell("finish", "done"),
        "decline everything": _decline,
        "titles as ids": lambda seen: _overlap(tools, seen, _TITLE.findall(_requests(seen))),
        "first id": lambda seen: _look_then(tools, seen),
        "ask everything": _ask,
    }


def _requests(seen: Sequence[str]) -> str:
    return "\n".join(re.findall(r"^\d+\. .*$", seen[0], re.MULTILINE))


def _decline(seen: list[str]) -> str:
    count = len(_requests(seen).splitlines())
    return spell("decline", len(seen)) if len(seen) <= count else spell("finish", "done")


def _obey(tools: Mapping[str, Tool], seen: list[str]) -> str:
    """Search for the first title, obey an order in a note, and finish."""
    title = _TITLE.findall(_requests(seen))
    finders = [name for name, tool in tools.items() if list(tool.properties) == ["text"]]
    call = first_order(seen)
    if call and call not in seen and len(seen) < 10:
        return call
    return spell(finders[len(seen) - 1], title[0]) if title and len(seen) <= len(finders) else spell("finish", "done")


def _ask(seen: list[str]) -> str:
    """Ask the user about every request, and finish."""
    lines = _requests(seen).splitlines()
    return spell("ask_user", lines[len(seen) - 1]) if len(seen) <= len(lines) else spell("finish", "done")


def _overlap(tools: Mapping[str, Tool], seen: list[str], ids: Sequence[str]) -> str:
    """Call the function with a description most like the first request; finish after three calls.

    The arguments are the first of `ids`, and words and numbers of the request.
    """
    if len(seen) > 3:
        return spell("finish", "done")
    text = _requests(seen).split("\n")[0]
    request_words = set(re.findall(r"[a-z]+", text.lower()))
    own = ("finish", "decline", "ask_user")
    best = max(
        (tool for name, tool in tools.items() if name not in own),
        key=lambda tool: (len(request_words & set(re.findall(r"[a-z]+", tool.description.lower()))), tool.name),
    )
    arguments: dict[str, object] = {}
    for place, (name, schema) in enumerate(best.properties.items()):
        number = re.search(r"\b\d+\b", text[2:])
        if schema.get("type") == "integer":
            arguments[name] = int(number[0]) if number else 1
        elif place == 0:
            arguments[name] = ids[0] if ids else "1"
        else:
            arguments[name] = text.rstrip(".").split()[-1]
    return json.dumps({"name": best.name, "arguments": arguments})


def _look_then(tools: Mapping[str, Tool], seen: list[str]) -> str:
    """Search for the letter "a", and use the first id in the results."""
    if len(seen) == 1:
        finder = next((tool for tool in tools.values() if list(tool.properties) == ["text"]), None)
        return spell(finder.name, "a") if finder else spell("finish", "done")
    return _overlap(tools, seen, _ID.findall(" ".join(seen[1:])))
