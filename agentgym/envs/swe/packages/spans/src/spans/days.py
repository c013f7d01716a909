"""Stretches of calendar days, both ends included."""

from dataclasses import dataclass
from datetime import date, timedelta

DAY = timedelta(days=1)
SATURDAY = 5


@dataclass(frozen=True, order=True)
class DayRange:
    """All days from first to last."""

    first: date
    last: date

    def __post_init__(self):
        if self.last < self.first:
            raise ValueError(f"{self.first} comes after {self.last}")

    def __len__(self):
        return (self.last - self.first).days + 1

    def __iter__(self):
        day = self.first
        while day <= self.last:
            yield day
            day += DAY

    def __contains__(self, day):
        return self.first <= day <= self.last

    def overlap(self, other):
        """Return the days in both, or None."""
        first, last = max(self.first, other.first), min(self.last, other.last)
        return DayRange(first, last) if first <= last else None

    def adjacent(self, other):
        """Whether one begins the day after the other ends."""
        return self.last + DAY == other.first or other.last + DAY == self.first

    def join(self, other):
        """Return one range for two that overlap or are adjacent; ValueError for others."""
        if self.overlap(other) is None and not self.adjacent(other):
            raise ValueError("ranges do not meet")
        return DayRange(min(self.first, other.first), max(self.last, other.last))

    def months(self):
        """Return the part of the range in each month, in order."""
        parts = []
        day = self.first
        while day <= self.last:
            end = min(month_of(day).last, self.last)
            parts.append(DayRange(day, end))
            day = end + DAY
        return parts


def month_of(day):
    """Return the whole month that a day is in."""
    first = day.replace(day=1)
    if first.month == 12:
        following = date(first.year + 1, 1, 1)
    else:
        following = date(first.year, first.month + 1, 1)
    return DayRange(first, following - DAY)


def weeks(days, starts_on=0):
    """Cut a range into weeks; `starts_on` is the weekday they begin with (0 for Monday). The outer ones may be shorter."""
    parts = []
    first = days.first
    while first <= days.last:
        ahead = (starts_on - first.weekday() - 1) % 7
        last = min(first + ahead * DAY, days.last)
        parts.append(DayRange(first, last))
        first = last + DAY
    return parts


def business_days(days, holidays=()):
    """Return how many days of a range are neither in a weekend nor holidays."""
    free = {day for day in holidays if day in days and day.weekday() < SATURDAY}
    full, rest = divmod(len(days), 7)
    count = full * 5
    for number in range(rest):
        if (days.first + number * DAY).weekday() < SATURDAY:
            count += 1
    return count - len(free)


def add_business_days(day, count, holidays=()):
    """Return the day that is so many working days later, or earlier for a negative count."""
    step = DAY if count >= 0 else -DAY
    left = abs(count)
    closed = set(holidays)
    while left:
        day += step
        if day.weekday() < SATURDAY and day not in closed:
            left -= 1
    return day
