"""The words of all sites: names of people, things and places, and sentences made of them."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

_FOUND: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
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
_Item = TypeVar("_Item")


def pick(rng: np.random.Generator, items: Sequence[_Item]) -> _Item:
    """Return one of the items."""
    return items[int(rng.integers(len(items)))]


def sentence(rng: np.random.Generator) -> str:
    """Return a sentence about nothing."""
    adjective, other = pick(rng, ADJECTIVES), pick(rng, ADJECTIVES)
    noun, second = pick(rng, NOUNS), pick(rng, NOUNS)
    verb, third = pick(rng, VERBS), pick(rng, VERBS)
    text = pick(rng, _PATTERNS).format(a=adjective, a2=other, n=noun, n2=second, v=verb, v2=third)
    for vowel in "aeiou":
        text = text.replace(f" a {vowel}", f" an {vowel}").replace(f"A {vowel}", f"An {vowel}")
    return text


def paragraph(rng: np.random.Generator, sentences: int) -> str:
    """Return so many sentences in a row."""
    return " ".join(sentence(rng) for _ in range(sentences))
