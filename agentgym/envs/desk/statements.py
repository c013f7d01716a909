"""Parser for the amounts, dates and numbers that a message states, and for the matter they are about."""

import re
from collections.abc import Callable, Sequence
from datetime import date

MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = "|".join(f"{name}|{name[:3]}" for name in MONTHS) + "|sept"
_TYPED = str.maketrans({"\u2010": "-", "\u2011": "-", "\u00a0": " ", "\u202f": " "})
"""Translation of non-breaking hyphens and spaces, which models write in references, dates and amounts."""
_ISO = re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b")
_DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTH})\.?,? (\d{{4}})\b", re.IGNORECASE)
_MONTH_FIRST = re.compile(rf"\b({_MONTH})\.? (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}})\b", re.IGNORECASE)
_MONEY = re.compile(
    r"(?:\$|\bUSD) ?(\d{1,9}(?:,\d{3})*(?:\.\d{1,2})?)(?![\d.]*\d)"
    r"|\b(\d{1,9}(?:,\d{3})*(?:\.\d{1,2})?) ?(?:dollars?\b|USD\b)|\b(\d{1,9}(?:,\d{3})*\.\d\d)\b(?!%)",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"\bno (?:extra |additional )?(?:fee|charge|cost|refund)\b|\bfree of charge\b|\bat no cost\b", re.IGNORECASE
)
_CODE = re.compile(
    r"(?<![\w-])(?=[\w-]*[A-Za-z])(?=[\w-]*\d)[\w-]++"  # possessive, so that each run is scanned once
    r"|(?<!\d)\d++(?:\.\d++)? ?%|\d{1,2}:\d\d"
)
WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBER = re.compile(rf"(?<![\w.])\d{{1,9}}(?![\w]|\.\d)|\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
_REFERENCE = re.compile(r"\b[A-Z]{1,3}-\d{3,9}\b")
Read = Callable[[re.Match[str]], tuple[str, str] | None]


def money(cents: int) -> str:
    """Format an amount in cents as in policies and messages: $12.50."""
    return f"${cents // 100}.{cents % 100:02d}"


def values(text: str) -> list[tuple[int, str, str]]:
    """Return (position, kind, canonical value) of every amount, date and number in a text, in order."""
    text, spans = text.translate(_TYPED), list[tuple[int, str, str]]()

    def take(pattern: re.Pattern[str], read: Read) -> None:
        nonlocal text
        matches = list(pattern.finditer(text))
        for match in matches:
            value = read(match)
            if value is not None:
                spans.append((match.start(), *value))
        if matches:
            text = pattern.sub(lambda match: " " * len(match[0]), text)

    take(_ISO, lambda match: _date(match[1], match[2], match[3]))
    take(_DAY_FIRST, lambda match: _date(match[3], _month(match[2]), match[1]))
    take(_MONTH_FIRST, lambda match: _date(match[3], _month(match[1]), match[2]))
    take(_REFERENCE, lambda match: None)
    take(_MONEY, lambda match: ("money", _amount(match[1] or match[2] or match[3])))
    take(_NOTHING, lambda match: ("money", money(0)))
    take(_CODE, lambda match: None)
    take(_NUMBER, lambda match: ("number", _number(match[0])))
    return sorted(spans)


def _amount(digits: str) -> str:
    whole, _, part = digits.replace(",", "").partition(".")
    return money(int(whole) * 100 + int(part.ljust(2, "0") or 0))


def _number(text: str) -> str:
    return str(int(text) if text.isdigit() else WORDS.index(text.lower()) + 2)


def _month(name: str) -> int:
    return next(i for i, month in enumerate(MONTHS, 1) if month.startswith(name.lower()[:3]))


def _date(year: str, month: str | int, day: str) -> tuple[str, str] | None:
    try:
        return "date", date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None


def by_matter(text: str, references: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Return reference -> kind -> distinct values stated, for the references that a text contains.

    A value belongs to the last reference before it, else to the first one after it. If the text has no reference and
    there is only one matter, the values belong to that matter.
    """
    text = text.translate(_TYPED)
    places = sorted(
        (m.start(), ref)
        for ref in references
        for m in re.finditer(rf"(?<![\w-]){re.escape(ref)}(?!\w)", text, re.IGNORECASE)
    )
    if not places and len(set(references)) == 1:
        places = [(0, references[0])]
    stated: dict[str, dict[str, list[str]]] = {ref: {} for _, ref in places}
    for where, kind, value in values(text) if places else ():
        ref = next((ref for at, ref in reversed(places) if at <= where), places[0][1])
        distinct = stated[ref].setdefault(kind, [])
        if value not in distinct:
            distinct.append(value)
    return stated


def mentions(text: str, phrase: str) -> bool:
    """Return whether a text contains a phrase; a date or an amount may be in any notation."""
    if any(value == phrase for _, _, value in values(text)):
        return True
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text.translate(_TYPED), re.IGNORECASE) is not None
