"""Values as data with exact types, and when two of them are the same."""

import json
import math
from collections import Counter, OrderedDict, deque, namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.code.grading.compare import equal, same, same_lines, same_words
from agentgym.envs.code.grading.tests import read_answers
from agentgym.rewards.programs.values import NotData, as_source, pack, sorted_through, unpack

plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
keys = st.booleans() | st.integers() | st.text() | st.tuples(st.integers(), st.text())
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.sets(keys, max_size=4)
        | st.frozensets(keys, max_size=4)
    ),
    max_leaves=12,
)


def kinds(value: object) -> object:
    """Return a value with the type of everything in it."""
    if isinstance(value, dict):
        return dict, sorted((repr(kinds(k)), repr(kinds(v))) for k, v in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        inner = [repr(kinds(one)) for one in value]
        return type(value), inner if isinstance(value, list | tuple) else sorted(inner)
    return type(value), repr(value + 0.0 if type(value) in (float, complex) else value)  # -0.0 is packed as 0.0


@given(values)
def test_every_value_comes_back_with_its_types(value):
    packed = pack(value)
    again = unpack(json.loads(json.dumps(packed)))
    assert again == value and kinds(again) == kinds(value)
    assert same(packed, pack(again)) and equal(packed, pack(again))
    assert same(sorted_through(packed), packed)


@given(values, values)
def test_same_is_equality_with_types(one, two):
    assert same(pack(one), pack(two)) == (one == two and kinds(one) == kinds(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (1, True),
        (0, False),
        (1, 1.0),
        ([1], [True]),
        ((1,), [1]),
        ({1}, frozenset({1})),
        ({1: 2}, {True: 2}),
        ({1: 2}, {1: 2.0}),
    ],
)
def test_what_python_or_a_glance_takes_for_equal_is_not_the_same(one, two):
    assert not same(pack(one), pack(two)) and not same(pack(two), pack(one))


def test_tolerance_is_for_floats_alone():
    assert same(pack([1.0, 100.0]), pack([1.0 + 5e-7, 100.00005]), 1e-6)
    assert not same(pack(1.0), pack(1.0 + 5e-6), 1e-6) and not same(pack(3), pack(4), 1.0)
    assert (
        same(pack(math.nan), pack(math.nan)) and same(pack(math.inf), pack(math.inf), 1e-6) and same(pack(0.0), pack(-0.0))
    )
    assert not same(pack(math.nan), pack(1.0), 1e-6) and not same(pack(1.0), pack(math.nan), 1e-6)


def test_equal_takes_tuples_for_lists():
    assert equal(pack([1, (2, 3)]), pack([1, [2, 3]])) and equal(pack(2), pack(2.0)) and not equal(pack([1]), pack([2]))
    assert equal(pack(0.3), pack(0.1 + 0.2), 1e-9) and not equal(pack(0.3), pack(0.1 + 0.2))


class Whole(int):
    pass


@pytest.mark.parametrize(
    "value", [Whole(3), [Whole(3)], {Whole(3): 1}, object(), len, range(3), iter([]), deque(), namedtuple("P", "x")(1)]
)
def test_what_is_no_plain_data_is_refused(value):
    with pytest.raises(NotData):
        pack(value)


def test_dictionaries_of_collections_are_dictionaries():
    assert pack(Counter("aab")) == pack({"a": 2, "b": 1}) and same(pack(OrderedDict(b=1, a=2)), pack({"a": 2, "b": 1}))


def test_depth_and_size_are_bounded():
    deep: list = []
    for _ in range(50):
        deep = [deep]
    for value in (deep, [0] * 200_000):
        with pytest.raises(NotData, match="deeper than 40 levels or holds more than 100000"):
            pack(value)


@pytest.mark.parametrize(
    "packed",
    [
        1.5,
        {},
        {"f": 3},
        {"f": "x"},
        {"t": "ab"},
        {"q": []},
        {"d": [[1]]},
        {"d": [[[1], 2]]},
        {"s": [[1]]},
        {"c": ["0x0p+0"]},
        {"b": "zz"},
        {"a": 1, "f": 2},
    ],
)
def test_data_that_stands_for_nothing_is_refused(packed):
    with pytest.raises(NotData):
        unpack(packed)


def test_values_are_shown_as_python_writes_them():
    for value in (
        [1, "a'b", None, True],
        (1,),
        (1, 2.5),
        {"a": [1], 2: ()},
        {1, 2},
        set(),
        frozenset({3}),
        b"x",
        1 + 2j,
        {},
    ):
        assert as_source(pack(value)) == repr(value)


def test_lines_and_words():
    assert same_lines("1 2\n3\n", " 1 2 \n3") and same_lines("0.50", "0.5") and not same_lines("1 2\n3", "1 2 3")
    assert not same_lines("abc", "ABC") and not same_lines("1", "1.1") and not same_lines("a 1", "a 1.0")
    assert same_words("1 2\n3", "1\n2 3\n") and same_words("0.333333", "0.3333334") and not same_words("3", "3.0")
    assert not same_words("yes", "YES") and not same_words("1 2", "1 2 3") and not same_words("1.5", "nan")


def test_answers_are_read_only_as_far_as_they_are_in_order():
    assert read_answers(b'[0, 5, null]\n[1, null, "E"]\n', 2) == [[5, None], [None, "E"]]
    assert read_answers(b"[1, 5, null]\n", 2) == [] == read_answers(b"", 2)
    assert read_answers(b"[0, 5, null]\n[0, 6, null]\n[1, 7, null]", 2) == [[5, None]]
    assert read_answers(b'[0, 5, null]\n[1, {"f": 1}, null]', 2) == [[5, None]]
    assert read_answers(b"[true, 5, null]", 1) == [] == read_answers(b"[0, 5]\n", 1)
    assert read_answers(b"[0, " + b"[" * 100_000 + b"]" * 100_000 + b", null]", 1) == []
    assert read_answers(b"[0, " + b"9" * 10_000 + b", null]", 1) == []
    assert read_answers(b'[-1, null, "no"]\n', 3) == "no"
    assert read_answers(b'[0, 5, null]\n[-1, null, "no"]\n', 3) == [[5, None]]


def test_nothing_is_near_to_infinity_but_itself():
    assert not same_words("INF", "5") and not same_words("infinity", "-3.5") and same_words("INF", "INF")
    assert not same(pack(math.inf), pack(5.0), 1e-6) and same(pack(math.inf), pack(math.inf), 1e-6)
    assert not equal(pack(math.inf), pack(5.0), 1e-6) and equal(pack(math.inf), pack(math.inf), 1e-6)


def test_a_tolerance_holds_for_floats_inside_of_a_value():
    assert equal(pack([1.0, {"a": 2.0}]), pack((1.0000001, {"a": 2})), 1e-6)
    assert not equal(pack([1.0, {"a": 2.0}]), pack([1.0, {"a": 2.1}]), 1e-6)
    assert not equal(pack([1.0]), pack([1.0, 1.0]), 1e-6) and not equal(pack({"a": 1.0}), pack({"b": 1.0}), 1e-6)
    assert not equal(pack([3]), pack([3.0000001]), 1e-6) and not equal(pack([1.0]), pack([1.0000001]))


@pytest.mark.parametrize("tag", ["s", "z", "d"])
def test_keys_that_all_have_one_hash_are_refused(tag):
    numbers = [n * (2**61 - 1) for n in range(1, 200)]  # the hash of each is 0
    with pytest.raises(NotData, match="same hash"):
        unpack({tag: [[n, n] for n in numbers] if tag == "d" else numbers})
    assert unpack({"s": numbers[:50]}) == set(numbers[:50]) and len(unpack({"s": list(range(1000))})) == 1000
