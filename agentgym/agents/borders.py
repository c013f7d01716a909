"""Places to cut a text so that its parts, encoded one by one, give the tokens of the whole."""

import json
import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from agentgym.agents import phrases

WORDS = re.compile(r" (?=[A-Za-z])(?<=[A-Za-z] )")
"""A blank between two letters: the cut is before it, as at every border."""
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
    """Return the pattern of a tokenizer's borders (from its JSON and its encodings); None if it has none."""
    raw: dict[str, Any] = json.loads(source)
    if raw["model"]["type"] != "BPE" or raw["model"].get("dropout"):
        return None
    if phrases.recognized(raw):
        return phrases.BORDER
    return WORDS if _never_joined(raw, encode) else None


def _never_joined(raw: dict[str, Any], encode: Callable[[str], Sequence[int]]) -> bool:
    """Return whether no token spans the blank between two words.

    A byte-pair model never joins what no token of its vocabulary spans, so no token may have a blank after anything
    visible. What the pre-tokenizer makes of a part must not depend on what stands before it, so its patterns may not look
    back. Whatever else changes text (a normalizer that writes a blank before each text) is found out by trying.
    """
    pre_tokenizer = json.dumps(raw.get("pre_tokenizer"))
    if re.search(r"\(\?<|\\\\[bBAGK]", pre_tokenizer):
        return False
    blank = "Ġ" if '"ByteLevel"' in pre_tokenizer else "[▁ ]"
    if re.search(f"[A-Za-z]{blank}", "\0".join(raw["model"]["vocab"])):
        return False
    return all([*encode(left + right)] == [*encode(left), *encode(right)] for left, right in product(_LEFT, _RIGHT))


def pieces(text: str, border: re.Pattern[str]) -> list[str]:
    """Return a text cut at its borders."""
    first, *others = border.split(text)
    return [first, *(" " + other for other in others)]


def cut(run: Sequence[str | int], border: re.Pattern[str]) -> list[list[str | int]]:
    """Return a run with placeholders, cut at the first and last border of its own words; the part between is fixed."""
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
