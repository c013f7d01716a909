"""Positions at which a text can be split so that its parts, encoded separately, give the tokens of the whole."""

import json
import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from agentgym.agents import phrases

WORDS = re.compile(r" (?=[A-Za-z])(?<=[A-Za-z] )")
"""A space between two letters. As at every border, the split is before the space."""
_LEFT = (
    *(
        "a",
        "You see",
        "don't",
        "the desk 1, a",
        "<act",
        "(x",
        "a_b",
        "12ab",
        "…é a",
        "\n\nNow",
        "ok.\nGo",
        "  two",
        "A.B",
        "\tIt",
    ),
    *("中文 a", "'s", "LIKE", "camelCase", "e\u0301b", "http", "    return x"),
)
_RIGHT = (
    *(
        " a",
        " The end.",
        " don't",
        " b 12",
        " x<y",
        " I\n\nam",
        " word  two",
        " é",
        " e\u0301",
        " CamelCase",
        " a\n",
        " s's",
    ),
    *(" to desk 1', 'go to", " b\u00a0c", " q🙂", " the quick brown fox"),
)


def border(source: str, encode: Callable[[str], Sequence[int]]) -> re.Pattern[str] | None:
    """Return the pattern of a tokenizer's borders, found from its JSON and its encodings; None if no border is safe."""
    raw: dict[str, Any] = json.loads(source)
    if raw["model"]["type"] != "BPE" or raw["model"].get("dropout"):
        return None
    if phrases.recognized(raw):
        return phrases.BORDER
    return WORDS if _never_joined(raw, encode) else None


def _never_joined(raw: dict[str, Any], encode: Callable[[str], Sequence[int]]) -> bool:
    """Return True if no token spans the space between two words.

    Byte-pair encoding only joins text that a vocabulary entry spans, so no entry may have a space after a visible
    character. The pre-tokenizer's result for a part must not depend on earlier text, so its patterns may not look
    behind. Other steps that change text, such as a normalizer that prepends a space, are detected by encoding samples.
    """
    pre_tokenizer = json.dumps(raw.get("pre_tokenizer"))
    if re.search(r"\(\?<|\\\\[bBAGK]", pre_tokenizer):
        return False
    blank = "Ġ" if '"ByteLevel"' in pre_tokenizer else "[▁ ]"
    if re.search(f"[A-Za-z]{blank}", "\0".join(raw["model"]["vocab"])):
        return False
    return all([*encode(left + right)] == [*encode(left), *encode(right)] for left, right in product(_LEFT, _RIGHT))


def pieces(text: str, border: re.Pattern[str]) -> list[str]:
    """Split a text at its borders."""
    first, *others = border.split(text)
    return [first, *(" " + other for other in others)]


def cut(run: Sequence[str | int], border: re.Pattern[str]) -> list[list[str | int]]:
    """Split a run (texts, and ints as placeholders) at each text's first and last border; middle parts are plain text."""
    parts: list[list[str | int]] = [[]]
    for piece in run:
        if isinstance(piece, int):
            parts[-1].append(piece)
            continue
        first, *others = pieces(piece, border)
        parts[-1].append(first)
        if others[1:]:
            parts.append(["".join(others[:-1])])
        if others:
            parts.append([others[-1]])
    return parts
