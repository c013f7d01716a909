"""The pre-tokenizer `phrases` of policies made from scratch, and the places where a text may be cut before it.

A cut never changes the tokens if no match of the pattern spans it, and if no match before it depends on what follows. The
pattern does not look back, so its matches after the cut are then those of the whole text. No match of it contains

- a blank behind a digit or a mark other than `,`, `.` and `]`, or
- a blank before a digit or a mark, unless `]` is before the blank.

Whatever looks ahead (for a letter, for a digit behind letters) finds neither in a blank nor at the end of a text.
"""

import re
from collections.abc import Iterable
from typing import Any

ACT = "<|act|>"
"""The token that opens a reply of such a policy: no other tokenizer has it."""
WHOLE = r" ?\[[A-Z]+\] ?| ?(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z\d]{8,}"
"""A mark in brackets and capitals ("[SEP]") with the blanks around it, so that the parts around it begin as in a
command; or a code of letters and digits, which would otherwise be cut inconsistently.
"""
BORDER = re.compile(r" (?:(?=[!-~])(?<=[!-+\-/-@\[\\^-`{-~] )|(?=[!-@\[-`{-~])(?<=[!-\\^-~] ))")
"""A blank before which a text may be cut; its neighbors are ASCII, for which all libraries agree on letters."""
_NAMES = r"(?:[^\W\d_]+(?:\|[^\W\d_]+)*|\(\?!\))"


def pattern(names: Iterable[str]) -> str:
    """Return the pattern that cuts an environment's text into its largest tokens, given the names of its things."""
    return _pattern("|".join(names) or "(?!)")


def _pattern(names: str) -> str:
    thing = rf"(?:{names})(?!\p{{L}})"
    return (
        rf"{WHOLE}|[ \n]?{thing}"
        r"| ?\d+(?:[,.](?: and)? a(?!\p{L}))?"  # a number, with what leads on to the next thing of a list
        rf"|[,.]?[ \n]?(?!{thing})\p{{L}}++(?: (?!{thing})\p{{L}}++)*"
        r"| ?[^\s\p{L}\d]+|\s+"
    )


def recognized(tokenizer: dict[str, Any]) -> bool:
    """Return whether a tokenizer (its parsed JSON) cuts texts by this pattern without changing them first."""
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
