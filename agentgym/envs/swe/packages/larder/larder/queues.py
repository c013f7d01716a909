"""Queues: by priority, and by time."""

import heapq
import itertools
import time


class PriorityQueue:
    """Items by priority, the smallest number first; equals in the order they came. Priorities may change."""

    def __init__(self):
        self._heap = []
        self._entries = {}
        self._counter = itertools.count()

    def push(self, item, priority=0):
        """Add an item, or give one that is here another priority."""
        if item in self._entries:
            self.remove(item)
        entry = [priority, next(self._counter), item, True]
        self._entries[item] = entry
        heapq.heappush(self._heap, entry)

    def remove(self, item):
        """Take an item out; KeyError where it is not here."""
        self._entries.pop(item)[3] = False

    def pop(self):
        """Take the first item; IndexError where there is none."""
        while self._heap:
            _, _, item, valid = heapq.heappop(self._heap)
            if valid:
                del self._entries[item]
                return item
        raise IndexError("the queue is empty")

    def peek(self):
        """Return the first item and leave it; IndexError where there is none."""
        while self._heap and not self._heap[0][3]:
            heapq.heappop(self._heap)
        if not self._heap:
            raise IndexError("the queue is empty")
        return self._heap[0][2]

    def priority(self, item):
        """Return the priority of an item; KeyError where it is not here."""
        return self._entries[item][0]

    def __len__(self):
        return len(self._entries)

    def __contains__(self, item):
        return item in self._entries


class DelayQueue:
    """Items that are ready only after a time."""

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._heap = []
        self._counter = itertools.count()

    def put(self, item, delay=0):
        """Add an item that is ready in so many seconds."""
        heapq.heappush(self._heap, (self._clock() + max(delay, 0), next(self._counter), item))

    def ready(self, limit=None):
        """Take the items that are ready, the earliest first; at most `limit`."""
        found = []
        now = self._clock()
        while self._heap and self._heap[0][0] <= now and (limit is None or len(found) < limit):
            found.append(heapq.heappop(self._heap)[2])
        return found

    def wait(self):
        """Return the seconds until the next item is ready; None where there is none."""
        if not self._heap:
            return None
        return max(self._heap[0][0] - self._clock(), 0)

    def __len__(self):
        return len(self._heap)
