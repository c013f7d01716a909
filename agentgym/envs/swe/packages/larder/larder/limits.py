"""Limits on how often something is done."""

import time
from collections import deque


class RateLimiter:
    """At most so many calls within any stretch of some seconds."""

    def __init__(self, calls, seconds, clock=time.monotonic):
        self.calls = calls
        self.seconds = seconds
        self._clock = clock
        self._times = deque()

    def _forget(self):
        now = self._clock()
        while self._times and self._times[0] <= now - self.seconds:
            self._times.popleft()
        return now

    def allow(self):
        """Whether a call may be made now; if so, it is counted."""
        now = self._forget()
        if len(self._times) >= self.calls:
            return False
        self._times.append(now)
        return True

    def remaining(self):
        """Return how many calls may be made now."""
        self._forget()
        return self.calls - len(self._times)

    def wait(self):
        """Return the seconds until a call may be made."""
        now = self._forget()
        if len(self._times) < self.calls:
            return 0
        return self._times[-self.calls] + self.seconds - now


class TokenBucket:
    """Tokens that come in at a rate, up to a capacity, and are spent."""

    def __init__(self, rate, capacity, clock=time.monotonic):
        self.rate = rate
        self.capacity = capacity
        self._clock = clock
        self._tokens = capacity
        self._last = clock()

    @property
    def tokens(self):
        """How many there are now."""
        now = self._clock()
        self._tokens = min(self._tokens + (now - self._last) * self.rate, self.capacity)
        self._last = now
        return self._tokens

    def spend(self, count=1):
        """Spend tokens, all or none; return whether there were enough."""
        if count > self.tokens:
            return False
        self._tokens -= count
        return True

    def wait(self, count=1):
        """Return the seconds until there are so many; ValueError where there never will be."""
        if count > self.capacity:
            raise ValueError(f"{count} tokens will never be there: the capacity is {self.capacity}")
        return max(count - self.tokens, 0) / self.rate
