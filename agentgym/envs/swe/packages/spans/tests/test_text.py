import pytest
from spans import Interval, IntervalSet, format_interval, parse_interval, parse_set


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 5)", Interval(1, 5)),
        ("[ -2 ,3.5 )", Interval(-2, 3.5)),
        ("1..4", Interval(1, 4)),
        (" 0.5 .. 2 ", Interval(0.5, 2)),
        ("7", Interval(7, 8)),
    ],
)
def test_parse(text, expected):
    assert parse_interval(text) == expected


@pytest.mark.parametrize("text", ["", "[1, 5]", "1-4", "a..b", "[1)"])
def test_no_interval(text):
    with pytest.raises(ValueError, match="no interval"):
        parse_interval(text)


def test_whole_numbers_stay_whole():
    assert isinstance(parse_interval("3..4").start, int)


def test_parse_set():
    assert parse_set("1..3; [5, 6); ; 3") == IntervalSet([Interval(1, 4), Interval(5, 6)])
    assert parse_set("1..3|7", separator="|") == IntervalSet([Interval(1, 3), Interval(7, 8)])


def test_format():
    assert format_interval(Interval(1, 5)) == "[1, 5)"
    assert format_interval(Interval(0.25, 1.5)) == "[0.25, 1.5)"


def test_format_rounds():
    assert format_interval(Interval(0.126, 2.5), digits=2) == "[0.13, 2.5)"
    assert format_interval(Interval(1.0, 20.0), digits=1) == "[1, 20)"
    assert format_interval(Interval(10, 20.0), digits=0) == "[10, 20)"
