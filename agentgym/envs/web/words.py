"""Vocabulary of all sites: names of people, objects and places, and sentences made of them."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

_FOUND = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FIRST_NAMES: list[str] = _FOUND["first_names"].split()
LAST_NAMES: list[str] = _FOUND["last_names"].split()
COLOURS: list[str] = _FOUND["colours"].split()
ANIMALS: list[str] = _FOUND["animals"].split()
ADJECTIVES: list[str] = _FOUND["adjectives"].split()
PLACES: list[str] = _FOUND["places"].split()
TOPICS: list[str] = _FOUND["topics"].split()
NOUNS: list[str] = _FOUND["nouns"].split()
VERBS: list[str] = _FOUND["verbs"].split()
_PATTERNS: list[str] = _FOUND["patterns"]
_BEFORE_VOWEL = re.compile(r"\b([Aa]) (?=[aeiou])")
_Item = TypeVar("_Item")


def pick(rng: np.random.Generator, items: Sequence[_Item]) -> _Item:
    """Return a random item."""
    return items[int(rng.integers(len(items)))]


def sentence(rng: np.random.Generator) -> str:
    """Return a meaningless random sentence."""
    drawn = int(rng.integers(2**62))  # one draw for all words, since sites have thousands of sentences

    def one(items: Sequence[str]) -> str:
        nonlocal drawn
        drawn, at = divmod(drawn, len(items))
        return items[at]

    pattern, fillings = (
        one(_PATTERNS),
        {"a": one(ADJECTIVES), "a2": one(ADJECTIVES), "n": one(NOUNS), "n2": one(NOUNS)},
    )
    return with_articles(pattern.format(v=one(VERBS), v2=one(VERBS), **fillings))


def with_articles(text: str) -> str:
    """Return a text with "an" instead of "a" before vowels."""
    return _BEFORE_VOWEL.sub(r"\1n ", text)


def paragraph(rng: np.random.Generator, sentences: int) -> str:
    """Return a paragraph of `sentences` random sentences."""
    return " ".join(sentence(rng) for _ in range(sentences))
