"""Containers of a fixed size."""

import heapq


class RingBuffer:
    """The last so many items, oldest first."""

    def __init__(self, size):
        if size < 1:
            raise ValueError(f"size is {size}; expected at least 1")
        self._slots = [None] * size
        self._start = 0
        self._count = 0

    def __len__(self):
        return self._count

    @property
    def full(self):
        """Whether the next item puts out the oldest."""
        return self._count == len(self._slots)

    def append(self, item):
        """Add an item and return the one it puts out, or None."""
        end = (self._start + self._count) % len(self._slots)
        out = self._slots[end] if self.full else None
        self._slots[end] = item
        if self._count == len(self._slots):
            self._start = (self._start + 1) % len(self._slots)
        else:
            self._count += 1
        return out

    def pop(self):
        """Take the oldest item; IndexError where there is none."""
        if not self._count:
            raise IndexError("the buffer is empty")
        item = self._slots[self._start]
        self._slots[self._start] = None
        self._start = (self._start + 1) % len(self._slots)
        self._count -= 1
        return item

    def __getitem__(self, index):
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError(f"index out of range: {index}")
        return self._slots[(self._start + index) % len(self._slots)]

    def __iter__(self):
        for index in range(self._count):
            yield self[index]

    def mean(self, last=None):
        """Return the mean of the last so many items, or of all; 0 where there are none."""
        items = list(self)
        if last is not None:
            items = items[-last:] if last else []
        return sum(items) / len(items) if items else 0.0


class TopK:
    """The k largest items by a key; among equals the one that came first stays."""

    def __init__(self, k, key=None):
        if k < 1:
            raise ValueError(f"k is {k}; expected at least 1")
        self.k = k
        self.key = key if key is not None else lambda item: item
        self._heap = []
        self._seen = 0

    def add(self, item):
        """Take in an item; return whether it is among the largest so far."""
        entry = (self.key(item), -self._seen, item)
        self._seen += 1
        if len(self._heap) < self.k:
            heapq.heappush(self._heap, entry)
            return True
        if entry[:2] <= self._heap[0][:2]:
            return False
        heapq.heapreplace(self._heap, entry)
        return True

    def extend(self, items):
        """Take in many items."""
        for item in items:
            self.add(item)

    def sorted(self):
        """Return the items, largest first."""
        return [entry[2] for entry in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)]

    @property
    def threshold(self):
        """The key that an item must exceed to get in; None while there is room."""
        return self._heap[0][0] if len(self._heap) == self.k else None
