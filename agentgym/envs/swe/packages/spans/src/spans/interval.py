"""One interval of numbers, closed on the left and open on the right."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Interval:
    """All numbers x with start <= x < end. An interval whose ends are equal is empty."""

    start: float
    end: float

    def __post_init__(self):
        if self.end < self.start:
            raise ValueError(f"interval ends before it starts: {self.start} > {self.end}")

    @property
    def length(self):
        """Distance between the ends."""
        return self.end - self.start

    @property
    def empty(self):
        """Whether it holds no number."""
        return self.start == self.end

    def __contains__(self, number):
        return self.start <= number < self.end

    def overlaps(self, other):
        """Whether some number lies in both."""
        return max(self.start, other.start) < min(self.end, other.end)

    def touches(self, other):
        """Whether one ends where the other begins, or they overlap."""
        if self.empty or other.empty:
            return False
        return self.start <= other.end and other.start <= self.end

    def covers(self, other):
        """Whether every number of the other lies in this one; the empty interval is covered by all."""
        if other.empty:
            return True
        return self.start <= other.start and other.end <= self.end

    def intersection(self, other):
        """Return what lies in both, or None."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        if start >= end:
            return None
        return Interval(start, end)

    def hull(self, other):
        """Return the smallest interval that covers both."""
        if self.empty:
            return other
        if other.empty:
            return self
        return Interval(min(self.start, other.start), max(self.end, other.end))

    def gap(self, other):
        """Return the distance between two intervals; 0 where they touch or overlap."""
        return max(0, max(self.start, other.start) - min(self.end, other.end))

    def minus(self, other):
        """Return what is left without the other: a list of no, one or two intervals."""
        if not self.overlaps(other):
            return [] if self.empty else [self]
        left = []
        if self.start < other.start:
            left.append(Interval(self.start, other.start))
        if other.end < self.end:
            left.append(Interval(other.end, self.end))
        return left

    def shift(self, distance):
        """Return the interval moved to the right."""
        return Interval(self.start + distance, self.end + distance)

    def widen(self, left, right=None):
        """Return the interval with its ends moved outwards, both by `left` unless `right` is given."""
        right = left if right is None else right
        start, end = self.start - left, self.end + right
        if end < start:
            middle = (self.start + self.end) / 2
            return Interval(middle, middle)
        return Interval(start, end)

    def split(self, *points):
        """Cut the interval at points; those outside of it, or at its ends, cut nothing."""
        cuts = sorted({point for point in points if self.start < point < self.end})
        bounds = [self.start, *cuts, self.end]
        return [Interval(low, high) for low, high in zip(bounds, bounds[1:])]

    def chunks(self, size):
        """Cut the interval into pieces of a size; the last may be shorter."""
        if size <= 0:
            raise ValueError(f"size of a chunk is {size}; expected more than 0")
        pieces = []
        at = self.start
        while at < self.end:
            pieces.append(Interval(at, min(at + size, self.end)))
            at += size
        return pieces

    def clamp(self, number):
        """Return the closest number within the closed interval."""
        return min(max(number, self.start), self.end)
