"""Names for generated worlds, made of parts that differ between splits."""

from dataclasses import dataclass

import numpy as np

from agentgym.core.seeding import generator
from agentgym.rewards.exact_match import normalise

_MIDDLES = ("", "", "am", "el", "or", "und", "ast", "ib", "enn", "otr")
_TAILS = {
    "given": ("a", "en", "ric", "io", "ane", "or", "is", "eth", "ola", "ute"),
    "family": ("ow", "ett", "ini", "osk", "ard", "elle", "quist", "vane", "sen", "amer"),
    "place": ("ton", "wick", "ford", "burg", "stad", "mere", "holm", "vale", "haven", "by"),
    "stem": ("ian", "ine", "ese", "ic", "ar", "oth"),
}


@dataclass(frozen=True)
class Parts:
    """Parts of names that occur in one split only; word endings are common to all splits."""

    heads: tuple[str, ...]
    """First three letters of every invented word."""
    adjectives: tuple[str, ...]
    nouns: tuple[str, ...]
    organizations: tuple[str, ...]
    events: tuple[str, ...]
    prefixes: tuple[str, ...]


def _heads() -> list[str]:
    heads = [f"{first}{vowel}{last}" for first in "bdfghklmnprstvw" for vowel in "aeiou" for last in "lnrv"]
    generator("search", "heads").shuffle(heads)
    return heads


_HEADS = _heads()
PARTS = {
    "train": Parts(
        tuple(_HEADS[:180]),
        ("Silver", "Hollow", "Distant", "Burning", "Quiet", "Broken", "Golden", "Secret", "Northern", "Bitter", "Velvet"),
        ("Lantern", "Orchard", "Harbour", "Mirror", "Garden", "Bridge", "Winter", "Crown", "Letter", "Tower", "Forest"),
        ("Institute", "Company", "Academy", "Society", "Museum", "Bank"),
        ("Festival", "Congress", "Regatta", "Fair"),
        ("New", "Upper"),
    ),
    "valid": Parts(
        tuple(_HEADS[180:240]),
        ("Amber", "Frozen", "Restless", "Painted", "Forgotten", "Scarlet"),
        ("Compass", "Meadow", "Candle", "Staircase", "Falcon", "Island"),
        ("College", "Union", "Gallery"),
        ("Exhibition", "Games"),
        ("Lower",),
    ),
    "test": Parts(
        tuple(_HEADS[240:]),
        ("Ivory", "Sleeping", "Thirteenth", "Wandering", "Copper", "Stormy"),
        ("Anchor", "Labyrinth", "Feather", "Chapel", "River", "Clock"),
        ("Foundation", "League", "Press"),
        ("Tournament", "Assembly"),
        ("Old",),
    ),
}


class Names:
    """Draws distinct names; `alike` is the probability of reusing part of an earlier name, in kinds of names that can."""

    def __init__(self, rng: np.random.Generator, split: str, alike: float) -> None:
        self._rng, self._parts, self._alike = rng, PARTS[split], alike
        self._used: set[str] = set()
        self._by_kind: dict[str, list[str]] = {}

    def draw(self, kind: str) -> str:
        """Return a new name for an entity of this kind; invented words grow longer as short ones run out.

        Raises:
            AssertionError: never, since names grow until one is unused.
        """
        for length in range(10_000):
            name = self._invent("work" if kind in ("novel", "opera", "painting") else kind, length // 20)
            if normalise(name) not in self._used:
                self._used.add(normalise(name))
                self._by_kind.setdefault(kind, []).append(name)
                return name
        raise AssertionError("names grow longer until one is free")

    def _invent(self, kind: str, extra: int) -> str:
        similar = self._rng.random() < self._alike and extra < 5  # the number of similar names is limited
        if kind == "person":
            first, family = self._word("given", extra), self._word("family", extra)
            if similar and kind in self._by_kind:
                other = self._pick(self._by_kind[kind]).split()
                return f"{other[0]} {family}" if self._rng.random() < 0.5 else f"{first} {other[1]}"
            return f"{first} {family}"
        if kind == "place":
            if similar and kind in self._by_kind:
                return f"{self._pick(self._parts.prefixes)} {self._pick(self._by_kind[kind]).split()[-1]}"
            return self._word("place", extra)
        if kind == "work":
            title = f"The {self._pick(self._parts.adjectives)} {self._pick(self._parts.nouns)}"
            return title if not extra else f"{title} of {self._borrowed(similar, extra)}"
        kinds = self._parts.organizations if kind == "organization" else self._parts.events
        return f"{self._borrowed(similar, extra)} {self._pick(kinds)}"

    def _borrowed(self, similar: bool, extra: int) -> str:
        """Return a word to form a name with: an invented word, which is longer by `extra` parts.

        If `similar`, return the last word of an earlier town or person instead, once there are both.
        """
        if similar and "place" in self._by_kind and "person" in self._by_kind:
            return self._pick(self._by_kind["place" if self._rng.random() < 0.5 else "person"]).split()[-1]
        return self._word("stem", extra)

    def _word(self, tails: str, extra: int) -> str:
        middle = "".join(self._pick(_MIDDLES) for _ in range(1 + extra))
        return (self._pick(self._parts.heads) + middle + self._pick(_TAILS[tails])).capitalize()

    def _pick(self, choices: "tuple[str, ...] | list[str]") -> str:
        return choices[int(self._rng.random() * len(choices))]
