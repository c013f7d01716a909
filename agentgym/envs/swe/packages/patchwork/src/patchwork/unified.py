"""Unified diffs."""

import re
from dataclasses import dataclass

from patchwork.diff import opcodes

_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass
class Hunk:
    """A stretch of changes with lines around it; lines count from 1, each of `lines` begins with a space, - or +."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: list

    @property
    def header(self):
        """The line that begins it."""
        return f"@@ -{_range(self.old_start, self.old_count)} +{_range(self.new_start, self.new_count)} @@"

    def reversed(self):
        """Return the hunk that undoes it."""
        turn = {"+": "-", "-": "+", " ": " "}
        lines = [turn[line[0]] + line[1:] for line in self.lines]
        return Hunk(self.new_start, self.new_count, self.old_start, self.old_count, lines)


def _range(start, count):
    return str(start) if count == 1 else f"{start},{count}"


def hunks_of(old, new, context=3):
    """Return the hunks between two lists of lines."""
    groups = []
    for change in opcodes(old, new):
        if change.kind == "equal":
            continue
        if groups and change.old_start - groups[-1][-1].old_end <= 2 * context:
            groups[-1].append(change)
        else:
            groups.append([change])
    return [_hunk(group, old, new, context) for group in groups]


def _hunk(changes, old, new, context):
    first, last = changes[0], changes[-1]
    before = min(context, first.old_start)
    after = min(context, len(old) - last.old_end)
    start, end = first.old_start - before, last.old_end + after
    lines, at = [], start
    for change in changes:
        lines += [" " + line for line in old[at : change.old_start]]
        lines += ["-" + line for line in old[change.old_start : change.old_end]]
        lines += ["+" + line for line in new[change.new_start : change.new_end]]
        at = change.old_end
    lines += [" " + line for line in old[at:end]]
    new_start, new_end = first.new_start - before, last.new_end + after
    old_count, new_count = end - start, new_end - new_start
    return Hunk(start + (1 if old_count else 0), old_count, new_start + (1 if new_count else 0), new_count, lines)


def unified(old, new, name="text", context=3):
    """Return the unified diff of two texts; an empty one where they are the same."""
    hunks = hunks_of(old.splitlines(), new.splitlines(), context)
    if not hunks:
        return ""
    lines = [f"--- a/{name}", f"+++ b/{name}"]
    for hunk in hunks:
        lines.append(hunk.header)
        lines.extend(hunk.lines)
    return "\n".join(lines) + "\n"


def parse_patch(text):
    """Return file name -> hunks of a unified diff; ValueError where counts and lines disagree."""
    files, current = {}, None
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("+++ "):
            name = line[4:].split("\t")[0]
            current = files.setdefault(name.removeprefix("b/"), [])
            continue
        found = _HEADER.match(line)
        if not found:
            continue
        if current is None:
            raise ValueError("a hunk comes before the name of its file")
        old_start, old_count, new_start, new_count = (1 if part is None else int(part) for part in found.groups())
        body, old_left, new_left = [], old_count, new_count
        while old_left > 0 or new_left > 0:
            line = next(lines, None)
            if line is None or (line and line[0] not in " +-"):
                raise ValueError(f"hunk at line {old_start} is shorter than it says")
            line = line or " "
            body.append(line)
            old_left -= line[0] in " -"
            new_left -= line[0] in " +"
        current.append(Hunk(old_start, old_count, new_start, new_count, body))
    return files
