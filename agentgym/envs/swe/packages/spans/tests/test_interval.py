import pytest
from spans import Interval


def test_length_and_emptiness():
    assert Interval(2, 5).length == 3
    assert not Interval(2, 5).empty
    assert Interval(4, 4).empty
    assert Interval(4, 4).length == 0


def test_backwards_is_refused():
    with pytest.raises(ValueError, match="before it starts"):
        Interval(3, 2)


@pytest.mark.parametrize(("number", "inside"), [(1, False), (2, True), (3, True), (5, False), (6, False)])
def test_contains(number, inside):
    assert (number in Interval(2, 5)) is inside


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ((0, 2), (1, 3), True),
        ((0, 2), (2, 3), False),
        ((0, 5), (1, 2), True),
        ((3, 4), (0, 3), False),
        ((1, 1), (0, 2), False),
    ],
)
def test_overlaps(one, two, expected):
    assert Interval(*one).overlaps(Interval(*two)) is expected
    assert Interval(*two).overlaps(Interval(*one)) is expected


def test_touches_at_the_ends():
    assert Interval(0, 2).touches(Interval(2, 3))
    assert Interval(2, 3).touches(Interval(0, 2))
    assert not Interval(0, 2).touches(Interval(3, 4))


def test_an_empty_interval_touches_nothing():
    assert not Interval(1, 1).touches(Interval(0, 2))
    assert not Interval(0, 2).touches(Interval(1, 1))


def test_covers():
    assert Interval(0, 5).covers(Interval(0, 5))
    assert Interval(0, 5).covers(Interval(1, 4))
    assert not Interval(0, 5).covers(Interval(1, 6))
    assert not Interval(1, 5).covers(Interval(0, 4))


def test_covers_the_empty_interval():
    assert Interval(0, 1).covers(Interval(7, 7))


def test_intersection():
    assert Interval(0, 4).intersection(Interval(2, 6)) == Interval(2, 4)
    assert Interval(0, 4).intersection(Interval(1, 2)) == Interval(1, 2)


def test_intersection_of_neighbours_is_none():
    assert Interval(0, 2).intersection(Interval(2, 4)) is None


def test_hull():
    assert Interval(0, 1).hull(Interval(5, 6)) == Interval(0, 6)
    assert Interval(5, 6).hull(Interval(0, 1)) == Interval(0, 6)


def test_hull_ignores_the_empty():
    assert Interval(9, 9).hull(Interval(1, 2)) == Interval(1, 2)
    assert Interval(1, 2).hull(Interval(9, 9)) == Interval(1, 2)


@pytest.mark.parametrize(("two", "expected"), [((5, 6), 3), ((2, 3), 0), ((1, 9), 0), ((-4, -1), 1)])
def test_gap(two, expected):
    assert Interval(0, 2).gap(Interval(*two)) == expected


def test_minus_in_the_middle():
    assert Interval(0, 10).minus(Interval(3, 5)) == [Interval(0, 3), Interval(5, 10)]


def test_minus_at_the_sides():
    assert Interval(0, 10).minus(Interval(-2, 4)) == [Interval(4, 10)]
    assert Interval(0, 10).minus(Interval(6, 12)) == [Interval(0, 6)]


def test_minus_all_and_nothing():
    assert Interval(0, 10).minus(Interval(0, 10)) == []
    assert Interval(0, 10).minus(Interval(20, 30)) == [Interval(0, 10)]
    assert Interval(3, 3).minus(Interval(5, 6)) == []


def test_shift():
    assert Interval(1, 3).shift(4) == Interval(5, 7)
    assert Interval(1, 3).shift(-1) == Interval(0, 2)


def test_widen():
    assert Interval(4, 6).widen(1) == Interval(3, 7)
    assert Interval(4, 6).widen(1, 2) == Interval(3, 8)
    assert Interval(4, 6).widen(1, 0) == Interval(3, 6)


def test_widen_by_less_than_nothing_ends_in_the_middle():
    assert Interval(4, 6).widen(-2) == Interval(5, 5)


def test_split():
    assert Interval(0, 6).split(4, 2) == [Interval(0, 2), Interval(2, 4), Interval(4, 6)]


def test_split_outside_and_at_the_ends_cuts_nothing():
    assert Interval(0, 6).split(0, 6, 9) == [Interval(0, 6)]


def test_chunks():
    assert Interval(0, 5).chunks(2) == [Interval(0, 2), Interval(2, 4), Interval(4, 5)]
    assert Interval(0, 4).chunks(2) == [Interval(0, 2), Interval(2, 4)]


def test_chunks_of_nothing_are_refused():
    with pytest.raises(ValueError, match="more than 0"):
        Interval(0, 5).chunks(0)


@pytest.mark.parametrize(("number", "expected"), [(-3, 0), (0, 0), (2, 2), (9, 5)])
def test_clamp(number, expected):
    assert Interval(0, 5).clamp(number) == expected


def test_order():
    assert sorted([Interval(2, 3), Interval(1, 9), Interval(1, 4)]) == [Interval(1, 4), Interval(1, 9), Interval(2, 3)]
