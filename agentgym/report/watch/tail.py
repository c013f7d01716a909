"""Incremental reader of a file that another process appends to; it detects truncated and rewritten lines."""

import os
import zlib
from array import array
from pathlib import Path
from typing import IO

BUDGET = 16 << 20
"""Maximum bytes of one read, unless a single line is longer."""
EDGE = 256
"""Bytes at each end of a line that its checksum covers; even similar episodes differ at the end, in their seconds."""


class Tail:
    """Reads the complete lines of a growing file; an incomplete last line is left for the next read.

    A resumed run truncates its files to the last checkpoint and continues. Therefore the position and checksum of each line
    are stored, and the last known line is verified before more is read. If it has changed, the longest unchanged prefix is
    found by bisection, and everything after it is read again. In-place edits of earlier lines are not detected.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end = 0
        """Offset in bytes of the end of the last known line."""
        self.size = 0
        """Size of the file in bytes at the last read."""
        self.behind = False
        """True if the last read stopped before the end of the file."""
        self._starts, self._marks = array("Q"), array("I")
        self._seen: tuple[int, int, int] | None = None

    def __len__(self) -> int:
        return len(self._starts)

    def look(self, budget: int = BUDGET) -> tuple[int, list[bytes]]:
        """Read about `budget` bytes; return the number of known lines that are unchanged, and the lines read after them."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                seen = (status.st_ino, status.st_size, status.st_mtime_ns)
                if seen == self._seen and not self.behind:
                    return len(self), []
                replaced = self._seen is not None and self._seen[0] != status.st_ino
                self._seen, self.size = seen, status.st_size
                self._cut(0 if replaced else self._standing(file))
                size_before = len(self)
                return size_before, self._read(file, budget)
        except (FileNotFoundError, NotADirectoryError):
            self._cut(0)
            self._seen, self.size, self.behind = None, 0, False
            return 0, []

    def line(self, number: int) -> bytes:
        """Return line `number` (counted from 0), read from the file again; empty if the file no longer reaches it."""
        try:
            with self.path.open("rb") as file:
                return self._again(file, number)
        except OSError:
            return b""

    def _read(self, file: IO[bytes], budget: int) -> list[bytes]:
        file.seek(self.end)
        content = file.read(budget)
        while len(content) >= budget and b"\n" not in content[-budget:] and (more := file.read(budget)):
            content += more
        lines = content.split(b"\n")[:-1]  # an incomplete last line is left for later
        at = self.end
        for line in lines:
            self._starts.append(at)
            self._marks.append(_mark(line))
            at += len(line) + 1
        self.behind = self.end + len(content) < self.size and bool(lines)
        self.end = at
        return lines

    def _standing(self, file: IO[bytes]) -> int:
        """Return the number of known lines before the first one that changed in the file."""
        low, high = 0, len(self)
        if high == 0 or (self.end <= self.size and self._stands(file, high - 1)):
            return high
        while low < high:
            middle = (low + high) // 2
            if self._stands(file, middle):
                low = middle + 1
            else:
                high = middle
        return low

    def _stands(self, file: IO[bytes], number: int) -> bool:
        line = self._again(file, number)
        return line.endswith(b"\n") and _mark(line[:-1]) == self._marks[number]

    def _again(self, file: IO[bytes], number: int) -> bytes:
        start = self._starts[number]
        file.seek(start)
        return file.read((self._starts[number + 1] if number + 1 < len(self) else self.end) - start)

    def _cut(self, lines: int) -> None:
        if lines < len(self):
            self.end = self._starts[lines]
            del self._starts[lines:], self._marks[lines:]


def _mark(line: bytes) -> int:
    return zlib.crc32(line if len(line) <= 2 * EDGE else line[:EDGE] + line[-EDGE:])
