"""Verifiers of short text answers: exact match and token F1.

Both metrics normalize as SQuAD does, and also strip the punctuation of every script; in scripts without spaces each
character is a word. With `normal=normalise` they equal SQuAD's metrics, for protocols that require these.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable

from agentgym.core.scripts import ordinary_width, pieces, spaceless, without_punctuation

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ARTICLE_WORDS = frozenset(("a", "an", "the"))


def normalise(text: str) -> str:
    """Return the text in lower case, without ASCII punctuation and articles, with single spaces (SQuAD 1.1)."""
    bare = text.lower().translate(_PUNCTUATION)
    if bare.isascii() and bare.isprintable():  # words end at spaces alone
        return " ".join([word for word in bare.split() if word not in _ARTICLE_WORDS])
    return " ".join(_ARTICLES.sub(" ", bare).split())


def normalise_scripts(text: str) -> str:
    """Like `normalise`, but strip the punctuation of every script, and separate the characters of scripts without spaces."""
    if text.isascii():
        return normalise(text)
    normal = normalise(without_punctuation(ordinary_width(text)))
    return " ".join(_parted(normal)) if spaceless(normal) else normal


def _parted(text: str) -> Iterable[str]:
    for word in text.split():
        for piece in pieces(word) if spaceless(word) else (word,):
            yield from (piece,) if isinstance(piece, str) else (character for run in piece for character in run)


def exact_match(answer: str, golds: Iterable[str], *, normal: Callable[[str], str] = normalise_scripts) -> float:
    """Return 1.0 if the answer equals one of the gold answers after normalization, else 0.0.

    A gold answer that normalizes to nothing (`+`, `The`) must be matched as written, ignoring case; otherwise an answer of
    only punctuation would match. SQuAD's own script is more lenient here.
    """
    answer_words = normal(answer)
    for gold in golds:
        gold_words = normal(gold)
        if answer_words == gold_words if gold_words else answer.strip().casefold() == gold.strip().casefold():
            return 1.0
    return 0.0


def f1(answer: str, golds: Iterable[str], *, normal: Callable[[str], str] = normalise_scripts) -> float:
    """Return the harmonic mean of word precision and recall, from 0 to 1, for the best gold answer (SQuAD 1.1)."""
    return max((_f1(normal(answer).split(), normal(gold).split()) for gold in golds), default=0.0)


def _f1(answer: list[str], gold: list[str]) -> float:
    shared = sum((Counter(answer) & Counter(gold)).values())
    return 2 * shared / (len(answer) + len(gold)) if shared else 0.0
