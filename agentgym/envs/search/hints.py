"""Hints: the chain's unopened entities, the next one first."""

from collections.abc import Sequence


def steps(titles: Sequence[str]) -> list[str]:
    """Return the hints for the titles of unopened documents, in the order of the chain."""
    if not titles:
        return ["Every document that the answer needs is open: answer from what they say."]
    first, *later = titles
    return [f"Look up {first} next.", *(f"Then look up {title}." for title in later)]
