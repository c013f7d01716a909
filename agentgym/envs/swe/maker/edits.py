"""Edits between two states of a file."""

import re
from collections.abc import Mapping
from difflib import SequenceMatcher

from agentgym.envs.swe.tasks.instance import Edit, occurrences


def edits_between(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[Edit, ...]:
    """Return edits that turn `before` into `after`; each has enough context to be unique, also when reversed."""
    edits: list[Edit] = []
    for path in sorted(after):
        if before.get(path) != after[path]:
            edits += _of_file(path, lines_of(before[path].decode("utf-8")), lines_of(after[path].decode("utf-8")))
    return tuple(edits)


def hunks(old: list[str], new: list[str]) -> list[tuple[int, int, int, int]]:
    """Return (old start, old end, new start, new end) of each differing range of lines, from 0, with exclusive ends."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    matcher = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    return [(i + head, j + head, k + head, m + head) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal"]


def lines_of(text: str) -> list[str]:
    """Split a text into lines, including their line feeds; no other character separates lines."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _of_file(path: str, old: list[str], new: list[str]) -> list[Edit]:
    edits: list[Edit] = []
    for start, end, new_start, new_end in hunks(old, new):
        current, changed = new[:new_start] + old[end - (end - start) :], new[:new_end] + old[end:]
        edits.append(_fitting(path, current, changed, new_start, end - start, new_end - new_start))
    return edits


def _fitting(path: str, before: list[str], after: list[str], start: int, old_length: int, new_length: int) -> Edit:
    """Return the edit at line `start`, with as many context lines as it needs to be unique."""
    texts = "".join(before), "".join(after)
    above = below = 0
    while True:
        old = "".join(before[start - above : start + old_length + below])
        new = "".join(after[start - above : start + new_length + below])
        fits = old and new and occurrences(texts[0], old) == 1 and occurrences(texts[1], new) == 1
        room_above, room_below = above < start, start + old_length + below < len(before)
        if fits or not (room_above or room_below):
            return Edit(path, old, new)
        if room_above and (above <= below or not room_below):
            above += 1
        else:
            below += 1
