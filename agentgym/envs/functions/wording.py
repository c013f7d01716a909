"""Wordings of requests and a parser for them, both from one table."""

import json
import re
from collections.abc import Mapping
from functools import cache

from agentgym.envs.functions.services import SERVICES, Service

Parts = Mapping[str, str]
"""Slot name -> text, for the slots in a request's wording."""
WORDINGS: Mapping[str, tuple[str, ...]] = {
    "set": ("Set the {field} of the {noun} {ref} to {value}.", "The {noun} {ref} should have the {field} {value}."),
    "create": ("Create a new {noun} '{title}' with {fields}.", "Add another {noun} called '{title}' with {fields}."),
    "delete": ("Delete the {noun} {ref}.", "The {noun} {ref} is no longer needed; remove it."),
    "question": ("Tell me the {field} of the {noun} {ref}.", "Which {field} does the {noun} {ref} have? Tell me."),
    "copy": (
        "Give the {noun} {ref} the same {field} as the {noun} {source}.",
        "The {noun} {ref} should have the same {field} as the {noun} {source}.",
    ),
    "pay": ("Pay the {noun} {ref} in full from the account {source}.", "Settle the {noun} {ref} with the account {source}."),
    "ask": ("The {noun} {ref} needs a different {field}.", "Change the {field} of the {noun} {ref}."),
    "fallback": (
        "Set the {field} of the {noun} {ref} to {value}; if that is not available, set it to {other}.",
        "The {noun} {ref} should get the {field} {value}, or {other} if {value} is not available.",
    ),
    "condition": (
        "If the {by} of the {noun} {ref} is {is}, set its {field} to {value}; otherwise set it to {other}.",
        "Check the {by} of the {noun} {ref}: if it is {is}, change its {field} to {value}, otherwise to {other}.",
    ),
    "above": (
        "If the {by} of the {noun} {ref} is above {is}, set its {field} to {value}; otherwise set it to {other}.",
        "Check the {by} of the {noun} {ref}: if it is above {is}, change its {field} to {value}, otherwise to {other}.",
    ),
    "each": (
        "Set the {field} to {value} for every {noun} whose {by} is {is}.",
        "Every {noun} with the {by} {is} should get the {field} {value}.",
    ),
}
PLAIN = {"set": 'Set "{field}": {json} for the {noun} {ref}.'}
"""Wordings for small policies, which spell values as in the call."""
_REF = r"'[^']+'(?: \(\w+ [\w:-]+\))?"
_WORD = r"[\w:-]+"
_GAPS = {"ref": _REF, "source": _REF, "title": r"[^']+", "fields": r".+", "json": r'"?[\w:-]+"?'}


def say(kind: str, parts: Parts, wording: int, *, plain: bool = False) -> str:
    """Return the text of a request; with `plain`, use its wording in `PLAIN` if there is one."""
    if plain and kind in PLAIN:
        return PLAIN[kind].format_map({**parts, "json": json.dumps(parts["value"])})
    return WORDINGS[kind][wording].format_map(parts)


def read(text: str) -> tuple[str, dict[str, str]]:
    """Parse a request; return its kind and its parts, including the name of the `service`.

    Raises:
        ValueError: the text fits no known wording.
    """
    for kind, pattern in _patterns():
        if match := pattern.fullmatch(text):
            parts = match.groupdict()
            if "json" in parts:
                parts["value"] = parts.pop("json").strip('"')
            return kind, {**parts, "service": by_noun()[parts["noun"]].name}
    raise ValueError(f"{text[:80]!r} is no request in a wording that is known")


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    """Return (kind, pattern) for each wording, the patterns with most slots first."""
    patterns: list[tuple[str, re.Pattern[str]]] = []
    for kind, wordings in WORDINGS.items():
        for wording in (*wordings, *([PLAIN[kind]] if kind in PLAIN else [])):
            pieces = re.split(r"\{(\w+)\}", wording)
            pattern, named = "", set[str]()
            for place, piece in enumerate(pieces):
                if place % 2 == 0:
                    pattern += re.escape(piece)
                elif piece in named:
                    pattern += f"(?P={piece})"
                else:
                    named.add(piece)
                    pattern += f"(?P<{piece}>{_GAPS.get(piece, _WORD)})"
            patterns.append((kind, re.compile(pattern)))
    return sorted(patterns, key=lambda item: -item[1].groups)


@cache
def by_noun() -> dict[str, Service]:
    """Return the services by the noun of their records."""
    return {service.noun: service for service in SERVICES.values()}


def reference(title: str, name: str = "", value: object = "") -> str:
    """Return the phrase for a record: its title and, if another record has the same title, a field that differs."""
    return f"'{title}' ({name} {value})" if name else f"'{title}'"


def read_reference(text: str) -> tuple[str, str, str]:
    """Parse the phrase for a record; return title, field name and field value, the last two "" if absent.

    Raises:
        ValueError: the text is not such a phrase.
    """
    match = re.fullmatch(r"'([^']+)'(?: \((\w+) ([\w:-]+)\))?", text)
    if match is None:
        raise ValueError(f"{text[:60]!r} is no reference to a record")
    return match[1], match[2] or "", match[3] or ""


def say_fields(fields: Mapping[str, object]) -> str:
    """Return the fields of a record as a phrase."""
    return ", ".join(f"{name} {value}" for name, value in fields.items())


def read_fields(text: str) -> dict[str, str]:
    """Parse a phrase made by `say_fields`."""
    return dict(re.findall(r"(\w+) ([\w:-]+)", text))


def typed(service: str, name: str, text: str) -> str | int:
    """Convert a text to the type of a service's field."""
    return int(text) if SERVICES[service].by_name[name].kind == "number" else text
