"""Replies: writing one that keeps the rules, and checking each rule on any reply."""

import json
import re
import string
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym.envs.instructions.lexicon import LANGUAGES, NAMES, SPELLINGS, without_accents
from agentgym.envs.instructions.rules import Rules, names, words_of

Item = tuple[str, str, int]
"""English name, category and weight."""
NOTE = "Note:"
FILLER = "so"
LONGEST = 4000
"""Maximum length of a reply in characters; a longer reply is invalid."""


def eligible(rules: Mapping[str, str], items: Sequence[Item], category: str) -> dict[str, int]:
    """Return the lower-case names of the category's items that `rules` allow, with weights, in document order."""
    language, letter = rules.get("language", "English"), rules.get("letter")
    written = {NAMES[name][language].lower(): weight for name, kind, weight in items if kind == category}
    return {name: weight for name, weight in written.items() if letter is None or letter not in name}


def spelled(language: str, items: Sequence[Item], category: str) -> dict[str, Item]:
    """Return the accepted lower-case names of a category's items in a language, each with its item."""
    return {name: item for item in items if item[1] == category for name in SPELLINGS[item[0], language]}


def ordered(chosen: Mapping[str, int], order: str | None) -> list[str]:
    """Return the names in `chosen` (name -> weight) sorted by the rule `order`; None keeps their order."""
    if order in ("alphabetical", "reverse"):
        return sorted(chosen, key=without_accents, reverse=order == "reverse")
    if order in ("lightest", "heaviest"):
        return sorted(chosen, key=chosen.__getitem__, reverse=order == "heaviest")
    return list(chosen)


def write(rules: Rules, items: Sequence[Item], category: str) -> str:
    """Return a reply that keeps the rules."""
    chosen = ordered(eligible(rules, items, category), rules.get("order"))
    if "count" in rules:  # the last ones: what was read last is what small policies copy first
        chosen = chosen[-int(rules["count"]) :]
    change = {"upper": str.upper, "capital": str.capitalize}.get(rules.get("case", ""), str.lower)
    lines = _list(rules.get("form", "lines"), [change(name) for name in chosen])
    if "opening" in rules:
        lines.insert(0, rules["opening"])
    words = words_of(rules)
    if words or "note" in rules:
        missing = int(rules.get("note", len(words))) - len(words)
        lines.append(" ".join([NOTE, *words, *[FILLER] * missing]))
    if "closing" in rules:
        lines.append(rules["closing"])
    return "\n".join(lines)


def _list(form: str, entries: list[str]) -> list[str]:
    if form == "commas":
        return [", ".join(entries)]
    if form == "array":
        return [json.dumps(entries)]
    if form == "object":
        return [json.dumps({"items": entries, "count": len(entries)})]
    if form == "numbers":
        return [f"{number}. {entry}" for number, entry in enumerate(entries, 1)]
    return [f"- {entry}" if form == "bullets" else entry for entry in entries]


def mentions(text: str, items: Sequence[Item]) -> bool:
    """Return True if a text names an item of the document, in any of the languages."""
    words = set(re.findall(r"[a-z]+", without_accents(text)))
    return any(name in words for item in items for language in LANGUAGES for name in SPELLINGS[item[0], language])


@dataclass(frozen=True)
class Parts:
    """A parsed reply."""

    first: str
    last: str
    notes: tuple[str, ...]
    body: tuple[str, ...]

    @classmethod
    def of(cls, text: str, rules: Mapping[str, str]) -> "Parts":
        """Return a parsed reply: the lines that rules require, and the rest, which is the list."""
        lines = [line.rstrip() for line in text.strip("\n").splitlines() if line.strip()]
        body = list(lines)
        if body and body[0] == rules.get("opening"):
            del body[0]
        if body and body[-1] == rules.get("closing"):
            del body[-1]
        has_note = "note" in rules or bool(words_of(rules))
        notes = [line for line in body if has_note and line.startswith(NOTE)]
        return cls(*((lines[0], lines[-1]) if lines else ("", "")), tuple(notes), tuple(n for n in body if n not in notes))


