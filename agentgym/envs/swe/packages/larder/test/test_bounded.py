import pytest
from larder import DelayQueue, PriorityQueue, RateLimiter, RingBuffer, TokenBucket, TopK, memoize


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def ring(size, items):
    buffer = RingBuffer(size)
    for item in items:
        buffer.append(item)
    return buffer


def test_ring_keeps_the_last():
    assert list(ring(3, range(5))) == [2, 3, 4]
    assert list(ring(3, range(2))) == [0, 1]


def test_ring_says_what_goes():
    buffer = ring(2, "ab")
    assert buffer.full
    assert buffer.append("c") == "a"
    assert ring(2, "a").append("b") is None


def test_ring_pop():
    buffer = ring(3, range(5))
    assert [buffer.pop(), buffer.pop()] == [2, 3]
    assert len(buffer) == 1
    buffer.append(9)
    assert list(buffer) == [4, 9]


def test_ring_pop_of_nothing():
    with pytest.raises(IndexError, match="empty"):
        RingBuffer(2).pop()


def test_ring_index():
    buffer = ring(3, range(5))
    assert (buffer[0], buffer[2], buffer[-1], buffer[-3]) == (2, 4, 4, 2)
    for wrong in (3, -4):
        with pytest.raises(IndexError):
            buffer[wrong]


def test_ring_mean():
    buffer = ring(3, [1, 2, 3, 7])
    assert buffer.mean() == 4
    assert buffer.mean(2) == 5
    assert buffer.mean(0) == 0
    assert RingBuffer(2).mean() == 0


def test_ring_size():
    with pytest.raises(ValueError, match="at least 1"):
        RingBuffer(0)


def test_top_k():
    top = TopK(3)
    top.extend([4, 1, 9, 7, 2])
    assert top.sorted() == [9, 7, 4]


def test_top_k_by_key():
    top = TopK(2, key=len)
    top.extend(["aa", "b", "cccc", "ddd"])
    assert top.sorted() == ["cccc", "ddd"]


def test_top_k_prefers_the_first_of_equals():
    top = TopK(2, key=len)
    assert top.add("a1")
    assert top.add("b2")
    assert not top.add("c3")
    assert top.sorted() == ["a1", "b2"]


def test_top_k_threshold():
    top = TopK(2)
    top.add(5)
    assert top.threshold is None
    top.add(3)
    assert top.threshold == 3
    top.add(4)
    assert top.threshold == 4


def test_priorities():
    queue = PriorityQueue()
    for item, priority in (("c", 3), ("a", 1), ("b", 2)):
        queue.push(item, priority)
    assert [queue.pop() for _ in range(3)] == ["a", "b", "c"]


def test_equal_priorities_keep_their_order():
    queue = PriorityQueue()
    for item in "zyx":
        queue.push(item)
    assert [queue.pop() for _ in range(3)] == ["z", "y", "x"]


def test_a_priority_may_change():
    queue = PriorityQueue()
    queue.push("a", 1)
    queue.push("b", 2)
    queue.push("a", 3)
    assert len(queue) == 2
    assert queue.priority("a") == 3
    assert [queue.pop(), queue.pop()] == ["b", "a"]


def test_remove_and_peek():
    queue = PriorityQueue()
    queue.push("a", 1)
    queue.push("b", 2)
    queue.remove("a")
    assert "a" not in queue
    assert queue.peek() == "b"
    assert len(queue) == 1
    with pytest.raises(KeyError):
        queue.remove("a")


def test_an_empty_queue():
    queue = PriorityQueue()
    with pytest.raises(IndexError):
        queue.pop()
    with pytest.raises(IndexError):
        queue.peek()


def test_delays(clock):
    queue = DelayQueue(clock)
    queue.put("late", 5)
    queue.put("soon", 2)
    queue.put("now")
    assert queue.ready() == ["now"]
    assert queue.wait() == 2
    clock.now = 5
    assert queue.ready() == ["soon", "late"]
    assert queue.wait() is None


def test_delays_with_a_limit(clock):
    queue = DelayQueue(clock)
    for item in "abc":
        queue.put(item)
    assert queue.ready(2) == ["a", "b"]
    assert len(queue) == 1
    assert queue.wait() == 0


def test_rate_limit(clock):
    limiter = RateLimiter(2, 10, clock)
    assert [limiter.allow() for _ in range(3)] == [True, True, False]
    clock.now = 9
    assert not limiter.allow()
    clock.now = 10
    assert limiter.allow()


def test_rate_limit_remaining_and_wait(clock):
    limiter = RateLimiter(2, 10, clock)
    limiter.allow()
    assert limiter.remaining() == 1
    assert limiter.wait() == 0
    clock.now = 4
    limiter.allow()
    assert limiter.remaining() == 0
    assert limiter.wait() == 6


def test_bucket(clock):
    bucket = TokenBucket(2, 10, clock)
    assert bucket.spend(10)
    assert not bucket.spend(1)
    clock.now = 3
    assert bucket.tokens == 6
    assert bucket.spend(4)
    assert bucket.tokens == 2


def test_bucket_is_never_fuller_than_its_capacity(clock):
    bucket = TokenBucket(2, 10, clock)
    clock.now = 60
    assert bucket.tokens == 10


def test_bucket_wait(clock):
    bucket = TokenBucket(2, 10, clock)
    bucket.spend(10)
    assert bucket.wait(5) == 2.5
    clock.now = 5
    assert bucket.wait(5) == 0
    with pytest.raises(ValueError, match="never"):
        bucket.wait(11)


def test_memoize():
    calls = []

    @memoize()
    def double(number, plus=0):
        calls.append(number)
        return 2 * number + plus

    assert [double(1), double(1), double(2), double(1, plus=1)] == [2, 2, 4, 3]
    assert calls == [1, 2, 1]
    assert double.cache.misses == 3
    assert double.cache.hits == 1
    assert double.__name__ == "double"


def test_memoize_skip():
    calls = []

    @memoize(skip=lambda result: result is None)
    def find(key):
        calls.append(key)
        return None if key == "missing" else key

    for key in ("missing", "missing", "here", "here"):
        find(key)
    assert calls == ["missing", "missing", "here"]


def test_memoize_key_and_forget():
    calls = []

    @memoize(key=lambda word: word.lower())
    def shout(word):
        calls.append(word)
        return word.upper()

    shout("a")
    shout("A")
    assert calls == ["a"]
    assert shout.forget("A")
    assert not shout.forget("A")
    shout("A")
    assert calls == ["a", "A"]


def test_memoize_capacity():
    calls = []

    @memoize(capacity=1)
    def same(item):
        calls.append(item)
        return item

    for item in (1, 2, 1):
        same(item)
    assert calls == [1, 2, 1]
