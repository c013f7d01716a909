"""Task families over two of shop, forum and wiki; a fact from one site is needed on the other."""

import numpy as np

from agentgym.envs.web import words
from agentgym.envs.web.family import Ask, Made, NoSubject, TaskFamily, absent, change_data
from agentgym.envs.web.formats import money
from agentgym.envs.web.plan import Click, Fill, Goto, ImpossibleTask, Plan, Select
from agentgym.envs.web.sites.forum.data import title
from agentgym.envs.web.sites.forum.tasks import open_board, open_topic
from agentgym.envs.web.sites.shop.data import CATEGORIES, LABELS, street
from agentgym.envs.web.sites.shop.questions import SHOP
from agentgym.envs.web.sites.wiki.data import town_name
from agentgym.envs.web.sites.wiki.tasks import facts_of, open_page, titles_of
from agentgym.envs.web.state import EpisodeState


class Recommend(TaskFamily):
    """Start a forum topic that names the cheapest product in stock of a category of the shop."""

    name = "shop-forum-recommend"
    sites = ("shop", "forum")

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        boards = [row["name"] for row in state.rows("forum", "SELECT name FROM board ORDER BY id")]
        board = words.pick(rng, boards)
        if not possible:
            board = absent(boards, lambda: words.pick(rng, words.TOPICS).title())
        category = words.pick(rng, list(CATEGORIES))
        if self._cheapest(state, category) is None:
            raise NoSubject
        ask = {"board": board, "category": category, "title": title(rng)}
        text = (
            f'Start a topic on the board {board} of the forum with the title "{ask["title"]}". Its text is the name of '
            f"the cheapest product of the category {category} in the shop that is in stock, a comma, a space and its "
            "price (such as Blue Pan, $12.50)."
        )
        return text, change_data(ask)

    def _cheapest(self, state: EpisodeState, category: str) -> str | None:
        """Return name and price of the category's cheapest product in stock; None if there is no single cheapest."""
        sql = "SELECT name, price FROM product WHERE category = ? AND stock > 0 ORDER BY price LIMIT 2"
        rows = state.rows("shop", sql, category)
        if not rows or len({row["price"] for row in rows}) < len(rows):
            return None
        return f"{rows[0]['name']}, {money(rows[0]['price'])}"

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = "INSERT INTO topic SELECT NULL, id, ?, ?, ?, ?, 0, 0 FROM board WHERE name = ?"
        body, at = self._cheapest(state, ask["category"]), f"{state.now:%Y-%m-%d %H:%M}"
        state.change("forum", sql, ask["title"], body, state.me.username, at, ask["board"])

    def solve(self, ask: Ask) -> Plan:
        yield from open_board(ask["board"])
        yield Goto(f"{SHOP}/products")
        yield Select("Category", ask["category"])
        yield Select("Sort by", "Price: low to high")
        yield Click("checkbox", "In stock only")
        page = yield Click("button", "Apply filters")
        best = page.records("Product")[0]
        yield from open_board(ask["board"])
        yield Click("link", "New topic")
        yield Fill("Title", ask["title"])
        yield Fill("Text", f"{best['Product']}, {best['Price']}")
        yield Click("button", "Save topic")


class Report(TaskFamily):
    """Comment on a forum topic with a fact from the wiki; impossible if the topic is locked or the page is missing."""

    name = "wiki-forum-report"
    sites = ("forum", "wiki")

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        towns, locked = titles_of(state, "Towns"), bool(rng.random() < 0.5)
        town, fact = words.pick(rng, towns), words.pick(rng, ("Population", "Founded", "Mayor"))
        if not possible and not locked:
            town = absent(towns, lambda: town_name(rng))
        want_locked = int(not possible and locked)
        topics = state.rows("forum", "SELECT title FROM topic WHERE locked = ? ORDER BY id", want_locked)
        if not topics:
            raise NoSubject
        ask = {"topic": words.pick(rng, topics)["title"], "town": town, "fact": fact}
        text = f'Comment on the topic "{ask["topic"]}" in the forum with just what the wiki gives as "{fact}" for '
        text += f"{town}, and nothing else."
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        sql = "INSERT INTO comment SELECT NULL, id, ?, ?, ? FROM topic WHERE title = ?"
        body, at = facts_of(state, ask["town"])[ask["fact"]], f"{state.now:%Y-%m-%d %H:%M}"
        state.change("forum", sql, state.me.username, body, at, ask["topic"])

    def solve(self, ask: Ask) -> Plan:
        page = yield from open_page(ask["town"])
        fact = page.fact(ask["fact"])
        page = yield from open_topic(ask["topic"])
        if not page.has("button", "Post comment"):
            raise ImpossibleTask
        yield Fill("Your comment", fact)
        yield Click("button", "Post comment")


