"""Scoring of a purchase: WebShop's formula (Yao et al. 2022, arXiv 2207.01206, section 3.2), part by part."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz import fuzz, utils

from agentgym.envs.shop.catalogue import Product
from agentgym.envs.shop.lexicon import lexicon

ALIKE = 85
"""Token set ratio (0 to 100) above which two texts count as equal."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The product to buy."""

    asin: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str] | str, ...]
    """Wanted options: (name, value) pairs for synthetic goals, values alone for human ones."""
    price_cap: float
    """Maximum price in dollars, inclusive; NO_CAP if the wish has none."""


def score(bought: Product, target: Product, goal: Goal, options_taken: Mapping[str, str]) -> dict[str, float]:
    """Return the reward of a purchase as `score`, and the parts it is computed from, each from 0 to 1."""
    attributes = sum(_has(bought, attribute) for attribute in goal.attributes)
    options = _matched(list(options_taken.values()), goal.options)
    price = float(bought.price <= goal.price_cap)
    kind = kind_score(bought, target)
    whole = kind * (attributes + options + price) / (len(goal.attributes) + len(goal.options) + 1)
    return {
        "score": whole,
        "type": kind,
        "attributes": attributes / len(goal.attributes) if goal.attributes else 1.0,
        "options": options / len(goal.options) if goal.options else 1.0,
        "price": price,
    }


def kind_score(bought: Product, target: Product) -> float:
    """Return the score for the kind of product: 1, 0.5, 0.1 or 0.

    Let f be the fraction of the target title's nouns that occur in the bought title. The score is 0 if f = 0, and 0.1 if
    f < 0.1. Otherwise it is 1 if f > 0.2, or if the products share the query or two parts of the category path, else 0.5.
    """
    title = _title_score(bought.title, target.title)
    shared = set(_path(bought)) & set(_path(target))
    kind = 1.0 if bought.query == target.query or len(shared) >= 2 or title > 0.2 else 0.5
    if title < 0.1:
        kind = 0.1
    return 0.0 if title == 0 else kind


def _path(product: Product) -> list[str]:
    return [part.strip() for part in product.product_category.split("›")]


def _title_score(bought: str, target: str) -> float:
    """Return the fraction of the nouns in `target` that occur in `bought`; 0.2 if `target` has no nouns."""
    nouns = nouns_of(target)
    return len(nouns & nouns_of(bought)) / len(nouns) if nouns else 0.2


@lru_cache(maxsize=100_000)
def nouns_of(title: str) -> frozenset[str]:
    """Return the nouns of a title: all words except those on a fixed list (WebShop uses spaCy)."""
    return frozenset(word for word in re.findall(r"[^\W\d_]{2,}", title.lower()) if word not in lexicon().no_nouns)


def _has(product: Product, attribute: str) -> bool:
    if any(alike(own, attribute) for own in product.attributes):
        return True
    text = attribute.lower()
    return any(text in place.lower() for place in (product.title, " ".join(product.bullets), product.description))


def _matched(chosen: Sequence[str], targets: Sequence[tuple[str, str] | str]) -> int:
    """Return the number of wanted options that the chosen values match."""
    colours = [plain_colour(value) for value in chosen]
    matches = 0
    for option in targets:
        text = plain_colour(option) if isinstance(option, str) else _pair(option)
        matches += any(alike(value, text) for value in colours)
    return matches


def _pair(option: tuple[str, str]) -> str:
    """Return an option as WebShop compares it: a color if name or value is one, else name and value."""
    return next((colour for colour in lexicon().colours if colour in option), " ".join(option))


@lru_cache(maxsize=50_000)
def plain_colour(text: str) -> str:
    """Return the first color in the vocabulary that occurs in a text; if there is none, the text."""
    return next((colour for colour in lexicon().colours if colour in text), text)


@lru_cache(maxsize=200_000)
def alike(text: str, other: str) -> bool:
    """Return whether two texts count as equal (thefuzz's `token_set_ratio`, rounded)."""
    return round(fuzz.token_set_ratio(text, other, processor=utils.default_process)) > ALIKE
