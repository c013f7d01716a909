"""What tells one entry of a list from the others without reading what is asked: a classifier over surface features."""

import zlib
from collections import Counter
from dataclasses import dataclass

import numpy as np

BUCKETS = 96
"""Words are told apart by so many numbers."""
MOST_ENTRIES = 40
"""Entries of a list that the classifier is trained on: the right ones and some others. It is judged on whole lists."""


@dataclass(frozen=True)
class Listing:
    """The entries of one task as an agent can list them, and which of them are the answer."""

    entries: list[dict[str, str | float]]
    right: frozenset[int]

    @property
    def chance(self) -> float:
        """How often an entry taken at random is right."""
        return len(self.right) / len(self.entries)


def features(listing: Listing) -> np.ndarray:
    """Return what each entry looks like: [entries, features], centred over the list."""
    count = len(listing.entries)
    place = np.arange(count)
    columns = [place / count, place == 0, place == 1, place == count - 1]
    for field in listing.entries[0]:
        values = [entry[field] for entry in listing.entries]
        columns += _numbers(values) if isinstance(values[0], float | int) else _texts([str(value) for value in values])
    made = np.array(columns, dtype=float).T
    return made - made.mean(axis=0)


def _texts(values: list[str]) -> list[np.ndarray]:
    sizes = [
        [len(text) for text in values],
        [len(text.split()) for text in values],
        [sum(letter.isdigit() for letter in text) for text in values],
        [sum(letter.isupper() for letter in text) for text in values],
        [sum(not letter.isalnum() and letter != " " for letter in text) for text in values],
    ]
    order = {text: rank for rank, text in enumerate(sorted(set(values)))}
    columns = [column for size in sizes for column in _numbers(size)]
    columns += [np.array([text[:1].isupper() for text in values]), np.array([text[:1] == "." for text in values])]
    counts = Counter(values)
    columns += [np.array([counts[text] for text in values]) == 1]
    columns += [np.array([order[text] for text in values]) / len(order)]
    words = np.zeros((BUCKETS, len(values)))
    for place, text in enumerate(values):
        for word in (text, *"".join(letter if letter.isalpha() else " " for letter in text).split()):
            words[zlib.crc32(word.encode()) % BUCKETS, place] = 1.0
    return [*columns, *words]


def _numbers(values: list[float]) -> list[np.ndarray]:
    array = np.array(values, dtype=float)
    _, at, counts = np.unique(array, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts
    return [below[at] / len(array), array == array.max(), array == array.min(), counts[at] / len(array)]


class Classifier:
    """A conditional logit over the entries of a list: one weight a feature, the entries' scores in a softmax."""

    def __init__(self, listings: list[Listing], rounds: int = 150, decay: float = 0.01, rate: float = 0.05) -> None:
        samples = [sampled(listing) for listing in listings]
        seen = [features(listing)[places].astype(np.float32) for listing, places in zip(listings, samples, strict=True)]
        starts = np.cumsum([0, *(len(one) for one in seen)])[:-1]
        owner = np.repeat(np.arange(len(seen)), [len(one) for one in seen])
        whole = np.concatenate(seen)
        right = np.concatenate([[at in one.right for at in places] for one, places in zip(listings, samples, strict=True)])
        self.weights, mean, square = np.zeros(whole.shape[1], np.float32), 0.0, 0.0
        for turn in range(1, rounds + 1):  # Adam
            score = whole @ self.weights
            score = np.exp(score - np.maximum.reduceat(score, starts)[owner])
            likely = score / np.add.reduceat(score, starts)[owner]
            wanted = likely * right / np.add.reduceat(likely * right, starts)[owner]
            slope = whole.T @ (likely - wanted) / len(seen) + decay * self.weights
            mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
            self.weights -= rate * (mean / (1 - 0.9**turn)) / (np.sqrt(square / (1 - 0.999**turn)) + 1e-8)

    def hits(self, listing: Listing) -> bool:
        """Return whether the entry that looks most like an answer is one."""
        return int(np.argmax(features(listing) @ self.weights)) in listing.right


def sampled(listing: Listing) -> list[int]:
    """Return the places of the right entries and of others, evenly spread, of which there are MOST_ENTRIES at the most."""
    others = [place for place in range(len(listing.entries)) if place not in listing.right]
    return sorted([*listing.right, *others[:: -(-len(others) // MOST_ENTRIES)]])


@dataclass(frozen=True)
class Figure:
    """How often the classifier is right on tasks it was not trained on, and how often chance is."""

    hits: float
    chance: float
    error: float
    """The standard error of chance over as many tasks."""
    tasks: int

    @property
    def above(self) -> bool:
        """Whether it does better than chance can explain: four standard errors, and two tasks at least."""
        return self.hits > self.chance + max(4 * self.error, 2 / self.tasks)

    def __str__(self) -> str:
        return f"{self.hits:.3f} right, chance {self.chance:.3f} ± {self.error:.3f}, {self.tasks} tasks"


def figure(listings: list[Listing]) -> Figure:
    """Train on the first half of the tasks and return what comes of the second."""
    half = len(listings) // 2
    model, others = Classifier(listings[:half]), listings[half:]
    spread = sum(one.chance * (1 - one.chance) for one in others) ** 0.5 / len(others)
    rate = sum(map(model.hits, others)) / len(others)
    return Figure(rate, sum(one.chance for one in others) / len(others), spread, len(others))
