import pytest
from larder import LFUCache, LRUCache, TTLCache


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def filled(cache, keys):
    for key in keys:
        cache[key] = key.upper()
    return cache


@pytest.mark.parametrize("kind", [LRUCache, LFUCache])
def test_capacity_must_be_positive(kind):
    with pytest.raises(ValueError, match="at least 1"):
        kind(0)


@pytest.mark.parametrize("kind", [LRUCache, LFUCache])
def test_holds_at_most_its_capacity(kind):
    cache = filled(kind(2), "abc")
    assert len(cache) == 2
    assert "c" in cache


def test_lru_forgets_the_oldest():
    assert list(filled(LRUCache(2), "abc")) == ["b", "c"]


def test_lru_reading_is_use():
    cache = filled(LRUCache(2), "ab")
    assert cache["a"] == "A"
    cache["c"] = 1
    assert list(cache) == ["a", "c"]


def test_lru_writing_is_use():
    cache = filled(LRUCache(2), "ab")
    cache["a"] = 2
    cache["c"] = 1
    assert dict(cache.items()) == {"a": 2, "c": 1}


def test_lru_peek_is_no_use():
    cache = filled(LRUCache(2), "ab")
    assert cache.peek("a") == "A"
    assert cache.peek("z", 5) == 5
    cache["c"] = 1
    assert "a" not in cache


def test_lru_resize():
    out = []
    cache = filled(LRUCache(3, on_evict=lambda key, value: out.append(key)), "abc")
    cache.resize(1)
    assert out == ["a", "b"]
    with pytest.raises(ValueError, match="at least 1"):
        cache.resize(0)


def test_listener_hears_what_is_put_out():
    out = []
    filled(LRUCache(1, on_evict=lambda key, value: out.append((key, value))), "ab")
    assert out == [("a", "A")]


def test_deleting_is_not_putting_out():
    out = []
    cache = filled(LRUCache(2, on_evict=lambda key, value: out.append(key)), "ab")
    del cache["a"]
    assert out == []
    with pytest.raises(KeyError):
        cache["a"]


def test_hits_and_misses():
    cache = filled(LRUCache(2), "a")
    assert cache.hit_rate == 0.0
    cache.get("a")
    assert cache.get("z", 7) == 7
    cache.get("a")
    cache.get("a")
    assert (cache.hits, cache.misses) == (3, 1)
    assert cache.hit_rate == 0.75


def test_get_or_make():
    cache = LRUCache(2)
    assert cache.get_or_make("a", lambda: 1) == 1
    assert cache.get_or_make("a", lambda: 2) == 1


def test_get_or_make_keeps_none():
    cache = LRUCache(2)
    cache["a"] = None
    assert cache.get_or_make("a", lambda: 2) is None


def test_lfu_forgets_the_rarest():
    cache = filled(LFUCache(2), "ab")
    cache["a"]
    cache["c"] = 1
    assert set(cache) == {"a", "c"}


def test_lfu_forgets_the_oldest_among_equals():
    cache = filled(LFUCache(2), "ab")
    cache["a"]
    cache["b"]
    cache["c"] = 1
    assert set(cache) == {"b", "c"}


def test_lfu_counts_uses():
    cache = filled(LFUCache(2), "a")
    cache["a"]
    cache["a"] = 3
    assert cache.uses("a") == 3
    assert cache.uses("z") == 0


def test_lfu_begins_anew_with_a_key_that_comes_back():
    cache = filled(LFUCache(1), "a")
    cache["a"]
    cache["b"] = 1
    cache["a"] = 1
    assert cache.uses("a") == 1


def test_lfu_listener():
    out = []
    cache = filled(LFUCache(1, on_evict=lambda key, value: out.append((key, value))), "ab")
    cache["b"] = 2
    assert out == [("a", "A")]


def test_ttl_forgets_after_its_time(clock):
    cache = filled(TTLCache(3, 10, clock=clock), "a")
    clock.now += 9
    assert cache["a"] == "A"
    clock.now += 1
    assert "a" not in cache
    with pytest.raises(KeyError):
        cache["a"]


def test_ttl_length_counts_what_is_fresh(clock):
    cache = filled(TTLCache(3, 10, clock=clock), "a")
    clock.now += 5
    cache["b"] = 1
    clock.now += 5
    assert len(cache) == 1
    assert list(cache) == ["b"]


def test_ttl_writing_renews(clock):
    cache = filled(TTLCache(3, 10, clock=clock), "a")
    clock.now += 8
    cache["a"] = 2
    clock.now += 8
    assert cache["a"] == 2


def test_ttl_forgets_the_oldest_where_it_is_full(clock):
    cache = filled(TTLCache(2, 10, clock=clock), "ab")
    cache["a"] = 2
    cache["c"] = 1
    assert set(cache) == {"a", "c"}


def test_ttl_old_items_make_room_first(clock):
    cache = TTLCache(2, 10, clock=clock)
    cache["a"] = 1
    cache.set("b", 2, 3)
    clock.now += 5
    cache["c"] = 3
    assert set(cache) == {"a", "c"}


def test_ttl_expire_counts(clock):
    out = []
    cache = filled(TTLCache(3, 10, on_evict=lambda key, value: out.append(key), clock=clock), "ab")
    assert cache.expire() == 0
    clock.now += 10
    assert cache.expire() == 2
    assert out == ["a", "b"]


def test_ttl_left(clock):
    cache = filled(TTLCache(3, 10, clock=clock), "a")
    clock.now += 4
    assert cache.left("a") == 6
    clock.now += 40
    assert cache.left("a") == 0
    assert cache.left("z") == 0


def test_ttl_needs_a_time():
    with pytest.raises(ValueError, match="more than 0"):
        TTLCache(3, 0)
