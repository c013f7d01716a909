from datetime import date

import pytest
from spans import DayRange, business_days, month_of, weeks
from spans.days import add_business_days


def days(first, last):
    return DayRange(date.fromisoformat(first), date.fromisoformat(last))


def test_length_counts_both_ends():
    assert len(days("2024-02-27", "2024-03-01")) == 4


def test_iterates_over_every_day():
    assert [day.day for day in days("2023-12-30", "2024-01-02")] == [30, 31, 1, 2]


def test_contains_both_ends():
    stretch = days("2024-01-05", "2024-01-07")
    assert date(2024, 1, 5) in stretch
    assert date(2024, 1, 7) in stretch
    assert date(2024, 1, 8) not in stretch


def test_backwards_is_refused():
    with pytest.raises(ValueError, match="comes after"):
        days("2024-01-05", "2024-01-04")


def test_overlap():
    assert days("2024-01-01", "2024-01-10").overlap(days("2024-01-10", "2024-01-20")) == days("2024-01-10", "2024-01-10")
    assert days("2024-01-01", "2024-01-09").overlap(days("2024-01-10", "2024-01-20")) is None


def test_adjacent_either_way():
    early, late = days("2024-01-01", "2024-01-31"), days("2024-02-01", "2024-02-03")
    assert early.adjacent(late)
    assert late.adjacent(early)
    assert not early.adjacent(days("2024-02-02", "2024-02-03"))


def test_join():
    assert days("2024-01-01", "2024-01-31").join(days("2024-02-01", "2024-02-03")) == days("2024-01-01", "2024-02-03")
    assert days("2024-01-01", "2024-01-31").join(days("2024-01-03", "2024-01-04")) == days("2024-01-01", "2024-01-31")


def test_join_needs_ranges_that_meet():
    with pytest.raises(ValueError, match="do not meet"):
        days("2024-01-01", "2024-01-31").join(days("2024-02-02", "2024-02-03"))


def test_months():
    assert days("2023-12-30", "2024-02-02").months() == [
        days("2023-12-30", "2023-12-31"),
        days("2024-01-01", "2024-01-31"),
        days("2024-02-01", "2024-02-02"),
    ]


@pytest.mark.parametrize(("month", "length"), [(1, 31), (2, 29), (4, 30), (12, 31)])
def test_month_of(month, length):
    found = month_of(date(2024, month, 17))
    assert found.first == date(2024, month, 1)
    assert len(found) == length


def test_weeks_from_monday():
    parts = weeks(days("2024-05-01", "2024-05-14"))  # from a Wednesday to a Tuesday
    assert [len(part) for part in parts] == [5, 7, 2]


def test_weeks_from_sunday():
    parts = weeks(days("2024-05-01", "2024-05-14"), starts_on=6)
    assert [len(part) for part in parts] == [4, 7, 3]


def test_business_days_of_whole_weeks():
    assert business_days(days("2024-05-01", "2024-05-14")) == 10


def test_business_days_of_a_part_of_a_week():
    assert business_days(days("2024-05-03", "2024-05-06")) == 2
    assert business_days(days("2024-05-04", "2024-05-05")) == 0


def test_holidays_count_once_and_only_on_working_days():
    holidays = [date(2024, 5, 1), date(2024, 5, 1), date(2024, 5, 5), date(2024, 6, 3)]
    assert business_days(days("2024-05-01", "2024-05-14"), holidays) == 9


def test_add_business_days():
    friday = date(2024, 5, 3)
    assert add_business_days(friday, 1) == date(2024, 5, 6)
    assert add_business_days(friday, 0) == friday
    assert add_business_days(date(2024, 5, 6), -1) == friday
    assert add_business_days(friday, 1, [date(2024, 5, 6)]) == date(2024, 5, 7)
