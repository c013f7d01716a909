"""Text analysis for the checkers: words, sentences, language; packages are imported on demand."""

import importlib.util
import os
import re
import string
from collections.abc import Callable
from functools import cache
from typing import Any

NEEDS: dict[str, tuple[str, str]] = {
    # need: (package, nltk resource)
    "langdetect": ("langdetect", ""),
    "sentence tokenizer": ("nltk", "tokenizers/punkt_tab"),
    "tagger": ("nltk", "taggers/averaged_perceptron_tagger_eng"),
    "stop words": ("nltk", "corpora/stopwords"),
    "emoji": ("emoji", ""),
    "syllapy": ("syllapy", ""),
}
_BARE = str.maketrans("", "", string.punctuation)
_EDGE = string.punctuation + " "
_DOT, _STOP = "\ue000", "\ue001"
"""Private-use characters that mark a dot within a sentence, and the end of a sentence."""
_STARTERS = r"(?:Mr|Mrs|Ms|Dr|Prof|Capt|Cpt|Lt|(?:He|She|It|They|Their|Our|We|But|However|That|This)\s|Wherever)"
_RULES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"(Mr|St|Mrs|Ms|Dr)\.", rf"\1{_DOT}"),
    (r"\.(com|net|org|io|gov|edu|me)", rf"{_DOT}\1"),
    (r"([0-9])\.([0-9])", rf"\1{_DOT}\2"),
    (r"\.{2,}", lambda dots: _DOT * len(dots[0]) + _STOP),
    (r"Ph\.D\.", f"Ph{_DOT}D{_DOT}"),
    (r"\s([A-Za-z])\. ", rf" \1{_DOT} "),
    (rf"([A-Z]\.[A-Z]\.(?:[A-Z]\.)?) (?={_STARTERS})", rf"\1{_STOP} "),
    (r"([A-Za-z])\.([A-Za-z])\.([A-Za-z])\.", rf"\1{_DOT}\2{_DOT}\3{_DOT}"),
    (r"([A-Za-z])\.([A-Za-z])\.", rf"\1{_DOT}\2{_DOT}"),
    (rf" (Inc|Ltd|Jr|Sr|Co)\. (?={_STARTERS})", rf" \1{_STOP} "),
    (r" (Inc|Ltd|Jr|Sr|Co)\.", rf" \1{_DOT}"),
    (r" ([A-Za-z])\.", rf" \1{_DOT}"),
    (r"\.(”)", r"\1."),
    (r'([.!?])(")', r"\2\1"),
    (r"([.?!])", rf"\1{_STOP}"),
)
"""Substitutions in order: protect dots within sentences, move marks behind closing quotes, mark the ends of sentences."""


def missing(need: str) -> str:
    """Return an error text with the install command if the package or resource `need` is missing; else an empty string."""
    package, resource = NEEDS[need]
    if importlib.util.find_spec(package) is None:
        return (
            f"needs the {need} of {package}: pip install {package}"
            if resource
            else f"needs {package}: pip install {package}"
        )
    if resource and not _has(resource):
        return f"needs the {need} of nltk: python -m nltk.downloader {resource.partition('/')[2]}"
    return ""


def _has(resource: str) -> bool:
    try:
        _package("nltk.data").find(resource)
    except LookupError:
        return False
    return True


def _package(name: str) -> Any:
    return importlib.import_module(name)


def bare(text: str) -> str:
    """Return a text without ASCII punctuation."""
    return text.translate(_BARE)


def trimmed(text: str) -> str:
    """Return a text without ASCII punctuation and spaces at its ends."""
    return text.strip(_EDGE)


def plain(text: str) -> str:
    """Return a text without accents, and without letters that have no ASCII form."""
    import unicodedata

    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def count_words(text: str) -> int:
    """Return the number of runs of letters, digits and underscores."""
    return len(re.findall(r"\w+", text))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, split at final punctuation but not within abbreviations and numbers."""
    text = f" {text}  ".replace("\n", " ")
    for pattern, replacement in _RULES:
        text = re.sub(pattern, replacement, text)
    parts = [part.strip() for part in text.replace(_DOT, ".").split(_STOP)]
    return parts if parts[-1] else parts[:-1]


def count_sentences(text: str) -> int:
    """Return the number of sentences found by nltk's tokenizer."""
    return len(_package("nltk").sent_tokenize(text))


def tokens(text: str) -> list[str]:
    """Return words and punctuation as separated by nltk's tokenizer."""
    return list(_package("nltk").word_tokenize(text))


def begins_with_verb(text: str) -> bool:
    """Return True if nltk's tagger tags the first token as a verb; the tagger looks two tokens ahead."""
    words = tokens(text)[:4]
    return bool(words) and "VB" in _package("nltk").pos_tag(words)[0][1]


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(_package("nltk.corpus").stopwords.words("english"))


def count_stop_words(text: str) -> int:
    """Return the number of words of a text that are in nltk's English list of stop words."""
    return sum(word.lower() in _stop_words() for word in re.findall(r"\w+", text))


@cache
def _detectors() -> Any:
    factory = _package("langdetect.detector_factory")
    detectors = factory.DetectorFactory()
    detectors.load_profile(os.fspath(factory.PROFILES_DIRECTORY))
    detectors.set_seed(0)  # unseeded, it is random and may name different languages for the same text
    return detectors


def language(text: str) -> str | None:
    """Return the code of a text's language; None for a text without letters, which fits any language."""
    detector = _detectors().create()
    detector.append(text)
    try:
        return str(detector.detect())
    except _package("langdetect").LangDetectException:
        return None


def is_emoji(character: str) -> bool:
    """Return True if a character is an emoji."""
    return bool(_package("emoji").is_emoji(character))


def syllables(word: str) -> int:
    """Return the number of syllables of a word."""
    return int(_package("syllapy").count(word))
