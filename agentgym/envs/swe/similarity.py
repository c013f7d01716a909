"""How much a repair looks like the one that is known: SWE-RL's measure, for which no test has to run."""

import difflib
from collections.abc import Mapping

from agentgym.envs.swe.tasks.suite import is_cache, is_protected

PAIRS = 4_000_000
"""Characters of a change times those of the known one up to which they are compared by characters, which takes a second at
most, whatever was written; longer ones are compared by lines."""
FACTOR, FREE = 4, 2_000
"""A change may have so many times the characters of the known one, and so many more; a longer one is not compared."""


def similarity(before: Mapping[str, bytes], after: Mapping[str, bytes], known: Mapping[str, bytes]) -> float:
    """Return from 0 to 1 how alike the changes of a tree are to the known ones; 1 only where both lead to the same files.

    Source: SWE-RL, arXiv 2502.18449, and its published code: the mean, over every file that either of the two changes, of
    the ratio of difflib between their unified diffs with three lines of context, 0 where only one changes the file. Tests,
    configuration and caches count as unchanged, for they are not graded. What is far longer than the known change counts 0:
    its ratio would be small, and takes long.
    """
    built, right = changes(before, after), changes(before, known)
    ratios = [
        1.0 if after.get(path) == known.get(path) else _ratio(built.get(path, ""), right.get(path, ""))
        for path in sorted({*built, *right})
    ]
    return sum(ratios) / len(ratios) if ratios else 0.0


def changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, str]:
    """Return by path the unified diff of each file that differs, without the lines that name it; of texts only."""
    diffs: dict[str, str] = {}
    for path in sorted({*before, *after}):
        if is_protected(path) or is_cache(path) or before.get(path) == after.get(path):
            continue
        old, new = _lines(before.get(path, b"")), _lines(after.get(path, b""))
        diffs[path] = "\n".join([*difflib.unified_diff(old, new, lineterm="", n=3)][2:])
    return diffs


def _lines(content: bytes) -> list[str]:
    """Return the lines of a file, such that no two files have the same ones."""
    *lines, last = content.decode("utf-8", "surrogateescape").split("\n")
    return [*lines, last, "\\ No newline at end of file"] if last else lines


def _ratio(built: str, right: str) -> float:
    """Return how alike two changes are that lead to different files."""
    if not built or not right or built == right or len(built) > FACTOR * len(right) + FREE:
        return 0.0  # alike are only a file that is gone and one that is empty
    if len(built) * len(right) > PAIRS:  # most lines are rare: the few that are not count as none
        return difflib.SequenceMatcher(None, built.split("\n"), right.split("\n")).ratio()
    return difflib.SequenceMatcher(None, built, right, autojunk=False).ratio()
