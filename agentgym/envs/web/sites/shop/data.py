"""Initial content of the shop."""

import sqlite3
from datetime import timedelta

import numpy as np

from agentgym.envs.web import words
from agentgym.envs.web.state import Setting

SCHEMA = """
CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, category TEXT NOT NULL, colour TEXT NOT NULL,
    price INTEGER NOT NULL, stock INTEGER NOT NULL, description TEXT NOT NULL);
CREATE TABLE review (id INTEGER PRIMARY KEY, product INTEGER NOT NULL REFERENCES product, username TEXT NOT NULL,
    stars INTEGER NOT NULL, title TEXT NOT NULL, body TEXT NOT NULL, day TEXT NOT NULL);
CREATE TABLE cart (product INTEGER PRIMARY KEY REFERENCES product, quantity INTEGER NOT NULL);
CREATE TABLE wish (product INTEGER PRIMARY KEY REFERENCES product);
CREATE TABLE purchase (id INTEGER PRIMARY KEY, day TEXT NOT NULL, status TEXT NOT NULL, address TEXT NOT NULL,
    shipping TEXT NOT NULL, message TEXT NOT NULL);
CREATE TABLE line (purchase INTEGER NOT NULL REFERENCES purchase, product INTEGER NOT NULL REFERENCES product,
    quantity INTEGER NOT NULL, price INTEGER NOT NULL, PRIMARY KEY (purchase, product));
CREATE TABLE address (id INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE, street TEXT NOT NULL, city TEXT NOT NULL,
    postcode TEXT NOT NULL);
CREATE INDEX review_product ON review (product);
"""
CATEGORIES = {
    "Kitchen": ["kettle", "pan", "mug", "grater", "whisk", "teapot", "jug", "ladle", "sieve", "toaster"],
    "Garden": ["rake", "spade", "hose", "trowel", "planter", "shears", "hoe", "trellis", "sprinkler", "birdbath"],
    "Office": ["stapler", "notebook", "desk-lamp", "binder", "pen", "tray", "calendar", "shredder", "ruler", "whiteboard"],
    "Outdoor": ["tent", "lantern", "rucksack", "flask", "hammock", "stove", "blanket", "torch", "cooler", "stool"],
    "Toys": ["puzzle", "kite", "robot", "yo-yo", "train-set", "marbles", "spinning-top", "dollhouse", "jigsaw", "slingshot"],
    "Music": ["flute", "ukulele", "drum", "tuner", "harmonica", "metronome", "banjo", "tambourine", "bell", "zither"],
}
STATUSES = ("Processing", "Shipped", "Delivered", "Cancelled")
SHIPPING = {"Standard": 0, "Express": 950}
"""Cost of each shipping method, in cents."""
LABELS = ("Home", "Office", "Parents", "Cabin", "Studio", "Neighbour", "School", "Garage")
STREETS = ("Street", "Lane", "Road", "Avenue", "Square", "Hill")
TITLES = (
    "Good value",
    "Not for me",
    "Would buy again",
    "As described",
    "Broke early",
    "A small wonder",
    "Too heavy",
    "Solid",
)


def product_name(rng: np.random.Generator, category: str) -> str:
    """Return a random product name of the category."""
    brand, kind = words.pick(rng, words.PLACES), words.pick(rng, CATEGORIES[category]).replace("-", " ")
    return f"{brand} {words.pick(rng, words.ADJECTIVES)} {kind}".title()


def street(rng: np.random.Generator) -> str:
    """Return a random street address: house number and street."""
    return f"{int(rng.integers(1, 200))} {words.pick(rng, words.LAST_NAMES)} {words.pick(rng, STREETS)}"


def postcode(rng: np.random.Generator) -> str:
    """Return a random postcode of five digits."""
    return f"{int(rng.integers(10000, 100000))}"


def fill(db: sqlite3.Connection, rng: np.random.Generator, size: int, setting: Setting) -> None:
    """Insert 45 products (20 more per level of size), reviews, and the user's orders, addresses and wish list."""
    _products(db, rng, 45 + 20 * size, setting)
    count = db.execute("SELECT count(*) FROM product").fetchone()[0]
    labels = [LABELS[int(i)] for i in rng.permutation(len(LABELS))[:3]]
    places = [words.PLACES[int(i)] for i in rng.permutation(len(words.PLACES))[:3]]
    for label, place in zip(labels, places, strict=True):
        db.execute("INSERT INTO address VALUES (NULL, ?, ?, ?, ?)", (label, street(rng), place, postcode(rng)))
    addresses = [", ".join(row) for row in db.execute("SELECT street, city, postcode FROM address")]
    number = int(rng.integers(1000, 8000))
    day = setting.now - timedelta(days=int(rng.integers(200, 400)))
    for index in range(8 + 3 * size):
        number += int(rng.integers(1, 30))
        day = min(day + timedelta(days=int(rng.integers(3, 30))), setting.now - timedelta(days=1))
        status = "Processing" if index in (1, 6) else words.pick(rng, STATUSES)
        shipping = words.pick(rng, list(SHIPPING))
        values = (number, f"{day:%Y-%m-%d}", status, words.pick(rng, addresses), shipping, "")
        db.execute("INSERT INTO purchase VALUES (?, ?, ?, ?, ?, ?)", values)
        for at in rng.permutation(count)[: int(rng.integers(1, 4))]:
            price = db.execute("SELECT price FROM product WHERE id = ?", (int(at) + 1,)).fetchone()[0]
            db.execute("INSERT INTO line VALUES (?, ?, ?, ?)", (number, int(at) + 1, int(rng.integers(1, 4)), price))
    for at in rng.permutation(count)[: 6 + size]:
        db.execute("INSERT INTO wish VALUES (?)", (int(at) + 1,))


def _products(db: sqlite3.Connection, rng: np.random.Generator, count: int, setting: Setting) -> None:
    names: set[str] = set()
    categories = list(CATEGORIES)
    reviews: list[tuple[object, ...]] = []
    while len(names) < count:
        category = words.pick(rng, categories)
        name = product_name(rng, category)
        if name in names:
            continue
        names.add(name)
        stock = 0 if rng.random() < 0.12 else int(rng.integers(1, 40))
        price = int(rng.integers(3, 180)) * 100 + int(words.pick(rng, (0, 25, 49, 50, 95, 99)))
        values = (name, category, words.pick(rng, words.COLOURS[:8]), price, stock, words.paragraph(rng, 3))
        db.execute("INSERT INTO product VALUES (NULL, ?, ?, ?, ?, ?, ?)", values)
        writers = rng.permutation(len(setting.others))[: int(rng.integers(0, 6))]
        for writer in writers:
            day = setting.now - timedelta(days=int(rng.integers(2, 500)))
            reviews.append((len(names), setting.others[int(writer)].username, int(rng.integers(1, 6)),
                            words.pick(rng, TITLES), words.paragraph(rng, 2), f"{day:%Y-%m-%d}"))  # fmt: skip
    db.executemany("INSERT INTO review VALUES (NULL, ?, ?, ?, ?, ?, ?)", reviews)
