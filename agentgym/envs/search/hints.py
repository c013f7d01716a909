"""Hints that name the unopened documents on the way to the answer, in order."""

from collections.abc import Sequence


def steps(titles: Sequence[str]) -> list[str]:
    """Return one hint per title, or a hint to answer if there are no titles.

    `titles` are the unopened documents that lead to the answer, in order.
    """
    if not titles:
        return ["Every document that the answer needs is open: answer from what they say."]
    first, *later = titles
    return [f"Look up {first} next.", *(f"Then look up {title}." for title in later)]
