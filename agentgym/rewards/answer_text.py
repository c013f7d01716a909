"""How answers are written: which commas separate and which group digits, and which answers are words or labels."""

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
    """Return a text in which every comma separates: those that group the digits of a number are left out.

    Within brackets that are no LaTeX groups a comma separates: `(3,125)` is a point. Where other commas of the text are
    followed by a space, those before three digits group them: `(1,000, 2,000)`. Outside of brackets a comma before three
    digits groups them, unless another comma there does not, or `separate` says that a list is wanted.
    """
    inside, marks = _places(text)
    spaced = re.search(r",\s", text) is not None
    groups = {match.start() for match in _GROUPS.finditer(text)}
    flat = {at for at in marks if at not in inside}
    listed = separate or not flat <= groups
    left_out = {at for at in groups if spaced or (at in flat and not listed)}
    return "".join(("" if at in left_out else ", ") if at in marks else sign for at, sign in enumerate(text))


def _places(text: str) -> tuple[set[int], set[int]]:
    """Return the places of commas within brackets, and of all commas."""
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
    """Return what commas outside of brackets separate, without spaces."""
    inside, marks = _places(text)
    flat = "".join("\0" if at in marks - inside else sign for at, sign in enumerate(text))
    return ["".join(part.split()) for part in flat.split("\0")]


def same_brackets(given: str, wanted: str) -> bool:
    """Return whether an answer has no set where a tuple or an interval is right, and none of these for a set.

    A set may stand without its brackets, on either side. Unions and differences are written in many ways: nothing is
    compared there.
    """
    if any(sign in text for text in (given, wanted) for sign in ("\\cup", "\\cap", "\\setminus", "\\mid", "|")):
        return True
    (sets, tuples), (wanted_sets, wanted_tuples) = _lists(given), _lists(wanted)
    if not wanted_sets and not wanted_tuples:
        return True
    return sets <= wanted_sets and not (sets < wanted_sets and tuples > wanted_tuples)


def _lists(text: str) -> tuple[int, int]:
    """Return how many brackets with commas are those of sets, and how many are round or square."""
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
    """Return a right answer made of words or a label, whose letters have an order; None for mathematics.

    These are: what is wholly `\\text{…}`; two and more capitals (`AB`, a segment, a code); a word of four letters and
    more, or a capital and small letters; and a few short words. Two or three small letters are a product: `xy` is `yx`.
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
    """Return whether an answer has the same words; case matters only in a label of all capitals."""
    given, wanted = plain(answer), plain(gold)
    if _LABEL.fullmatch(wanted):
        return given == wanted
    return given.casefold() == wanted.casefold()


def plain(text: str) -> str:
    """Return text without LaTeX around it, brackets around one letter, a full stop, and spaces twice."""
    body = _TEXT.sub(r"\1", text).replace("\\ ", " ").replace("~", " ").strip().strip("$").strip().removesuffix(".")
    body = " ".join(body.replace("\\!", "").replace("\\,", " ").split())
    body = re.sub(r"\b([ap])\.\s?m\b\.?", r"\1m", body, flags=re.IGNORECASE)
    return re.sub(r"^\(([A-Za-z])\)$", r"\1", body)
