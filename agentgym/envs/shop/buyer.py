"""Policies of the shop: the oracle, the expert, and shortcut policies."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentgym.envs.shop.catalogue import Product
from agentgym.envs.shop.generate import plain

if TYPE_CHECKING:
    from agentgym.envs.shop.env import Shop

PAGES = 3
"""Maximum number of result pages that the expert visits."""
_OPENING = re.compile(r"^(?:i am looking for|i need|find me|i would like to buy|i want|please show me) ")
_CAP = re.compile(r",? and price lower than (\d+(?:\.\d+)?) dollars\.?$")
_PRICE = re.compile(r"\$(\d+(?:\.\d+)?)")


def oracle(shop: "Shop") -> Iterator[str]:
    """Yield the actions that buy the wanted product, from any state."""
    target = shop.shop.by_asin[shop.goal.asin.lower()]
    if shop.product is not target:
        asin, title, number = target.asin.lower(), plain(target.title), shop.number
        products = shop.shop.search(shop.keywords) if shop.page == "results" else ()
        if asin not in products:
            yield f"search[{title}]"
            products, number = shop.shop.search(title.lower()), 1
        page = products.index(asin) // shop.per_page + 1
        yield from ["click[next >]"] * (page - number) or ["click[< prev]"] * (number - page)
        yield f"click[{asin}]"
    elif shop.page == "sub":
        yield "click[< prev]"
    selected = shop.options_taken if shop.product is target else {}
    for option in shop.goal.options:
        pairs = (
            [option]
            if isinstance(option, tuple)
            else [(n, v) for n, vs in target.options.items() for v in vs if v == option]
        )
        for name, value in pairs[:1]:
            if selected.get(name) != value:
                yield f"click[{value}]"
    yield "click[buy now]"


def next_action(shop: "Shop") -> str:
    """Return a careful customer's next action: read product pages, and buy the first product that meets the wish."""
    what, options, cap = read_wish(shop.goal.instruction)
    if shop.page == "search":
        # Repeat the kind of product and name the options, or other kinds with these attributes rank first.
        words = (what.replace(",", ""), what.split()[-1], *(word for pair in options.items() for word in pair))
        return f"search[{plain(' '.join(words))}]"
    if shop.page == "results":
        return _choose(shop, what, cap)
    if shop.page == "sub":
        return "click[< prev]"
    assert shop.product is not None
    text, asin = shop.seen[shop.product.asin], shop.product.asin
    *attributes, last = what.split(", ")
    missing = [term for term in (*attributes, *last.split()) if term not in text]
    hurry = shop.turn + len(options) + 2 >= shop.limit
    if not hurry and any(value not in shop.product.options.get(name, ()) for name, value in options.items()):
        return "click[< prev]"  # visible at a glance, so before reading
    if missing and not hurry:
        return "click[features]" if "\nfeatures: " not in shop.seen[asin] else "click[< prev]"
    for name, value in options.items():
        if shop.options_taken.get(name) != value and value in shop.product.options.get(name, ()):
            return f"click[{value}]"
    return "click[buy now]"


def _choose(shop: "Shop", what: str, cap: float) -> str:
    """Return a click on the affordable, unopened product with the best matching title; without one, turn the page.

    On page PAGES, click the first product instead; on an empty page, go back to the search.
    """
    products = [shop.shop.by_asin[asin] for asin in shop.results()]
    left = [product for product in products if product.asin not in shop.seen and _price(product) <= cap]
    if left:
        *attributes, last = what.split(", ")
        words = [*attributes, *last.split()]
        best = max(left, key=lambda product: sum(word in product.title.lower() for word in words))
        return f"click[{best.asin}]"
    if shop.number < PAGES and products:
        return "click[next >]"
    return f"click[{products[0].asin}]" if products else "click[back to search]"


def _price(product: Product) -> float:
    """Return the displayed price, or the lower end of a price range, in dollars; 0 if there is no price."""
    match = _PRICE.search(product.price_tag)
    return float(match[1]) if match else 0.0


def read_wish(text: str) -> tuple[str, dict[str, str], float]:
    """Parse a wish into description, options and maximum price in dollars (infinity if the wish has none).

    In the description, attributes come before the last comma and the product after it.
    """
    cap = _CAP.search(text)
    rest = _OPENING.sub("", text[: cap.start()] if cap else text)
    what, _, wished = rest.partition(" with ")
    pairs = [pair.partition(": ") for pair in re.split(r",? and |, ", wished) if ": " in pair]
    attributes, _, last = what.rpartition(", ")
    words = [*attributes.split(", "), last] if attributes else [last]
    return ", ".join(words), {name: value for name, _, value in pairs}, float(cap[1]) if cap else float("inf")


def first_result(seen: list[str]) -> str:
    """Search for the wish, open the first result and buy it."""
    page = seen[-1].split(" [SEP] ")
    if page[0] == "WebShop":
        return f"search[{plain(page[2])}]"
    asin = next((part for part in page if re.fullmatch(r"[A-Z0-9]{10}", part)), "")
    return f"click[{asin}]" if asin else "click[buy now]"


def second_result(seen: list[str]) -> str:
    """Search for the wish, open the second result, choose the wish's options and buy it."""
    page = seen[-1].split(" [SEP] ")
    if page[0] == "WebShop" or len(page) < 2:
        return first_result(seen)
    products = [part for part in page if re.fullmatch(r"[A-Z0-9]{10}", part)]
    if products:
        return f"click[{products[min(1, len(products) - 1)]}]"
    named = [value for value in read_wish(page[1])[1].values() if value in page]
    clicked = sum("Buy Now" in view for view in seen) - 1
    return f"click[{named[clicked]}]" if clicked < len(named) else "click[buy now]"
