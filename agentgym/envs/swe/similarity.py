"""Similarity of a repair to the known one: SWE-RL's measure, for which no test has to run."""

import difflib
from collections.abc import Mapping

from agentgym.envs.swe.tasks.suite import is_cache, is_protected

PAIRS = 4_000_000
"""Maximum product of both changes' lengths for a comparison by characters, which takes at most a second.

Longer ones are compared by lines.
"""
FACTOR, FREE = 4, 2_000
"""A change longer than FACTOR times the known one plus FREE characters is not compared."""


def similarity(before: Mapping[str, bytes], after: Mapping[str, bytes], known: Mapping[str, bytes]) -> float:
    """Return the similarity, from 0 to 1, of a tree's changes to the known ones; 1 only if both lead to the same files.

    Source: SWE-RL, arXiv 2502.18449, and its published code: the mean, over every file that either change modifies, of
    difflib's ratio between their unified diffs with three lines of context, 0 if only one changes the file. Tests,
    configuration and caches count as unchanged, since they are not graded. A far longer change counts 0: its ratio would be
    small and slow to compute.
    """
    built, right = changes(before, after), changes(before, known)
    ratios = [
        1.0 if after.get(path) == known.get(path) else _ratio(built.get(path, ""), right.get(path, ""))
        for path in sorted({*built, *right})
    ]
    return sum(ratios) / len(ratios) if ratios else 0.0


def changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, str]:
    """Return by path the unified diff of each text file that differs, without the header lines."""
    diffs: dict[str, str] = {}
    for path in sorted({*before, *after}):
        if is_protected(path) or is_cache(path) or before.get(path) == after.get(path):
            continue
        old, new = _lines(before.get(path, b"")), _lines(after.get(path, b""))
        diffs[path] = "\n".join([*difflib.unified_diff(old, new, lineterm="", n=3)][2:])
    return diffs


def _lines(content: bytes) -> list[str]:
    """Return a file's lines, different for any two different files."""
    *lines, last = content.decode("utf-8", "surrogateescape").split("\n")
    return [*lines, last, "\\ No newline at end of file"] if last else lines


def _ratio(built: str, right: str) -> float:
    """Return the similarity of two changes that lead to different files."""
    if not built or not right or built == right or len(built) > FACTOR * len(right) + FREE:
        return 0.0  # a deleted file and an empty one have the same diff
    if len(built) * len(right) > PAIRS:  # by lines, with difflib's default treatment of frequent ones
        return difflib.SequenceMatcher(None, built.split("\n"), right.split("\n")).ratio()
    return difflib.SequenceMatcher(None, built, right, autojunk=False).ratio()
