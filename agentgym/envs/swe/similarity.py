"""Similarity of a repair to the known repair: SWE-RL's measure, which needs no test run."""

import difflib
from collections.abc import Mapping

from agentgym.envs.swe.tasks.suite import is_cache, is_protected

PAIRS = 4_000_000
"""Maximum product of two diffs' lengths in characters for a comparison by characters, which takes at most a second.

Longer diffs are compared by lines.
"""
FACTOR, FREE = 4, 2_000
"""A diff longer than FACTOR times the known diff plus FREE characters has similarity 0."""


def similarity(before: Mapping[str, bytes], after: Mapping[str, bytes], known: Mapping[str, bytes]) -> float:
    """Return the similarity (0 to 1) of the change `before` -> `after` to the change `before` -> `known`.

    Source: SWE-RL, arXiv 2502.18449, and its published code. The similarity is the mean, over every file that either
    change modifies, of difflib's ratio between both unified diffs with three lines of context; 0 for a file that only one
    change modifies. Tests, configuration and caches count as unchanged, since they are not graded. A far longer diff
    counts 0: its ratio would be small and slow to compute. The result is 1 only if both changes produce the same files.
    """
    built, right = changes(before, after), changes(before, known)
    ratios = [
        1.0 if after.get(path) == known.get(path) else _ratio(built.get(path, ""), right.get(path, ""))
        for path in sorted({*built, *right})
    ]
    return sum(ratios) / len(ratios) if ratios else 0.0


def changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, str]:
    """Return the unified diff of each changed file by path, without header lines, tests, configuration and caches."""
    diffs: dict[str, str] = {}
    for path in sorted({*before, *after}):
        if is_protected(path) or is_cache(path) or before.get(path) == after.get(path):
            continue
        old, new = _lines(before.get(path, b"")), _lines(after.get(path, b""))
        diffs[path] = "\n".join([*difflib.unified_diff(old, new, lineterm="", n=3)][2:])
    return diffs


def _lines(content: bytes) -> list[str]:
    """Return a file's lines; different contents always give different lines."""
    *lines, last = content.decode("utf-8", "surrogateescape").split("\n")
    return [*lines, last, "\\ No newline at end of file"] if last else lines


def _ratio(built: str, right: str) -> float:
    """Return the similarity of two diffs of a file that lead to different contents."""
    if not built or not right or built == right or len(built) > FACTOR * len(right) + FREE:
        return 0.0  # a deleted file and an empty one have the same diff
    if len(built) * len(right) > PAIRS:  # by lines, with difflib's default treatment of frequent ones
        return difflib.SequenceMatcher(None, built.split("\n"), right.split("\n")).ratio()
    return difflib.SequenceMatcher(None, built, right, autojunk=False).ratio()
