"""Task families that ask about the shop, and the steps shared by all its families."""

import re
import sqlite3
from collections.abc import Generator
from datetime import datetime
from itertools import product

import numpy as np

from agentgym.envs.web import words
from agentgym.envs.web.family import Ask, Made, NoSubject, TaskFamily, absent, contested, every_page, ordinal, question
from agentgym.envs.web.formats import day, money
from agentgym.envs.web.plan import Answer, Click, Fill, Goto, ImpossibleTask, Page, Plan, Select, Step
from agentgym.envs.web.sites.shop.data import CATEGORIES, SHIPPING
from agentgym.envs.web.state import EpisodeState

SHOP = "http://shop.test"
_TOTAL = "(SELECT sum(quantity * price) FROM line WHERE purchase = purchase.id)"
_SENT = f"{_TOTAL} + CASE shipping WHEN 'Express' THEN {SHIPPING['Express']} ELSE 0 END"


def open_product(name: str) -> Generator[Step, Page, Page]:
    """Search for a product and open its page.

    Raises:
        ImpossibleTask: there is no such product.
    """
    yield Goto(f"{SHOP}/products")
    yield Fill("Name contains", name)
    page = yield Click("button", "Apply filters")
    if not page.has("link", name):
        raise ImpossibleTask
    return (yield Click("link", name))


class OrderTotal(TaskFamily):
    """Find the cost of an order."""

    name = "shop-order-total"
    sites = ("shop",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows("shop", f"SELECT id, {_SENT} AS total FROM purchase ORDER BY id")
        row = words.pick(rng, rows)
        known = [str(other["id"]) for other in rows]
        order = str(row["id"])
        if not possible:
            order = absent(known, lambda: str(row["id"] + int(rng.integers(1, 30))))
        text = f"What was the total cost of my order {order} in the shop, shipping included? Answer with the amount."
        return text, question({"order": order}, money(row["total"]))

    def solve(self, ask: Ask) -> Plan:
        orders = yield from every_page((yield Goto(f"{SHOP}/orders")), "Order")
        total = next((row["Total"] for row in orders if row["Order"] == ask["order"]), None)
        if total is None:
            raise ImpossibleTask
        yield Answer(total)


class Spending(TaskFamily):
    """Find the total cost of all orders with a given status that were placed on or after a given day."""

    name = "shop-spending"
    sites = ("shop",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows("shop", f"SELECT day, status, {_SENT} AS total FROM purchase ORDER BY id")
        since = words.pick(rng, rows[: max(1, len(rows) // 2)])["day"]
        status = words.pick(rng, sorted({row["status"] for row in rows if row["day"] >= since}))
        total = sum(row["total"] for row in rows if row["day"] >= since and row["status"] == status)
        text = (
            f'What is the total of my orders in the shop with the status "{status}" that were placed on or after '
            f"{day(since)}, shipping included? Answer with the amount."
        )
        return text, question({"since": since, "status": status}, money(total))

    def solve(self, ask: Ask) -> Plan:
        orders = yield from every_page((yield Goto(f"{SHOP}/orders")), "Order")
        since = datetime.fromisoformat(ask["since"])
        total = sum(
            round(float(row["Total"].replace("$", "").replace(",", "")) * 100)
            for row in orders
            if row["Status"] == ask["status"] and datetime.strptime(row["Date"], "%d %B %Y") >= since
        )
        yield Answer(money(total))


class Cheapest(TaskFamily):
    """Find the cheapest (or second cheapest, and so on) of the products in stock with a given category and color."""

    name = "shop-cheapest"
    sites = ("shop",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows("shop", "SELECT * FROM product WHERE stock > 0 ORDER BY price, name")
        kinds = {kind: list[sqlite3.Row]() for kind in product(CATEGORIES, words.COLOURS[:8])}
        for row in rows:
            kinds[row["category"], row["colour"]].append(row)
        place = contested(rng, [len(group) for group in kinds.values()], 1 + difficulty)
        (category, colour), fits = words.pick(rng, [item for item in kinds.items() if (len(item[1]) >= place) == possible])
        if possible and [row["price"] for row in fits].count(fits[place - 1]["price"]) > 1:
            raise NoSubject
        text = (
            f"Of the {colour} products in the category {category} that are in stock in the shop, which one is the "
            f"{ordinal(place)}cheapest? Answer with its name."
        )
        ask = {"category": category, "colour": colour, "place": place}
        return text, question(ask, fits[place - 1]["name"] if possible else "")

    def solve(self, ask: Ask) -> Plan:
        yield Goto(f"{SHOP}/products")
        yield Select("Category", ask["category"])
        page = yield Select("Sort by", "Price: low to high")
        page = yield Click("checkbox", "In stock only")
        page = yield Click("button", "Apply filters")
        rows = yield from every_page(page, "Product")
        names: list[str] = [row["Product"] for row in rows if row["Colour"] == ask["colour"]]
        place: int = ask["place"]
        if len(names) < place:
            raise ImpossibleTask
        yield Answer(names[place - 1])


_REVIEW = re.compile(r"(\d) of 5 stars, by (.+?), (\d+ \w+ \d{4})")


class Reviewer(TaskFamily):
    """Find the author of a product's latest review with a given number of stars."""

    name = "shop-reviewer"
    sites = ("shop",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        names = {person.username: person.name for person in state.setting.people}
        products = state.rows("shop", "SELECT id, name FROM product WHERE id IN (SELECT product FROM review) ORDER BY id")
        sql = "SELECT * FROM review WHERE product = ? AND stars = ? ORDER BY day DESC"
        product_name, stars = words.pick(rng, products), int(rng.integers(1, 6))
        rows = state.rows("shop", sql, product_name["id"], stars)
        clear = [row["day"] for row in rows].count(rows[0]["day"]) == 1 if rows else False
        if bool(rows) != possible or clear != possible:
            raise NoSubject
        text = (
            f"Who wrote the latest review with {stars} star{'s' * (stars > 1)} of the product {product_name['name']} "
            "in the shop? Answer with the full name."
        )
        writer = names[rows[0]["username"]] if possible else ""
        return text, question({"product": product_name["name"], "stars": stars}, writer)

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_product(ask["product"])
        for article in page.root.all("article"):
            review = _REVIEW.search(" ".join(node.name for node in article.walk()))
            if review and int(review[1]) == ask["stars"]:
                yield Answer(review[2])
        raise ImpossibleTask
