"""Generator of the shop's catalogue and of the customers' wishes."""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.core.seeding import generator
from agentgym.envs.shop.catalogue import Catalogue, Product
from agentgym.envs.shop.lexicon import Kind, lexicon
from agentgym.envs.shop.score import Goal, score

SIZE = 5000
"""Number of products in the smallest full catalogue."""
NO_CAP = 1_000_000.0
DRAWS = 30
"""Maximum number of wishes drawn to find one that shortcut policies cannot use; else the least helpful one is used."""
WISHES = (
    "i am looking for {what}",
    "i need {what}",
    "find me {what}",
    "i would like to buy {what}",
    "i want {what}",
    "please show me {what}",
)
CONSONANTS, VOWELS = "BCDFGHJKLMNPRSTVWXYZ", "AEIOU"


@lru_cache(maxsize=4)
def catalogue(size: int) -> Catalogue:
    """Return the generated catalogue of at least `size` products, equal on every machine."""
    rng = generator("shop", size)
    products: list[Product] = []
    kinds = [(name, product) for name, kind in lexicon().kinds.items() for product in kind.types]
    while len(products) < size:
        kind, product = kinds[len(products) // 5 % len(kinds)]
        products += _family(rng, kind, product, len(products))
    return Catalogue([products[int(number)] for number in rng.permutation(len(products))])


def _family(rng: np.random.Generator, kind: str, product: str, number: int) -> list[Product]:
    """Return five similar products, each of which differs in an attribute, a price or an option."""
    table: Kind = lexicon().kinds[kind]
    brands = lexicon().brands
    attributes = _pick(rng, table.attributes, int(rng.integers(5, 8)))
    brand, group = brands[int(rng.integers(len(brands)))], _pick(rng, table.groups, 1)[0]
    price = round(math.exp(rng.uniform(math.log(6), math.log(240))), 2)
    choices = {name: _pick(rng, values, int(rng.integers(2, len(values) + 1))) for name, values in table.options.items()}
    offered = _pick(rng, list(choices), int(rng.integers(1, len(choices) + 1))) if rng.random() < 0.9 else []
    products: list[Product] = []
    for twin in range(5):
        own = list(attributes)
        if twin:
            others = [word for word in table.attributes if word not in own]
            own[int(rng.integers(len(own)))] = others[int(rng.integers(len(others)))]
        own = _pick(rng, own, len(own))
        low = round(price * float(rng.uniform(0.8, 1.3)), 2)
        spread = rng.random() < 0.2
        options = {
            name: tuple(_pick(rng, choices[name], max(2, len(choices[name]) - int(rng.integers(2))))) for name in offered
        }
        first = ", ".join(word.title() for word in own[:2])
        products.append(
            Product(
                asin=_asin(number + twin),
                title=f"{brand} {product.title()}, {first}, for {group}",
                category=kind,
                query=product,
                product_category=f"{table.path.format(group=group)} › {product.title()}",
                description=f"{product.title()} by {brand}: {own[0]} and {own[1]}, made for every day.",
                bullets=tuple(f"{word.capitalize()}." for word in own[2:]),
                price=round(low * float(rng.uniform(1.0, 1.4)), 2) if spread else low,
                price_tag=f"${low:.2f} to ${round(low * 1.4, 2):.2f}" if spread else f"${low:.2f}",
                options=options,
                attributes=tuple(own),
            )
        )
    return products


def goal_of(rng: np.random.Generator, shop: Catalogue, difficulty: int) -> dict[str, object]:
    """Return a wish that a product of the catalogue fulfills; higher difficulty adds attributes and options.

    In catalogues of at least SIZE products, the wish is the one, of up to DRAWS, that helps shortcut policies least: as
    a rule, the first result of a search for the wish does not fulfill the wish.
    """
    wish = _wish(rng, shop, difficulty)
    best, least = wish, (True, len(shop.products), True)
    for _ in range(DRAWS if len(shop.products) >= SIZE else 0):
        helped = _helped(shop, wish)
        if helped < least:
            best, least = wish, helped
        if not any(helped):
            break
        wish = _wish(rng, shop, difficulty)
    return best


def _wish(rng: np.random.Generator, shop: Catalogue, difficulty: int) -> dict[str, object]:
    product = shop.products[int(rng.integers(len(shop.products)))]
    attributes = _pick(rng, list(product.attributes), min(1 + difficulty, len(product.attributes)))
    names = sorted(_pick(rng, list(product.options), min(1 + difficulty, len(product.options))))
    options = [(name, product.options[name][int(rng.integers(len(product.options[name])))]) for name in names]
    cap = price_cap(rng, product.price)
    wish = WISHES[int(rng.integers(len(WISHES)))].format(what=f"{', '.join(attributes)} {product.query}")
    options_text = ", and ".join(f"{name}: {value}" for name, value in options)
    text = f"{wish}{f' with {options_text}' if options else ''}{price_sentence(cap)}"
    return {"asin": product.asin, "text": text, "attributes": attributes, "options": options, "cap": cap}


def _helped(shop: Catalogue, wish: dict[str, Any]) -> tuple[bool, int, bool]:
    """Return how much a wish helps shortcut policies that choose a result by rank; lower is less.

    The parts: True if the first result is right, the number of right results among the first five beyond one, and True
    if the wanted product's title contains none of the wished attributes.
    """
    target = shop.by_asin[wish["asin"].lower()]
    goal = Goal(wish["asin"], wish["text"], tuple(wish["attributes"]), tuple(wish["options"]), wish["cap"])
    top = [shop.by_asin[asin] for asin in shop.search(plain(wish["text"]).lower())[:5]]
    right: list[bool] = []
    for product in top:
        options = {name: value for name, value in wish["options"] if value in product.options.get(name, ())}
        right.append(score(product, target, goal, options)["score"] == 1)
    reveals = any(attribute in target.title.lower() for attribute in wish["attributes"])
    return right[0], max(sum(right) - 1, 0), not reveals


def plain(text: str) -> str:
    """Return a text without brackets, which would end the search command."""
    return " ".join(re.sub(r"[\[\]]", " ", text).split())


def price_cap(rng: np.random.Generator, price: float) -> float:
    """Return a maximum price in dollars as in WebShop: the larger of two random ones of the next four multiples of ten.

    Multiples end at 990, so prices from 980 dollars on have no maximum price (NO_CAP).
    """
    above = [10.0 * number for number in range(1, 100) if 10 * number > price][:4]
    return max(above[int(i)] for i in rng.choice(len(above), 2, replace=False)) if len(above) >= 2 else NO_CAP


def price_sentence(cap: float) -> str:
    """Return the wish's phrase for the maximum price; empty if there is none."""
    return "" if cap >= NO_CAP else f", and price lower than {cap:.2f} dollars"


def _pick(rng: np.random.Generator, values: Sequence[str], count: int) -> list[str]:
    return [values[int(i)] for i in rng.permutation(len(values))[:count]]


def _asin(number: int) -> str:
    """Return a unique product id of ten characters.

    It contains four syllables, and in a small catalogue only the last ones differ. Tokenizers split such ids into fewer
    pieces than random letters and digits, so models copy them without errors.
    """
    syllables = ""
    for _ in range(4):
        number, place = divmod(number, 100)
        place = (place * 37 + 11) % 100
        syllables = f"{CONSONANTS[place // 5]}{VOWELS[place % 5]}{syllables}"
    return f"B0{syllables}"
