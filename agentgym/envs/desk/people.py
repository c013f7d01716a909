"""Generated customers, and the wordings of what they say."""

from collections.abc import Sequence

import numpy as np

from agentgym.envs.desk.database import Row

FIRST = (
    "Ada", "Ben", "Carla", "Dmitri", "Elif", "Femi", "Grace", "Hugo", "Ines", "Jonas", "Kira", "Liam", "Mina",
    "Noor", "Oscar", "Priya", "Quinn", "Rosa", "Sami", "Tara", "Umar", "Vera", "Wanda", "Yusuf", "Zoe",
)  # fmt: skip
LAST = (
    "Abbott", "Berger", "Castillo", "Dorsey", "Eriksen", "Fofana", "Garner", "Hoang", "Ivanov", "Jensen",
    "Kowalski", "Lindqvist", "Moreau", "Nakamura", "Okafor", "Petrov", "Quiroga", "Rahman", "Silva", "Tanaka",
    "Ueda", "Varga", "Weiss", "Yilmaz", "Zhang",
)  # fmt: skip
STREETS = (
    "Alder", "Birch", "Canal", "Dock", "Elm", "Ferry", "Grove", "Harbour", "Ivy", "Juniper", "King", "Linden",
    "Mill",
)  # fmt: skip
TOWNS = (
    "Ashford", "Brookhaven", "Clearwater", "Dunmore", "Eastwick", "Fairview", "Glenwood",
)  # fmt: skip
TIERS = ("standard", "standard", "gold")


def plain(text: str) -> str:
    """Return a name or ZIP code normalized for comparison: lower case, single spaces."""
    return " ".join(text.lower().split())


def zip_code(rng: np.random.Generator) -> str:
    """Return a random ZIP code."""
    return str(int(rng.integers(10000, 99999)))


def address(rng: np.random.Generator) -> str:
    """Return a random street address."""
    street, town = STREETS[int(rng.integers(len(STREETS)))], TOWNS[int(rng.integers(len(TOWNS)))]
    return f"{int(rng.integers(1, 99))} {street} Street, {town}"


def customers(rng: np.random.Generator, count: int, namesakes: int) -> dict[str, Row]:
    """Return `count` random customers by id; the last `namesakes` of them have the first customer's name."""
    rows: dict[str, Row] = {}
    for i in range(count):
        name = f"{FIRST[int(rng.integers(len(FIRST)))]} {LAST[int(rng.integers(len(LAST)))]}"
        if rows and i >= count - namesakes:
            name = next(iter(rows.values()))["name"]
        born = f"{int(rng.integers(1945, 2006))}-{int(rng.integers(1, 13)):02d}-{int(rng.integers(1, 29)):02d}"
        key = f"C-{int(rng.integers(100000, 999999))}"
        while key in rows:
            key = f"C-{int(rng.integers(100000, 999999))}"
        rows[key] = {"name": name, "tier": TIERS[int(rng.integers(3))], "birth_date": born, "zip_code": zip_code(rng)}
    return rows


MANNERS: Sequence[dict[str, str]] = (
    {
        "hello": "Hello.",
        "yes": "Yes, please do.",
        "thanks": "Thank you.",
        "lost": "Sorry, I do not understand. What do you need from me?",
    },
    {
        "hello": "Hi there, I hope you can help me.",
        "yes": "Yes, go ahead.",
        "thanks": "Great, thanks a lot!",
        "lost": "Hm, I am not sure what you mean. What would you like to know?",
    },
    {
        "hello": "Finally somebody answers.",
        "yes": "Yes. Do it.",
        "thanks": "Right.",
        "lost": "What? Ask me something I can answer.",
    },
    {
        "hello": "Good day to you.",
        "yes": "Yes, I agree to that.",
        "thanks": "That is kind of you.",
        "lost": "I am afraid that I did not follow. What is it you need?",
    },
)
"""Personas: wordings of a customer's standard replies."""
