"""No field that an agent can list tells the answer from the rest: a classifier over surface features stays at chance."""

from collections import Counter

import numpy as np
import pytest
from listings import FAMILIES
from surface import Listing, figure

SAMPLE = [
    *(name for name in FAMILIES if name.startswith("terminal ")),
    *("desk namesakes", "desk airline", "search", "shop", "twenty questions", "wiki-revert", "mail-file"),
    *("calendar-free", "calendar-delete", "forum-commenter"),
]
"""What is drawn in seconds."""


def drawn(name: str, count: int) -> list[Listing]:
    """Return so many lists of a family, of difficulties 1 and 2."""
    found: list[Listing] = []
    for number in range(4 * count):
        one = FAMILIES[name](number, 1 + number % 2)
        found += [one] if one else []
        if len(found) == count or (number > count / 2 and not found):  # such a family's answer is in no list
            break
    kinds = Counter(tuple(one.entries[0]) for one in found)  # a task may change rows of one table, another's of another
    return [one for one in found if tuple(one.entries[0]) == kinds.most_common(1)[0][0]]


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_families_gives_no_answer_away(name):
    result = figure(drawn(name, 80))
    assert not result.above, f"{name}: {result}"


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_no_family_gives_its_answer_away(name, record_property):
    lists = drawn(name, 400)
    if len(lists) < 40:
        pytest.skip(f"{name}: its answer is in no list ({len(lists)} of 1600 tasks have one)")
    result = figure(lists)
    record_property("figure", str(result))
    assert not result.above, f"{name}: {result}"


def of_words(rng, size, mark):
    """Return a list of random words of which one, somewhere, is the answer; `mark` changes what it looks like."""
    right = int(rng.integers(size))
    words = ["".join(chr(97 + int(i)) for i in rng.integers(26, size=6)) for _ in range(size)]
    return Listing(
        [{"word": mark(word) if place == right else word} for place, word in enumerate(words)], frozenset({right})
    )


@pytest.mark.parametrize("mark", [str.upper, lambda word: word + "x", lambda word: "tune", lambda word: f"{word} 7"])
def test_the_classifier_sees_what_gives_an_answer_away(mark):
    rng = np.random.default_rng(3)
    result = figure([of_words(rng, 12, mark) for _ in range(80)])
    assert result.above and result.hits > 0.9


def test_it_sees_places_too_and_nothing_where_nothing_is():
    rng = np.random.default_rng(4)
    lists = [of_words(rng, 12, str) for _ in range(200)]
    assert not figure(lists).above
    assert figure([Listing(one.entries, frozenset({11})) for one in lists]).hits == 1.0


def test_figures_by_hand():
    lists = [Listing([{"size": 1}, {"size": size}], frozenset({1})) for size in (2, 3, 4, 5)]
    result = figure(lists)
    assert (result.hits, result.chance, result.tasks, result.error) == (1.0, 0.5, 2, pytest.approx(0.5 / 2**0.5))
