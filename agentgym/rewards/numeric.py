"""Verifier of answers that are one number: parsed by a grammar, never evaluated, and compared exactly where possible."""

import re
from dataclasses import dataclass
from fractions import Fraction

LONGEST = 400  # characters of a number
TOLERANCE = Fraction(1, 10**6)

_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.[0-9]*)?|\.[0-9]+)"
_POWER = r"(?:[eE]|\s*(?:\\times|\\cdot|\*|×)\s*10\s*(?:\^|\*\*)\s*)[{(]?(?P<power>[+-]?[0-9]{1,3})[})]?"
_PLAIN = re.compile(rf"(?P<decimal>{_DECIMAL})(?:{_POWER})?")
_RATIO = re.compile(rf"(?:(?P<whole>[0-9]+)\s+)?(?P<top>{_DIGITS})\s*/\s*(?P<bottom>[+-]?{_DIGITS})")
_LATEX = re.compile(
    r"(?P<whole>[0-9]+)?\s*\\[dt]?frac\s*"
    r"(?:\{\s*(?P<top>[+-]?[0-9]+)\s*\}\s*\{\s*(?P<bottom>[+-]?[0-9]+)\s*\}|(?P<t>[0-9])\s*(?P<b>[0-9]))"
)
_REPEATING = re.compile(
    rf"(?P<whole>{_DIGITS})?\.(?P<start>[0-9]*)(?:\\(?:overline|bar)\s*(?:\{{\s*(?P<braced>[0-9]+)\s*\}}|(?P<one>[0-9]))"
    r"|\((?P<round>[0-9]+)\))"
)
_TEN = re.compile(
    r"10\s*(?:\^|\*\*)\s*(?:\{\s*(?P<braced>[+-]?[0-9]{1,3})\s*\}|\((?P<round>[+-]?[0-9]{1,3})\)|(?P<bare>[0-9]{1,3}))"
)
_DEGREES = re.compile(r"\s*(?:\^\s*(?:\\circ|\{\s*\\circ\s*\})|°|\s(?:degrees?|\\text\{\s*degrees?\s*\}))$")
_WRAPPED = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("\\boxed{", "}"), ("**", "**"))


@dataclass(frozen=True, slots=True)
class Number:
    """A number, with the way it was written."""

    value: Fraction
    rounded: bool
    """True for decimals and scientific notation, which may be approximations; False for repeating decimals and `10^6`."""
    percent: bool = False

    @property
    def integer(self) -> bool:
        """True if the value is an integer."""
        return self.value.denominator == 1


def read_number(text: str) -> Number | None:
    r"""Return the number that the text denotes; None if the text as a whole is not a number.

    The grammar covers integers with or without thousands separators, decimals, repeating decimals (`0.1\overline{6}`,
    `0.(3)`), scientific notation (`1.5e-3`, `1.5 \times 10^{-3}`), fractions and mixed numbers (`3/4`, `\frac{3}{4}`,
    `1 3/4`), with a sign, a dollar sign, a percent sign, a variable (`x = 3`), degrees, powers of ten (`10^6`), and
    surrounding LaTeX and Markdown. Other powers are rejected as unfinished work, and so are non-ASCII digits, words and
    infinities.
    """
    if len(text) > LONGEST:
        return None
    body = unwrapped(text)
    body = _DEGREES.sub("", body)
    percent = body.endswith("%")
    body = body.rstrip("%").removesuffix("\\").strip() if percent else body
    negative = body[:1] == "-"
    body = body[1:].strip() if body[:1] in ("-", "+") else body
    body = body.removeprefix("\\$").removeprefix("$").strip()
    read = _fraction(body)
    return None if read is None else Number(-read[0] if negative else read[0], read[1], percent)


def unwrapped(text: str, *, variable: bool = False) -> str:
    """Return a value's text without surrounding `$`, LaTeX box or `**`, a final period, and `x =` (kept if `variable`).

    Unicode minus signs become `-`.
    """
    body = text.strip().replace("−", "-").replace("{,}", ",").replace("\\!", "").replace("\\,", "")
    changed = True
    while changed:
        changed = False
        body = body.strip().removesuffix(".")
        for opener, closer in _WRAPPED:
            if not (body.startswith(opener) and body.endswith(closer) and len(body) > len(opener) + len(closer)):
                continue
            inner = body[len(opener) : len(body) - len(closer)]
            if _balanced(inner) if closer == "}" else opener not in inner:
                body, changed = inner, True
                break
    return body if variable or "=" not in body else re.sub(r"^[A-Za-z]\s*=\s*", "", body)


def same_number(answer: Number, gold: Number) -> bool:
    """Return True if an answer equals the gold number.

    If both are written as integers or fractions, they must be equal. Decimals may differ by 1e-6 times the gold number, and
    by at most 1e-6 if the gold number is written as an integer; a gold 0 must be exact. `25%` matches both
    25 and 1/4, since data files use both.
    """
    readings = {answer.value, answer.value / 100} if answer.percent != gold.percent and answer.percent else {answer.value}
    if gold.percent and not answer.percent:
        readings.add(answer.value * 100)
    return any(_near(value, gold, answer.rounded) for value in readings)


def _near(value: Fraction, gold: Number, rounded: bool) -> bool:
    if not (rounded or gold.rounded):
        return value == gold.value
    size = abs(gold.value)
    return abs(value - gold.value) <= TOLERANCE * (min(size, 1) if gold.integer and not gold.rounded else size)


def _fraction(body: str) -> tuple[Fraction, bool] | None:
    if match := _PLAIN.fullmatch(body):
        value = Fraction(match["decimal"].replace(",", "").rstrip("."))
        if match["power"] is not None:
            value *= Fraction(10) ** int(match["power"])
        return value, "." in match["decimal"] or match["power"] is not None
    if "." in body and (match := _REPEATING.fullmatch(body)):
        start, cycle = match["start"], match["braced"] or match["one"] or match["round"]
        whole = (match["whole"] or "0").replace(",", "")
        return (int(whole + start) + Fraction(int(cycle), 10 ** len(cycle) - 1)) / 10 ** len(start), False
    if body.startswith("10") and (match := _TEN.fullmatch(body)):
        return Fraction(10) ** int(match["braced"] or match["round"] or match["bare"]), False
    match = _RATIO.fullmatch(body) or _LATEX.fullmatch(body)
    if match is None:
        return None
    names = match.groupdict()
    top, bottom = (int((names[a] or names.get(b) or "0").replace(",", "")) for a, b in (("top", "t"), ("bottom", "b")))
    if bottom == 0:
        return None
    value = Fraction(top, bottom)
    return value if match["whole"] is None else int(match["whole"]) + value, False


def _balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            return False
    return depth == 0
