from spans import Interval, IntervalSet


def make(*pairs):
    return IntervalSet(Interval(*pair) for pair in pairs)


def test_merges_what_overlaps_or_touches():
    assert make((4, 6), (0, 2), (2, 3), (5, 9)).parts == [Interval(0, 3), Interval(4, 9)]


def test_a_part_inside_another_vanishes():
    assert make((0, 9), (2, 4)).parts == [Interval(0, 9)]


def test_empty_parts_are_left_out():
    assert make((3, 3)).parts == []
    assert not make((3, 3))
    assert make((3, 4))


def test_parts_is_a_copy():
    numbers = make((0, 1))
    numbers.parts.append(Interval(5, 6))
    assert len(numbers) == 1


def test_equal_and_hash():
    assert make((0, 1), (1, 2)) == make((0, 2))
    assert hash(make((0, 1), (1, 2))) == hash(make((0, 2)))
    assert make((0, 1)) != make((0, 2))


def test_measure():
    assert make((0, 2), (5, 9)).measure == 6


def test_find():
    numbers = make((0, 2), (5, 9))
    assert numbers.find(5) == Interval(5, 9)
    assert numbers.find(1) == Interval(0, 2)
    assert numbers.find(2) is None
    assert numbers.find(-1) is None
    assert numbers.find(12) is None


def test_contains():
    assert 8 in make((0, 2), (5, 9))
    assert 9 not in make((0, 2), (5, 9))


def test_union():
    assert make((0, 2)) | make((1, 4), (6, 7)) == make((0, 4), (6, 7))


def test_intersection():
    assert make((0, 4), (6, 9)) & make((2, 7)) == make((2, 4), (6, 7))


def test_intersection_with_many():
    assert make((0, 10)) & make((1, 2), (3, 4), (9, 12)) == make((1, 2), (3, 4), (9, 10))


def test_difference():
    assert make((0, 10)) - make((2, 3), (5, 6)) == make((0, 2), (3, 5), (6, 10))


def test_symmetric_difference():
    assert make((0, 4)) ^ make((2, 6)) == make((0, 2), (4, 6))


def test_add():
    numbers = make((0, 1), (4, 5))
    numbers.add(Interval(1, 4))
    assert numbers.parts == [Interval(0, 5)]


def test_discard():
    numbers = make((0, 5))
    numbers.discard(Interval(1, 2))
    assert numbers.parts == [Interval(0, 1), Interval(2, 5)]


def test_complement():
    assert make((2, 3), (5, 8)).complement(Interval(0, 6)) == make((0, 2), (3, 5))


def test_gaps():
    assert make((0, 1), (3, 4), (9, 10)).gaps() == [Interval(1, 3), Interval(4, 9)]
    assert make((0, 1)).gaps() == []


def test_closed():
    assert make((0, 1), (2, 3), (6, 7)).closed(1) == make((0, 3), (6, 7))
    assert make((0, 1), (2, 3), (6, 7)).closed(3) == make((0, 7))


def test_longest():
    assert make((0, 1), (3, 6), (8, 11)).longest() == Interval(3, 6)
    assert make().longest() is None


def test_first_fit():
    free = make((0, 2), (5, 9))
    assert free.first_fit(2) == 0
    assert free.first_fit(3) == 5
    assert free.first_fit(1, after=1.5) == 5
    assert free.first_fit(2, after=7) == 7
    assert free.first_fit(5) is None


def test_coverage():
    calls = [Interval(0, 5), Interval(3, 8), Interval(4, 6)]
    assert IntervalSet.coverage(calls) == make((3, 6))
    assert IntervalSet.coverage(calls, times=3) == make((4, 5))
    assert IntervalSet.coverage(calls, times=1) == make((0, 8))


def test_coverage_of_neighbours():
    assert not IntervalSet.coverage([Interval(0, 2), Interval(2, 4)])