def entries(body: Sequence[str], form: str) -> list[str] | None:
    """Return the entries of a list written in `form`; None if the list is not in that form."""
    if form == "lines":
        return None if any(re.match(r"(?:- |\d+\. |[\[{])", line) or ", " in line for line in body) else list(body)
    if form == "bullets":
        return [line[2:] for line in body] if all(line.startswith("- ") for line in body) else None
    if form == "numbers":
        prefixes = [f"{number}. " for number in range(1, len(body) + 1)]
        good = all(line.startswith(prefix) for line, prefix in zip(body, prefixes, strict=True))
        return [line[len(prefix) :] for line, prefix in zip(body, prefixes, strict=True)] if good else None
    if len(body) != 1:
        return None
    if form == "commas":
        return None if re.match(r"(?:- |\d+\. |[\[{])", body[0]) else body[0].split(", ")
    return _from_json(body[0], form)


def _from_json(line: str, form: str) -> list[str] | None:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if form == "object":
        if not isinstance(value, dict) or set(value) != {"items", "count"}:  # pyright: ignore[reportUnknownArgumentType]
            return None
        listed: object = value["items"]  # pyright: ignore[reportUnknownVariableType]
        count: object = value["count"]  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(listed, list) or type(count) is not int or count != len(listed):  # pyright: ignore[reportUnknownArgumentType]
            return None
        value = listed  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, list):
        return None
    return [str(entry) for entry in value] if all(isinstance(entry, str) for entry in value) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


FORMS = ("array", "object", "numbers", "bullets", "commas", "lines")


def check(text: str, rules: Rules, items: Sequence[Item], category: str) -> dict[str, bool]:
    """Return True or False for each constraint by name; `content` requires that the reply lists the right items."""
    parts = Parts.of(text, rules)
    found = [read for form in FORMS if (read := entries(parts.body, form)) is not None]
    found_entries = entries(parts.body, rules["form"]) if "form" in rules else None
    listed = found_entries if found_entries is not None else found[0] if found else []
    lower = [unicodedata.normalize("NFC", entry.lower()) for entry in listed]
    named = spelled(rules.get("language", "English"), items, category)
    good = {name: item for name, item in named.items() if rules.get("letter", "?") not in without_accents(name)}
    known = {name: good[name] for name in lower if name in good}
    chosen = {item[0] for item in known.values()}
    avoidable = {item[0] for name, item in named.items() if name not in good}  # a name of theirs has the letter
    number = int(rules.get("count", len(chosen)))
    complete = "count" in rules or {item[0] for item in good.values()} - avoidable <= chosen
    content = bool(lower) and len(chosen) == len(lower) == number and complete
    styles = {"lower": str.lower, "upper": str.upper, "capital": str.capitalize}
    results = {
        "content": content,
        "form": found_entries is not None,
        "order": len(known) == len(lower)
        and lower == ordered({name: item[2] for name, item in known.items()}, rules.get("order")),
        "case": bool(listed) and all(entry == styles[rules.get("case", "lower")](entry) for entry in listed),
        "count": len(lower) == number,
        "language": bool(lower) and set(lower) <= set(named),
        "letter": all(rules.get("letter", "?") not in without_accents(name) for name in lower),
        "opening": parts.first == rules.get("opening"),
        "closing": parts.last == rules.get("closing"),
    }
    notes = [line.removeprefix(NOTE).split() for line in parts.notes]
    results["note"] = len(notes) == 1 and len(notes[0]) == int(rules.get("note", 0))
    words = {word.strip(string.punctuation).lower() for note in notes for word in note}
    results |= {f"word {word}": len(notes) == 1 and word in words for word in words_of(rules)}
    return {name: results[name] for name in names(rules)}
