"""Parsing of answer text: commas that separate or group digits, words and labels."""

import re

_GROUPS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TEXT = re.compile(r"\\(?:text|textbf|textit|mathrm|mbox|operatorname)\s*\{([^{}\\]*)\}")
_LABEL = re.compile(r"[A-Z]{2,}")
_WORD = re.compile(r"[A-Z]?[a-z]{3,}(?:[ '-][A-Za-z0-9]+)*")
_LISTS = {
    "short": "no on yes odd one two six ten mon tue wed thu fri sat sun red blue may noon none",
    "functions": "sin cos tan cot sec csc log exp sqrt arcsin arccos arctan sinh cosh tanh",
}
_SHORT_WORDS, _FUNCTIONS = (frozenset(words.split()) for words in _LISTS.values())


def commas(text: str, separate: bool = False) -> str:
    """Return a text without digit-grouping commas; every comma that remains is a separator.

    Inside brackets (but not inside a LaTeX group) a comma is a separator: `(3,125)` is a point. If some comma is followed by
    a space, commas before three digits group digits: `(1,000, 2,000)`. Outside brackets, commas before three digits group
    digits unless another comma outside brackets does not, or `separate` says that a list is expected.
    """
    inside, marks = _places(text)
    spaced = re.search(r",\s", text) is not None
    groups = {match.start() for match in _GROUPS.finditer(text)}
    flat = {at for at in marks if at not in inside}
    listed = separate or not flat <= groups
    left_out = {at for at in groups if spaced or (at in flat and not listed)}
    return "".join(("" if at in left_out else ", ") if at in marks else sign for at, sign in enumerate(text))


def _places(text: str) -> tuple[set[int], set[int]]:
    """Return the positions of the commas inside brackets other than LaTeX groups, and the positions of all commas."""
    opened: list[bool] = []
    inside: set[int] = set()
    marks: set[int] = set()
    for at, sign in enumerate(text):
        if sign in "([{":
            opened.append(sign != "{" or text[at - 1 : at] in ("", "\\", " ", "$"))
        elif sign in ")]}" and opened:
            opened.pop()
        elif sign == ",":
            marks.add(at)
            if opened and opened[-1]:
                inside.add(at)
    return inside, marks


def parts(text: str) -> list[str]:
    """Return the parts of a text between the commas outside brackets, without spaces."""
    inside, marks = _places(text)
    flat = "".join("\0" if at in marks - inside else sign for at, sign in enumerate(text))
    return ["".join(part.split()) for part in flat.split("\0")]


def same_brackets(answer: str, gold: str) -> bool:
    """Return False if the answer is a set where the gold answer has a tuple or interval, or the reverse.

    Both answers may write a set without brackets. Unions and differences have many notations and are not compared.
    """
    if any(sign in text for text in (answer, gold) for sign in ("\\cup", "\\cap", "\\setminus", "\\mid", "|")):
        return True
    (sets, tuples), (wanted_sets, wanted_tuples) = _lists(answer), _lists(gold)
    if not wanted_sets and not wanted_tuples:
        return True
    return sets <= wanted_sets and not (sets < wanted_sets and tuples > wanted_tuples)


def _lists(text: str) -> tuple[int, int]:
    """Return the number of bracketed sets with commas, and the number of round or square brackets with commas."""
    opened: list[str] = []
    found: dict[int, str] = {}
    for at, sign in enumerate(text):
        if sign in "([{":
            opened.append(f"{at} {'set' if sign == '{' and text[at - 1 : at] == chr(92) else sign}")
        elif sign in ")]}" and opened:
            opened.pop()
        elif sign == "," and opened:
            place, _, kind = opened[-1].partition(" ")
            found[int(place)] = kind
    kinds = list(found.values())
    return kinds.count("set"), kinds.count("(") + kinds.count("[")


def words(text: str) -> str | None:
    r"""Return a gold answer that consists of words or is a label, in plain form; None for mathematics.

    Words and labels are: text completely in `\text{…}`; two or more capitals (`AB`, a segment, a code); a word of four or
    more letters; a capital followed by small letters; and a few short words. Two or three small letters are a product, so
    `xy` equals `yx`.
    """
    body = text.strip().strip("$").strip()
    match = _TEXT.fullmatch(body)
    if match is not None:
        return plain(body)
    if body.lower() in _SHORT_WORDS or _LABEL.fullmatch(body):
        return plain(body)
    long = _WORD.fullmatch(body) is not None and (len(body) > 3 or body[0].isupper()) and body not in _FUNCTIONS
    return plain(body) if long else None


def same_words(answer: str, gold: str) -> bool:
    """Return True if an answer has the same words as the gold answer; case matters only for a label in capitals."""
    answer_words, gold_words = plain(answer), plain(gold)
    if _LABEL.fullmatch(gold_words):
        return answer_words == gold_words
    return answer_words.casefold() == gold_words.casefold()


def plain(text: str) -> str:
    """Return text without surrounding LaTeX, brackets around a single letter, a final period, or repeated spaces."""
    body = _TEXT.sub(r"\1", text).replace("\\ ", " ").replace("~", " ").strip().strip("$").strip().removesuffix(".")
    body = " ".join(body.replace("\\!", "").replace("\\,", " ").split())
    body = re.sub(r"\b([ap])\.\s?m\b\.?", r"\1m", body, flags=re.IGNORECASE)
    return re.sub(r"^\(([A-Za-z])\)$", r"\1", body)
