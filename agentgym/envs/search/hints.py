"""Steps that a hint names: the entities of the chain that were not opened yet, the next one first."""

from collections.abc import Sequence


def steps(titles: Sequence[str]) -> list[str]:
    """Return the steps from the titles of the documents that are still to be opened, in the order of the chain."""
    if not titles:
        return ["Every document that the answer needs is open: answer from what they say."]
    first, *later = titles
    return [f"Look up {first} next.", *(f"Then look up {title}." for title in later)]
