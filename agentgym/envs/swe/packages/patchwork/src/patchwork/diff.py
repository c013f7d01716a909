"""Differences between two sequences."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """What became of a stretch: `equal`, `delete`, `insert` or `replace`; ends are not included."""

    kind: str
    old_start: int
    old_end: int
    new_start: int
    new_end: int


def longest_common(old, new):
    """Return the index pairs of a longest common subsequence, the earliest matches first."""
    rows, columns = len(old), len(new)
    lengths = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            if old[i] == new[j]:
                lengths[i][j] = lengths[i + 1][j + 1] + 1
            else:
                lengths[i][j] = max(lengths[i + 1][j], lengths[i][j + 1])
    pairs = []
    i = j = 0
    while i < rows and j < columns:
        if old[i] == new[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _matches(old, new):
    """Return longest_common, the parts that are the same at both ends left out of the search."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    middle = longest_common(old[head : len(old) - tail], new[head : len(new) - tail])
    pairs = [(place, place) for place in range(head)]
    pairs += [(i + head, j + head) for i, j in middle]
    pairs += [(len(old) - tail + place, len(new) - tail + place) for place in range(tail)]
    return pairs


def opcodes(old, new):
    """Return the changes that lead from one sequence to the other, without gaps."""
    changes = []
    i = j = 0
    for one, two in [*_matches(old, new), (len(old), len(new))]:
        if one > i and two > j:
            changes.append(Change("replace", i, one, j, two))
        elif one > i:
            changes.append(Change("delete", i, one, j, j))
        elif two > j:
            changes.append(Change("insert", i, i, j, two))
        if one < len(old):
            if changes and changes[-1].kind == "equal" and changes[-1].old_end == one:
                last = changes.pop()
                changes.append(Change("equal", last.old_start, one + 1, last.new_start, two + 1))
            else:
                changes.append(Change("equal", one, one + 1, two, two + 1))
        i, j = one + 1, two + 1
    return changes


def similarity(old, new):
    """Return a number from 0 to 1: twice the common items by all items; 1 for two empty sequences."""
    total = len(old) + len(new)
    if total == 0:
        return 1.0
    return 2 * len(_matches(old, new)) / total


def distance(old, new, swaps=False):
    """Return how many insertions, deletions and replacements lead from one to the other; with `swaps` of neighbours too."""
    before, previous = None, list(range(len(new) + 1))
    for i, one in enumerate(old, 1):
        current = [i]
        for j, two in enumerate(new, 1):
            cost = 0 if one == two else 1
            best = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + cost)
            if swaps and i > 1 and j > 1 and one == new[j - 2] and old[i - 2] == two:
                best = min(best, before[j - 2] + 1)
            current.append(best)
        before, previous = previous, current
    return previous[-1]


def closest(word, candidates, cutoff=0.6):
    """Return the candidate most similar to a word, the first of equals; None where none is similar enough."""
    best, best_score = None, cutoff
    for candidate in candidates:
        score = similarity(word, candidate)
        if score > best_score or (score == best_score and best is None):
            best, best_score = candidate, score
    return best
