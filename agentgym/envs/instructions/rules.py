"""Rules for replies: their wording and parsing, their changes, and which are active."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from agentgym.envs.instructions.lexicon import LANGUAGES

Rules = dict[str, str]
"""Active rules: value by subject. Each required word is a subject, such as `word harbor`."""
Operation = tuple[str, str, str]
"""A change to a rule: `set` or `drop`, the subject, and the value."""
VALUES: Mapping[str, Mapping[str, str]] = {
    "order": {
        "alphabetical": "Put the items in alphabetical order.",
        "reverse": "Put the items in reverse alphabetical order.",
        "lightest": "Put the items in order from the lightest to the heaviest.",
        "heaviest": "Put the items in order from the heaviest to the lightest.",
    },
    "form": {
        "lines": "Write each item on its own line, with nothing before it.",
        "commas": "Write the items on one line, with a comma and a space between them.",
        "bullets": 'Write a bulleted list with "- " before each item.',
        "numbers": 'Write a numbered list: "1. " before the first item, and so on.',
        "array": "Write the items as a JSON array of strings on one line.",
        "object": 'Write a JSON object on one line with the keys "items" (the list) and "count" (the number of items).',
    },
    "case": {
        "lower": "Write the items in lowercase.",
        "upper": "Write the items in uppercase.",
        "capital": "Capitalize the first letter of each item and write the rest in lowercase.",
    },
    "language": {name: f"Name the items in {name}." for name in LANGUAGES[1:]},
    "count": {"1": "List exactly 1 item.", "2": "List exactly 2 items.", "3": "List exactly 3 items."},
    "letter": {
        letter: f'Leave out items whose name as you write it contains the letter "{letter}".' for letter in "aeiorst"
    },
    "opening": {
        text: f'Begin your reply with the line "{text}".' for text in ("Here it is", "Report", "As you wished", "My list")
    },
    "closing": {
        text: f'End your reply with the line "{text}".' for text in ("The end", "That is all", "Over", "Best wishes")
    },
    "note": {str(number): f'Add one line with "Note:" followed by exactly {number} words.' for number in range(2, 9)},
}
"""Subjects of rules, and the sentence of each value. A subject without a rule is unconstrained."""
_NOTE_WORDS = (
    "harbor window silver garden market signal copper letter summer bridge planet valley marble cotton engine shadow "
    "timber ribbon castle island magnet pepper saddle tunnel violet walnut anchor basket candle dragon feather hollow"
)
WORDS = tuple(_NOTE_WORDS.split())
_WORD = 'Write the word "{}" in a line that begins with "Note:".'
_ABOUT = {
    "order": "the order",
    "form": "the form of the list",
    "case": "capitalization",
    "language": "the language",
    "count": "the number of items",
    "letter": "the letter",
    "opening": "the first line",
    "closing": "the last line",
    "note": "the length of the note",
}


def sentence(operation: Operation) -> str:
    """Return an operation in words."""
    kind, about, value = operation
    if kind == "drop":
        return f"Forget the rule about {_ABOUT.get(about) or 'the ' + _quoted(about)}."
    return VALUES[about][value] if about in VALUES else _WORD.format(about.split()[1])


def _quoted(about: str) -> str:
    kind, word = about.split()
    return f'{kind} "{word}"'


@cache
def _sentences() -> dict[str, Operation]:
    return {sentence(("set", about, value)): ("set", about, value) for about in VALUES for value in VALUES[about]} | {
        sentence(("drop", about, "")): ("drop", about, "") for about in VALUES
    }


def read(text: str) -> Operation | None:
    """Return the operation that a sentence expresses; None for any other sentence."""
    if text in _sentences():
        return _sentences()[text]
    match = re.fullmatch(r'Write the word "(\w+)" in a line that begins with "Note:"\.', text)
    if match:
        return "set", f"word {match[1]}", "once"
    match = re.fullmatch(r'Forget the rule about the word "(\w+)"\.', text)
    return ("drop", f"word {match[1]}", "") if match else None


def after(operations: Iterable[Operation], system: Mapping[str, str], wishes: Mapping[str, str] | None = None) -> Rules:
    """Return the active rules after operations on `wishes`, the user's rules so far; the system's rules take precedence."""
    rules = dict(wishes or {})
    for kind, about, value in operations:
        if kind == "set":
            rules[about] = value
        else:
            rules.pop(about, None)
    return {**rules, **system}


def words_of(rules: Mapping[str, str]) -> list[str]:
    """Return the words required in a note."""
    return [about.split()[1] for about in rules if about.startswith("word ")]


def names(rules: Mapping[str, str], more: Sequence[str] = ("content",)) -> list[str]:
    """Return the names of the constraints on a reply: first `more`, which always apply, then the rules."""
    return [*more, *sorted(rules)]
