"""Task families that change the shop's cart, orders, reviews, addresses and wish list."""

from typing import Any

import numpy as np

from agentgym.envs.web import words
from agentgym.envs.web.family import Ask, Made, NoSubject, TaskFamily, absent, change_data, every_page
from agentgym.envs.web.formats import money
from agentgym.envs.web.plan import Click, Fill, Goto, ImpossibleTask, Plan, Select
from agentgym.envs.web.sites.shop.data import CATEGORIES, LABELS, SHIPPING, postcode, product_name, street
from agentgym.envs.web.sites.shop.questions import SHOP, open_product
from agentgym.envs.web.state import EpisodeState, choose


def add_to_cart(items: list[list[Any]]) -> Plan:
    """Put products (name, quantity) into the cart if all are available.

    Raises:
        ImpossibleTask: a product is missing from the shop or has too little stock.
    """
    for name, quantity in items:
        page = yield from open_product(name)
        if int(page.fact("In stock")) < quantity:
            raise ImpossibleTask
    for name, quantity in items:
        yield from open_product(name)
        yield Fill("Quantity", str(quantity))
        yield Click("button", "Add to cart")


def put_into_cart(state: EpisodeState, items: list[list[object]]) -> None:
    """Insert products (name, quantity) into the cart."""
    for name, quantity in items:
        state.change("shop", "INSERT INTO cart SELECT id, ? FROM product WHERE name = ?", quantity, name)


def draw_items(rng: np.random.Generator, state: EpisodeState, count: int, possible: bool) -> list[list[Any]]:
    """Draw distinct products with quantities; if not `possible`, one quantity exceeds the stock.

    Raises:
        NoSubject: `possible` is False, and no product beyond the drawn ones has fewer than five in stock.
    """
    rows = choose(rng, state.rows("shop", "SELECT name, stock FROM product WHERE stock > 0 ORDER BY id"), count)
    items = [[row["name"], int(rng.integers(1, int(min(row["stock"], 5)) + 1))] for row in rows]
    if not possible:
        gone = state.rows("shop", "SELECT name, stock FROM product WHERE stock < 5 ORDER BY id")
        few = [row for row in gone if row["name"] not in [name for name, _ in items]]
        if not few:
            raise NoSubject
        row = words.pick(rng, few)
        items[int(rng.integers(len(items)))] = [row["name"], int(rng.integers(int(row["stock"]) + 1, 6))]
    return items


def spoken(items: list[list[object]]) -> str:
    """Return products with their quantities as a phrase."""
    return ", ".join(f"{quantity} × {name}" for name, quantity in items)


