"""Applying patches."""

from patchwork.unified import parse_patch


class PatchError(ValueError):
    """A hunk that fits nowhere; `hunk` counts from 1."""

    def __init__(self, hunk, message):
        super().__init__(f"hunk {hunk}: {message}")
        self.hunk = hunk


def apply_hunks(lines, hunks, fuzz=0, reach=50):
    """Return lines after hunks. A hunk may have moved by `reach` lines; `fuzz` lines at its ends need not fit."""
    result = list(lines)
    moved, least = 0, 0
    for number, hunk in enumerate(hunks, 1):
        expected = max(hunk.old_start - (1 if hunk.old_count else 0) + moved, 0)
        for cut in range(fuzz + 1):
            body, skipped = _trimmed(hunk.lines, cut)
            old = [line[1:] for line in body if line[0] in " -"]
            new = [line[1:] for line in body if line[0] in " +"]
            place = _find(result, old, expected + skipped, least, reach)
            if place is not None:
                break
        else:
            raise PatchError(number, f"does not fit at line {hunk.old_start}")
        result[place : place + len(old)] = new
        moved += place - (expected + skipped) + len(new) - len(old)
        least = place + len(new)
    return result


def _trimmed(lines, cut):
    """Return lines without up to `cut` lines of context at either end, and how many went at the beginning."""
    first = 0
    while first < min(cut, len(lines)) and lines[first][0] == " ":
        first += 1
    last = len(lines)
    while last > max(len(lines) - cut, first) and lines[last - 1][0] == " ":
        last -= 1
    return lines[first:last], first


def _find(lines, wanted, expected, least, reach):
    """Return the place nearest to the expected one where the wanted lines stand, not before `least`."""
    for step in range(reach + 1):
        for place in (expected - step, expected + step):
            if place >= least and place + len(wanted) <= len(lines) and lines[place : place + len(wanted)] == wanted:
                return place
    return None


def apply_patch(text, patch, name=None, fuzz=0, reverse=False):
    """Return a text after a unified diff, or before it with `reverse`; PatchError where a hunk does not fit.

    A patch of several files needs the `name` of the one whose text this is.
    """
    files = parse_patch(patch)
    if name is None:
        if len(files) > 1:
            raise ValueError(f"the patch has {len(files)} files: say which by name")
        hunks = next(iter(files.values()), [])
    else:
        hunks = files.get(name, [])
    if reverse:
        hunks = [hunk.reversed() for hunk in hunks]
    done = apply_hunks(text.splitlines(), hunks, fuzz)
    ending = "\n" if text.endswith("\n") or not text else ""
    return "\n".join(done) + (ending if done else "")
