"""Functions that remember what they returned."""

import functools

from larder.caches import LRUCache


def memoize(capacity=128, key=None, skip=None):
    """Return a decorator that remembers results.

    `key` makes the key from the arguments; results for which `skip` is true are not kept. The cache is the function's
    `cache`; `forget(…)` drops what is kept for some arguments and says whether there was something.
    """

    def decorate(function):
        cache = LRUCache(capacity)

        def key_of(args, kwargs):
            if key is not None:
                return key(*args, **kwargs)
            return args, tuple(sorted(kwargs.items()))

        @functools.wraps(function)
        def remembering(*args, **kwargs):
            place = key_of(args, kwargs)
            if place in cache:
                return cache.get(place)
            cache.misses += 1
            result = function(*args, **kwargs)
            if skip is None or not skip(result):
                cache[place] = result
            return result

        def forget(*args, **kwargs):
            return cache.pop(key_of(args, kwargs), _NOTHING) is not _NOTHING

        remembering.cache = cache
        remembering.forget = forget
        return remembering

    return decorate


_NOTHING = object()
