"""The pre-tokenizer `phrases` of policies trained from scratch, and positions before which a text may be split.

A split never changes the tokens if no match of the pattern spans it and no match before it depends on later text. The
pattern does not look behind, so its matches after the split are the same as in the whole text. No match contains

- a space after a digit or after a mark other than `,`, `.` and `]`, or
- a space before a digit or a mark, unless `]` precedes the space.

The pattern looks ahead for a letter, or for a digit after letters; neither a space nor the end of a text matches that.
"""

import re
from collections.abc import Iterable
from typing import Any

ACT = "<|act|>"
"""The token that begins a reply of a policy trained from scratch; no other tokenizer has this token."""
WHOLE = r" ?\[[A-Z]+\] ?| ?(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z\d]{8,}"
"""A mark in brackets and capitals ("[SEP]") with the spaces around it, so that its neighbors begin as in a command; or
a code of letters and digits, which would otherwise be split inconsistently.
"""
BORDER = re.compile(r" (?:(?=[!-~])(?<=[!-+\-/-@\[\\^-`{-~] )|(?=[!-@\[-`{-~])(?<=[!-\\^-~] ))")
"""A space before which a text may be split. Its neighbors are ASCII, where all regex libraries agree on letters."""
_NAMES = r"(?:[^\W\d_]+(?:\|[^\W\d_]+)*|\(\?!\))"


def pattern(names: Iterable[str]) -> str:
    """Return the pattern that splits an environment's text into the largest tokens, given the names of its objects."""
    return _pattern("|".join(names) or "(?!)")


def _pattern(names: str) -> str:
    thing = rf"(?:{names})(?!\p{{L}})"
    return (
        rf"{WHOLE}|[ \n]?{thing}"
        r"| ?\d+(?:[,.](?: and)? a(?!\p{L}))?"  # a number, with the text that leads to the next item of a list
        rf"|[,.]?[ \n]?(?!{thing})\p{{L}}++(?: (?!{thing})\p{{L}}++)*"
        r"| ?[^\s\p{L}\d]+|\s+"
    )


def recognized(tokenizer: dict[str, Any]) -> bool:
    """Return True if a tokenizer (its parsed JSON) splits texts by this pattern without changing them first."""
    first: dict[str, Any] = tokenizer.get("pre_tokenizer") or {}
    steps: list[dict[str, Any]] = first.get("pretokenizers") or []
    if tokenizer.get("normalizer") or tokenizer["added_tokens"] or len(steps) != 2:
        return False
    split, letters = steps
    if split["type"] != "Split" or split.get("behavior") != "Isolated" or split.get("invert"):
        return False
    if letters["type"] != "ByteLevel" or letters.get("add_prefix_space") or letters.get("use_regex"):
        return False
    regex = str(split["pattern"].get("Regex", ""))
    names = re.match(re.escape(rf"{WHOLE}|[ \n]?(?:") + rf"({_NAMES})\)", regex)
    return names is not None and regex == _pattern(names[1])
