import pytest

from inkwell import render
from inkwell.filters import default, escape, indent, join, number, pad, plural, slug, truncate, wrap


def test_filters_follow_one_another():
    assert render("{{ name | lower | capitalize }}", name="ADA") == "Ada"


def test_arguments():
    assert render("{{ xs | join: ' / ' }}", xs=[1, 2]) == "1 / 2"
    assert render("{{ xs | join: ', ', ' and ' }}", xs="abc") == "a, b and c"


def test_arguments_may_be_names_and_hold_separators():
    assert render("{{ xs | join: mark }}", xs=[1, 2], mark="-") == "1-2"
    assert render("{{ xs | join: '|' }}", xs=[1, 2]) == "1|2"
    assert render("{{ xs | join: ':' }}", xs=[1, 2]) == "1:2"


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [
        ("short", 10, "short"),
        ("exactly10!", 10, "exactly10!"),
        ("the quick brown fox", 12, "the quick..."),
        ("the quick brown fox", 14, "the quick..."),
        ("incomprehensible", 8, "incom..."),
    ],
)
def test_truncate(text, length, expected):
    assert truncate(text, length) == expected


def test_truncate_with_another_ending():
    assert truncate("abcdefgh", 5, "~") == "abcd~"


def test_slug():
    assert slug("  Hello, World & 2 more! ") == "hello-world-2-more"


@pytest.mark.parametrize(("count", "expected"), [(0, "s"), (1, ""), (2, "s")])
def test_plural(count, expected):
    assert plural(count) == expected


def test_plural_words():
    assert plural(1, "y", "ies") == "y"
    assert plural(3, "y", "ies") == "ies"


def test_join_of_few():
    assert join([], last=" and ") == ""
    assert join(["a"], last=" and ") == "a"
    assert join(["a", "b"], last=" and ") == "a and b"


def test_indent():
    assert indent("a\nb\n\nc", 2) == "a\n  b\n\n  c"
    assert indent("a\nb", 2, True) == "  a\n  b"


def test_number():
    assert number(1234567) == "1,234,567"
    assert number(1234.567, 2) == "1,234.57"
    assert number(1234567, 0, " ") == "1 234 567"


def test_escape_once():
    assert escape('a & "b" <c>') == "a &amp; &quot;b&quot; &lt;c&gt;"


def test_default():
    assert default(None, "x") == "x"
    assert default("", "x") == ""
    assert default("", "x", True) == "x"
    assert default(0, "x") == 0


def test_default_in_a_template():
    assert render("{{ who | default: 'nobody' }}") == "nobody"


def test_wrap():
    assert wrap("aaa bbb ccc", 7) == "aaa bbb\nccc"


def test_pad():
    assert pad("ab", 4) == "ab  "
    assert pad("ab", 4, "right") == "  ab"
    assert pad("ab", 4, "center") == " ab "


def test_first_and_last():
    assert render("{{ xs | first }}{{ xs | last }}", xs=[1, 2, 3]) == "13"
    assert render("[{{ xs | first }}{{ xs | last }}]", xs=[]) == "[]"


def test_sort_by_a_key():
    people = [{"n": "b", "age": 1}, {"n": "a", "age": 2}]
    assert render("{% for p in people | sort: 'n' %}{{ p.age }}{% endfor %}", people=people) == "21"


def test_length():
    assert render("{{ xs | length }}", xs=[4, 5]) == "2"