class FillCart(TaskFamily):
    """Put products into the cart."""

    name = "shop-cart"
    sites = ("shop",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        items = draw_items(rng, state, 1 + difficulty, possible)
        return f"Put this into my cart in the shop: {spoken(items)}.", change_data({"items": items})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        put_into_cart(state, ask["items"])

    def solve(self, ask: Ask) -> Plan:
        yield from add_to_cart(ask["items"])


class Buy(TaskFamily):
    """Order products for delivery to an address."""

    name = "shop-buy"
    sites = ("shop",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        labels = [row["label"] for row in state.rows("shop", "SELECT label FROM address ORDER BY id")]
        wrong_label = bool(rng.random() < 0.5)
        items = draw_items(rng, state, 1 + difficulty // 2, possible or wrong_label)
        label = words.pick(rng, labels)
        if not possible and wrong_label:
            label = absent(labels, lambda: words.pick(rng, LABELS))
        shipping, message = words.pick(rng, list(SHIPPING)), words.sentence(rng) if rng.random() < 0.5 else ""
        text = f"Order this in the shop: {spoken(items)}. Send it to my address labelled {label} by {shipping} shipping"
        text += f', with the message "{message}".' if message else ", without a message."
        ask = {"items": items, "label": label, "shipping": shipping, "message": message}
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        place = state.rows("shop", "SELECT street, city, postcode FROM address WHERE label = ?", ask["label"])[0]
        values = (f"{state.now:%Y-%m-%d}", "Processing", ", ".join(place), ask["shipping"], ask["message"])
        state.change("shop", "INSERT INTO purchase VALUES (NULL, ?, ?, ?, ?, ?)", *values)
        id = state.one("shop", "SELECT max(id) FROM purchase")
        for name, quantity in ask["items"]:
            sql = "INSERT INTO line SELECT ?, id, ?, price FROM product WHERE name = ?"
            state.change("shop", sql, id, quantity, name)
            state.change("shop", "UPDATE product SET stock = stock - ? WHERE name = ?", quantity, name)

    def solve(self, ask: Ask) -> Plan:
        page = yield Goto(f"{SHOP}/addresses")
        place = next((row for row in page.records("Label") if row["Label"] == ask["label"]), None)
        if place is None:
            raise ImpossibleTask
        yield from add_to_cart(ask["items"])
        yield Goto(f"{SHOP}/checkout")
        yield Select("Address", f"{place['Label']}: {place['Street']}, {place['City']}")
        yield Select("Shipping method", f"{ask['shipping']} ({money(SHIPPING[ask['shipping']])})")
        if ask["message"]:
            yield Fill("Message for the parcel", ask["message"])
        yield Click("button", "Place order")


class Cancel(TaskFamily):
    """Cancel the order that contains a product."""

    name = "shop-cancel"
    sites = ("shop",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows(
            "shop",
            "SELECT product.name, purchase.id FROM line JOIN product ON product.id = product JOIN purchase ON "
            "purchase.id = purchase WHERE (status = 'Processing') = ? AND status <> 'Cancelled' AND "
            "(SELECT count(*) FROM line AS other WHERE other.product = product.id) = 1 ORDER BY product.id",
            possible,
        )
        if not rows:
            raise NoSubject
        product = words.pick(rng, rows)["name"]
        return f"Cancel my order in the shop that contains the product {product}.", change_data({"product": product})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        order = state.one(
            "shop", "SELECT purchase FROM line JOIN product ON product.id = product WHERE name = ?", ask["product"]
        )
        state.change("shop", "UPDATE purchase SET status = 'Cancelled' WHERE id = ?", order)
        for row in state.rows("shop", "SELECT product, quantity FROM line WHERE purchase = ?", order):
            state.change("shop", "UPDATE product SET stock = stock + ? WHERE id = ?", row["quantity"], row["product"])

    def solve(self, ask: Ask) -> Plan:
        orders = yield from every_page((yield Goto(f"{SHOP}/orders")), "Order")
        for row in orders:
            if row["Status"] == "Processing":
                page = yield Goto(f"{SHOP}/orders/{row['Order']}")
                if page.has("link", ask["product"]):
                    yield Click("button", "Cancel order")
                    return
        raise ImpossibleTask


class Review(TaskFamily):
    """Review a product."""

    name = "shop-review"
    sites = ("shop",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        names = [row["name"] for row in state.rows("shop", "SELECT name FROM product ORDER BY id")]
        name = words.pick(rng, names)
        if not possible:
            name = absent(names, lambda: product_name(rng, words.pick(rng, list(CATEGORIES))))
        title, body = words.sentence(rng).removesuffix("."), words.paragraph(rng, 1 + difficulty)
        ask = {"product": name, "stars": int(rng.integers(1, 6)), "title": title, "body": body}
        text = f"Review the product {name} in the shop with {ask['stars']} out of 5 stars, "
        text += f'the title "{title}" and the text "{body}"'
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = "INSERT INTO review SELECT NULL, id, ?, ?, ?, ?, ? FROM product WHERE name = ?"
        today = f"{state.now:%Y-%m-%d}"
        state.change("shop", sql, state.me.username, ask["stars"], ask["title"], ask["body"], today, ask["product"])

    def solve(self, ask: Ask) -> Plan:
        yield from open_product(ask["product"])
        yield Click("link", "Write a review")
        yield Select("Stars", f"{ask['stars']} star{'s' * (ask['stars'] > 1)}")
        yield Fill("Title", ask["title"])
        yield Fill("Review", ask["body"])
        yield Click("button", "Save review")


class ChangeAddress(TaskFamily):
    """Change parts of an address."""

    name = "shop-address"
    sites = ("shop",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows("shop", "SELECT label, city FROM address ORDER BY id")
        label, city = words.pick(rng, rows)
        if not possible:
            label = absent([row["label"] for row in rows], lambda: words.pick(rng, LABELS))
        city = absent([city], lambda: words.pick(rng, words.PLACES))
        news = {"Street": street(rng), "City": city, "Postcode": postcode(rng)}
        parts = choose(rng, sorted(news), min(1 + difficulty, 3))
        change = {part: news[part] for part in sorted(parts)}
        phrase = " and ".join(f"the {part.lower()} to {value}" for part, value in change.items())
        return f"In the shop, in my address labelled {label}, change {phrase}.", change_data(
            {"label": label, "change": change}
        )

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        for part, value in ask["change"].items():
            state.change("shop", f"UPDATE address SET {part.lower()} = ? WHERE label = ?", value, ask["label"])

    def solve(self, ask: Ask) -> Plan:
        page = yield Goto(f"{SHOP}/addresses")
        if all(row["Label"] != ask["label"] for row in page.records("Label")):
            raise ImpossibleTask
        yield Click("link", "Edit", row=ask["label"])
        for part, value in ask["change"].items():
            yield Fill(part, value)
        yield Click("button", "Save address")


class ClearWishes(TaskFamily):
    """Remove all products above a price, or all products of a category, from the wish list."""

    name = "shop-wishes"
    sites = ("shop",)
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        rows = state.rows("shop", "SELECT product.* FROM wish JOIN product ON product.id = product ORDER BY price, name")
        if rng.random() < 0.5:
            limit = words.pick(rng, rows[: len(rows) - 1])["price"] + 100
            ask = {"above": limit, "category": ""}
            gone = [row["name"] for row in rows if row["price"] > limit]
            text = f"costs more than {money(limit)}"
        else:
            category = words.pick(rng, rows)["category"]
            ask = {"above": 0, "category": category}
            gone = [row["name"] for row in rows if row["category"] == category]
            text = f"is of the category {category}"
        if not gone:
            raise NoSubject
        return f"Take everything off my wish list in the shop that {text}.", change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = "DELETE FROM wish WHERE product IN (SELECT id FROM product WHERE category = ? OR (? > 0 AND price > ?))"
        state.change("shop", sql, ask["category"], ask["above"], ask["above"])

    def solve(self, ask: Ask) -> Plan:
        page = yield Goto(f"{SHOP}/wishlist")
        for row in page.records("Product"):
            price = round(float(row["Price"].replace("$", "").replace(",", "")) * 100)
            if row["Category"] == ask["category"] or 0 < ask["above"] < price:
                yield Click("button", "Remove", row=row["Product"])


class OrderAgain(TaskFamily):
    """Put all products of an old order into the cart."""

    name = "shop-again"
    sites = ("shop",)

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        sql = """SELECT purchase.id, max(quantity > stock) AS short FROM purchase JOIN line ON purchase = purchase.id
            JOIN product ON product.id = product GROUP BY purchase.id HAVING count(*) >= ? ORDER BY purchase.id"""
        rows = [row for row in state.rows("shop", sql, min(1 + difficulty, 3)) if bool(row["short"]) != possible]
        if not rows:
            raise NoSubject
        order = str(words.pick(rng, rows)["id"])
        text = f"Put everything that was in my order {order} into my cart in the shop again, in the same quantities."
        return text, change_data({"order": order})

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = "INSERT INTO cart SELECT product, quantity FROM line WHERE purchase = ?"
        state.change("shop", sql, int(ask["order"]))

    def solve(self, ask: Ask) -> Plan:
        page = yield Goto(f"{SHOP}/orders/{ask['order']}")
        items: list[list[object]] = [[row["Product"], int(row["Quantity"])] for row in page.records("Product")]
        yield from add_to_cart(items)
