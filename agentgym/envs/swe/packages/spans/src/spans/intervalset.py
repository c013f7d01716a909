"""Sets of numbers that are unions of intervals."""

from bisect import bisect_right

from spans.interval import Interval


class IntervalSet:
    """A union of intervals, kept sorted, disjoint and merged where they touch."""

    def __init__(self, intervals=()):
        self._parts = self._merged(intervals)

    @staticmethod
    def _merged(intervals):
        merged = []
        for part in sorted(intervals):
            if part.empty:
                continue
            if merged and part.start <= merged[-1].end:
                merged[-1] = Interval(merged[-1].start, max(merged[-1].end, part.end))
            else:
                merged.append(part)
        return merged

    @property
    def parts(self):
        """Its intervals from left to right, as a list of the caller's own."""
        return list(self._parts)

    def __iter__(self):
        return iter(self._parts)

    def __len__(self):
        return len(self._parts)

    def __bool__(self):
        return bool(self._parts)

    def __eq__(self, other):
        return isinstance(other, IntervalSet) and self._parts == other._parts

    def __hash__(self):
        return hash(tuple(self._parts))

    def __repr__(self):
        return f"IntervalSet({self._parts!r})"

    @property
    def measure(self):
        """Sum of the lengths."""
        return sum(part.length for part in self._parts)

    def find(self, number):
        """Return the interval that holds a number, or None."""
        place = bisect_right(self._parts, number, key=lambda part: part.start) - 1
        if place >= 0 and number in self._parts[place]:
            return self._parts[place]
        return None

    def __contains__(self, number):
        return self.find(number) is not None

    def __or__(self, other):
        return IntervalSet([*self._parts, *other._parts])

    def __and__(self, other):
        found = []
        mine, theirs = 0, 0
        while mine < len(self._parts) and theirs < len(other._parts):
            one, two = self._parts[mine], other._parts[theirs]
            common = one.intersection(two)
            if common is not None:
                found.append(common)
            if one.end < two.end:
                mine += 1
            else:
                theirs += 1
        return IntervalSet(found)

    def __sub__(self, other):
        left = list(self._parts)
        for hole in other._parts:
            left = [piece for part in left for piece in part.minus(hole)]
        return IntervalSet(left)

    def __xor__(self, other):
        return (self - other) | (other - self)

    def add(self, interval):
        """Put an interval into this set."""
        self._parts = self._merged([*self._parts, interval])

    def discard(self, interval):
        """Take the numbers of an interval out of this set."""
        self._parts = (self - IntervalSet([interval]))._parts

    def complement(self, within):
        """Return what an interval holds beyond this set."""
        return IntervalSet([within]) - self

    def gaps(self):
        """Return the intervals between its parts."""
        return [Interval(one.end, two.start) for one, two in zip(self._parts, self._parts[1:])]

    def closed(self, distance):
        """Return the set with all gaps of at most a distance filled."""
        parts = []
        for part in self._parts:
            if parts and part.start - parts[-1].end <= distance:
                parts[-1] = Interval(parts[-1].start, part.end)
            else:
                parts.append(part)
        return IntervalSet(parts)

    def longest(self):
        """Return the longest part, the first of them where several are; None for the empty set."""
        return max(self._parts, key=lambda part: part.length, default=None)

    def first_fit(self, size, after=float("-inf")):
        """Return the first place at or after a number where a piece of a size fits into one part; None if there is none."""
        for part in self._parts:
            start = max(part.start, after)
            if start + size <= part.end:
                return start
        return None

    @classmethod
    def coverage(cls, intervals, times=2):
        """Return the numbers that at least so many of the intervals hold."""
        events = []
        for part in intervals:
            if not part.empty:
                events.append((part.start, 1))
                events.append((part.end, -1))
        found, depth, since = [], 0, None
        for place, change in sorted(events):
            before, depth = depth, depth + change
            if before < times <= depth:
                since = place
            elif depth < times <= before:
                found.append(Interval(since, place))
        return cls(found)
