"""Merging two texts that came from one."""

from dataclasses import dataclass

from patchwork.diff import opcodes


@dataclass(frozen=True)
class Conflict:
    """Lines that both sides changed, each in its own way."""

    base: tuple
    ours: tuple
    theirs: tuple


def _changes(base, side):
    return [change for change in opcodes(base, side) if change.kind != "equal"]


def merge_parts(base, ours, theirs):
    """Return the merged lines, with a Conflict wherever both sides changed the same lines in different ways."""
    left, right = _changes(base, ours), _changes(base, theirs)
    merged, at = [], 0
    while left or right:
        start = min(change.old_start for change in left[:1] + right[:1])
        end = start
        mine, others = [], []
        while True:
            if left and (left[0].old_start < end or left[0].old_start == start):
                mine.append(left.pop(0))
                end = max(end, mine[-1].old_end)
            elif right and (right[0].old_start < end or right[0].old_start == start):
                others.append(right.pop(0))
                end = max(end, others[-1].old_end)
            else:
                break
        merged += base[at:start]
        ours_now, theirs_now = _side(base, ours, mine, start, end), _side(base, theirs, others, start, end)
        if not others or ours_now == theirs_now:
            merged += ours_now
        elif not mine:
            merged += theirs_now
        else:
            merged.append(Conflict(tuple(base[start:end]), tuple(ours_now), tuple(theirs_now)))
        at = end
    return merged + list(base[at:])


def _side(base, side, changes, start, end):
    lines, at = [], start
    for change in changes:
        lines += base[at : change.old_start]
        lines += side[change.new_start : change.new_end]
        at = change.old_end
    return lines + list(base[at:end])


def merge(base, ours, theirs, names=("ours", "theirs"), prefer=None):
    """Return (text, number of conflicts) of a three-way merge; `prefer` takes one side's lines in a conflict."""
    parts = merge_parts(base.splitlines(), ours.splitlines(), theirs.splitlines())
    lines, conflicts = [], 0
    for part in parts:
        if not isinstance(part, Conflict):
            lines.append(part)
            continue
        if prefer is not None:
            lines.extend(part.ours if prefer == "ours" else part.theirs)
            continue
        conflicts += 1
        lines += [f"<<<<<<< {names[0]}", *part.ours, "=======", *part.theirs, f">>>>>>> {names[1]}"]
    return "".join(line + "\n" for line in lines), conflicts
