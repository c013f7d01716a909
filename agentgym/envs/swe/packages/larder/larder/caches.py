"""Caches: mappings that forget what is used least, or is too old."""

import time
from collections import OrderedDict
from collections.abc import MutableMapping

_MISSING = object()


class Cache(MutableMapping):
    """What the caches have in common: a capacity, counts of hits and misses, and a listener for what is put out."""

    def __init__(self, capacity, on_evict=None):
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; expected at least 1")
        self.capacity = capacity
        self.on_evict = on_evict
        self.hits = 0
        self.misses = 0

    def get(self, key, default=None):
        """Return a value, and count whether it was there."""
        try:
            value = self[key]
        except KeyError:
            self.misses += 1
            return default
        self.hits += 1
        return value

    def get_or_make(self, key, make):
        """Return a value; one that is not there is made and kept."""
        value = self.get(key, _MISSING)
        if value is _MISSING:
            value = self[key] = make()
        return value

    @property
    def hit_rate(self):
        """Share of hits among the calls of `get`; 0 before the first."""
        calls = self.hits + self.misses
        return self.hits / calls if calls else 0.0

    def _put_out(self, key, value):
        if self.on_evict is not None:
            self.on_evict(key, value)


class LRUCache(Cache):
    """Forgets what was not used for longest."""

    def __init__(self, capacity, on_evict=None):
        super().__init__(capacity, on_evict)
        self._held = OrderedDict()

    def __getitem__(self, key):
        value = self._held[key]
        self._held.move_to_end(key)
        return value

    def __setitem__(self, key, value):
        if key in self._held:
            self._held.move_to_end(key)
        self._held[key] = value
        while len(self._held) > self.capacity:
            self._put_out(*self._held.popitem(last=False))

    def __delitem__(self, key):
        del self._held[key]

    def __iter__(self):
        return iter(list(self._held))  # reading a value while iterating changes the order

    def __len__(self):
        return len(self._held)

    def __contains__(self, key):
        return key in self._held

    def peek(self, key, default=None):
        """Return a value without counting that as use."""
        return self._held.get(key, default)

    def resize(self, capacity):
        """Change the capacity; what is too much goes at once."""
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; expected at least 1")
        self.capacity = capacity
        while len(self._held) > capacity:
            self._put_out(*self._held.popitem(last=False))


class LFUCache(Cache):
    """Forgets what was used least often; among equals, what was not used for longest."""

    def __init__(self, capacity, on_evict=None):
        super().__init__(capacity, on_evict)
        self._values = {}
        self._uses = {}
        self._clock = 0

    def _touch(self, key):
        self._clock += 1
        count, _ = self._uses.get(key, (0, 0))
        self._uses[key] = (count + 1, self._clock)

    def __getitem__(self, key):
        value = self._values[key]
        self._touch(key)
        return value

    def __setitem__(self, key, value):
        if key not in self._values and len(self._values) >= self.capacity:
            rarest = min(self._uses, key=self._uses.get)
            out = self._values.pop(rarest)
            del self._uses[rarest]
            self._put_out(rarest, out)
        self._values[key] = value
        self._touch(key)

    def __delitem__(self, key):
        del self._values[key]
        del self._uses[key]

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def __contains__(self, key):
        return key in self._values

    def uses(self, key):
        """Return how often a key was used; 0 for one that is not here."""
        return self._uses.get(key, (0, 0))[0]


class TTLCache(Cache):
    """Forgets what is older than so many seconds, and the oldest where there is too much."""

    def __init__(self, capacity, seconds, on_evict=None, clock=time.monotonic):
        super().__init__(capacity, on_evict)
        if seconds <= 0:
            raise ValueError(f"seconds is {seconds}; expected more than 0")
        self.seconds = seconds
        self._clock = clock
        self._held = OrderedDict()

    def _expired(self, key):
        return self._held[key][1] <= self._clock()

    def __getitem__(self, key):
        if key in self._held and self._expired(key):
            self._remove(key)
        return self._held[key][0]

    def _remove(self, key):
        value, _ = self._held.pop(key)
        self._put_out(key, value)

    def __setitem__(self, key, value):
        self.set(key, value, self.seconds)

    def set(self, key, value, seconds):
        """Keep a value for a time of its own."""
        self._held.pop(key, None)
        self.expire()
        while len(self._held) >= self.capacity:
            self._remove(next(iter(self._held)))
        self._held[key] = (value, self._clock() + seconds)

    def expire(self):
        """Forget all that is too old and return how many that were."""
        old = [key for key in self._held if self._expired(key)]
        for key in old:
            self._remove(key)
        return len(old)

    def left(self, key):
        """Return how many seconds a key will stay; 0 for one that is not here."""
        if key not in self._held:
            return 0
        return max(self._held[key][1] - self._clock(), 0)

    def __delitem__(self, key):
        del self._held[key]

    def __iter__(self):
        return iter([key for key in self._held if not self._expired(key)])

    def __len__(self):
        return sum(1 for _ in self)

    def __contains__(self, key):
        return key in self._held and not self._expired(key)
