"""Caches and containers that hold only so much."""

from larder.bounded import RingBuffer, TopK
from larder.caches import LFUCache, LRUCache, TTLCache
from larder.limits import RateLimiter, TokenBucket
from larder.memo import memoize
from larder.queues import DelayQueue, PriorityQueue

__all__ = [
    "DelayQueue",
    "LFUCache",
    "LRUCache",
    "PriorityQueue",
    "RateLimiter",
    "RingBuffer",
    "TTLCache",
    "TokenBucket",
    "TopK",
    "memoize",
]
