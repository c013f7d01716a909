"""Verifiers of short text answers: exact match and token F1, normalised as SQuAD does."""

import re
import string
from collections import Counter
from collections.abc import Iterable

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalise(text: str) -> str:
    """Return the text in lower case, without ASCII punctuation and articles, with single spaces (SQuAD 1.1)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golds: Iterable[str]) -> float:
    """Return 1.0 if the answer equals one of the gold answers after normalisation, else 0.0.

    A gold answer of which normalisation leaves nothing (`+`, `The`) must be matched as it is written, case aside:
    otherwise any full stop would be as good. Here SQuAD's own script is more generous.
    """
    given = normalise(answer)
    for gold in golds:
        wanted = normalise(gold)
        if given == wanted if wanted else answer.strip().casefold() == gold.strip().casefold():
            return 1.0
    return 0.0


def f1(answer: str, golds: Iterable[str]) -> float:
    """Return the best harmonic mean of word precision and recall over the gold answers, from 0 to 1 (SQuAD 1.1)."""
    return max((_f1(normalise(answer).split(), normalise(gold).split()) for gold in golds), default=0.0)


def _f1(given: list[str], wanted: list[str]) -> float:
    shared = sum((Counter(given) & Counter(wanted)).values())
    return 2 * shared / (len(given) + len(wanted)) if shared else 0.0