class Move(TaskFamily):
    """Add a new address to the user's account in the shop, with the town's postcode from the wiki."""

    name = "wiki-shop-address"
    sites = ("shop", "wiki")

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        towns = titles_of(state, "Towns")
        labels = [row["label"] for row in state.rows("shop", "SELECT label FROM address ORDER BY id")]
        town = words.pick(rng, towns) if possible else absent(towns, lambda: town_name(rng))
        hops = int(rng.integers(0, 1 + difficulty))
        ask = {"label": absent(labels, lambda: words.pick(rng, LABELS)), "street": street(rng), "town": town, "hops": hops}
        text = (
            f"Add a new address to my account in the shop: label {ask['label']}, street {ask['street']}, in "
            f"{'the twin town of ' * hops}{town}. Look up the {'twin town and the ' * (hops > 0)}postcode in the wiki."
        )
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        town = ask["town"]
        for _ in range(ask["hops"]):
            town = facts_of(state, town)["Twin town"]
        values = (ask["label"], ask["street"], town, facts_of(state, town)["Postcode"])
        state.change("shop", "INSERT INTO address VALUES (NULL, ?, ?, ?, ?)", *values)

    def solve(self, ask: Ask) -> Plan:
        page, town = (yield from open_page(ask["town"])), ask["town"]
        for _ in range(ask["hops"]):
            town = page.fact("Twin town")
            page = yield Click("link", town)
        code = page.fact("Postcode")
        yield Goto(f"{SHOP}/addresses/new")
        for label, value in (("Label", ask["label"]), ("Street", ask["street"]), ("City", town), ("Postcode", code)):
            yield Fill(label, value)
        yield Click("button", "Save address")


class Reviewed(TaskFamily):
    """Post the name of a product's reviewer in the forum, and add the product to the wish list."""

    name = "shop-forum-reviewed"
    sites = ("shop", "forum")
    always_possible = True

    def make(self, rng: np.random.Generator, difficulty: int, state: EpisodeState, possible: bool) -> Made:
        sql = """SELECT product.name, username FROM review JOIN product ON product.id = product
            WHERE product IN (SELECT product FROM review GROUP BY product HAVING count(*) = 1) AND username <> ?
            AND product NOT IN (SELECT product FROM wish) ORDER BY review.id"""
        row = words.pick(rng, state.rows("shop", sql, state.me.username))
        topics = state.rows("forum", "SELECT title FROM topic WHERE locked = 0 ORDER BY id")
        ask = {"product": row["name"], "topic": words.pick(rng, topics)["title"]}
        text = (
            f'Comment on the topic "{ask["topic"]}" in the forum with just the full name of the person who reviewed the '
            f"product {ask['product']} in the shop, and put that product on my wish list."
        )
        return text, change_data(ask)

    def effect(self, state: EpisodeState, ask: Ask) -> None:
        names = {person.username: person.name for person in state.setting.people}
        sql = "SELECT username FROM review JOIN product ON product.id = product WHERE name = ?"
        writer = names[state.one("shop", sql, ask["product"])]
        state.change("shop", "INSERT INTO wish SELECT id FROM product WHERE name = ?", ask["product"])
        sql = "INSERT INTO comment SELECT NULL, id, ?, ?, ? FROM topic WHERE title = ?"
        state.change("forum", sql, state.me.username, writer, f"{state.now:%Y-%m-%d %H:%M}", ask["topic"])

    def solve(self, ask: Ask) -> Plan:
        yield Goto(f"{SHOP}/products")
        yield Fill("Name contains", ask["product"])
        yield Click("button", "Apply filters")
        page = yield Click("link", ask["product"])
        review_text = " ".join(node.name for node in page.root.all("article")[0].walk())
        writer = review_text.partition(", by ")[2].partition(", ")[0]
        yield Click("button", "Add to wish list")
        yield from open_topic(ask["topic"])
        yield Fill("Your comment", writer)
        yield Click("button", "Post comment")


FAMILIES: tuple[TaskFamily, ...] = (Recommend(), Report(), Move(), Reviewed())
