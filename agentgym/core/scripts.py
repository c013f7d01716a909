"""Scripts that are written without spaces between words, and punctuation in all scripts."""

import re
import unicodedata
from collections.abc import Iterator

SPACELESS = (
    "\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f"  # Thai to Balinese
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"  # kana, bopomofo, CJK
    "\ua000-\ua48f\ua960-\ua97f\ua980-\ua9ff\uaa60-\uaa7f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"  # Yi, Javanese, Hangul
    "\U00016fe0-\U0001b2ff\U00020000-\U0003ffff"  # Tangut, Khitan, Nushu, old kana, rare CJK
)
"""Character class of a regular expression. It includes Korean, which has spaces but attaches particles to the preceding
word."""
_SPACELESS = re.compile(f"[{SPACELESS}]")
_WIDE = re.compile("[\uff01-\uffdc]+")
_EITHER = re.compile(f"[{SPACELESS}\uff01-\uffdc]")
_PIECES = re.compile(rf"[{SPACELESS}]+|[^\W{SPACELESS}]+")


def spaceless(text: str) -> bool:
    """Return True if a text contains a full-width character or a character of a script without spaces."""
    return not text.isascii() and _EITHER.search(text) is not None


def ordinary_width(text: str) -> str:
    """Return the text with full-width letters, digits and marks as ordinary ones, and half-width kana as full-width kana."""
    return _WIDE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)


def pieces(text: str) -> Iterator[str | list[list[str]]]:
    """Yield the pieces of a text in order: a word as a string, or text in a script without spaces as runs of characters.

    Combining marks stay with their character. Any other sign ends a run.
    """
    for piece in _PIECES.findall(text):
        yield _runs(piece) if _SPACELESS.match(piece) else piece


def _runs(piece: str) -> list[list[str]]:
    runs: list[list[str]] = [[]]
    for character in piece:
        if character.isalnum():
            runs[-1].append(character)
        elif not unicodedata.category(character).startswith("M"):
            runs.append([])
        elif runs[-1]:
            runs[-1][-1] += character
    return runs


def without_punctuation(text: str) -> str:
    """Return the text without punctuation in any script (Unicode categories P*)."""
    return "".join(character for character in text if not unicodedata.category(character).startswith("P"))
