"""Numbers are read by a grammar and compared exactly, or within the tolerance of a decimal."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.rewards.numeric import read_number, same_number


def same(answer: str, wanted: str) -> bool | None:
    number, gold = read_number(answer), read_number(wanted)
    assert gold is not None
    return None if number is None else same_number(number, gold)


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("42", "42"),
        (" 42. ", "42"),
        ("42.0", "42"),
        ("+42", "42"),
        ("−42", "-42"),
        ("$42", "42"),
        ("\\$1,234.50", "1234.5"),
        ("1,234,567", "1234567"),
        ("1{,}234", "1234"),
        ("$42$", "42"),
        ("\\(42\\)", "42"),
        ("\\boxed{42}", "42"),
        ("\\boxed{\\boxed{5}}", "5"),
        ("$\\boxed{\\frac{3}{4}}$", "3/4"),
        ("**42**", "42"),
        ("x = 42", "42"),
        ("$x=-3$", "-3"),
        ("3/4", "0.75"),
        ("6/8", "3/4"),
        ("-6/8", "-3/4"),
        ("6/-8", "-3/4"),
        ("\\dfrac{6}{8}", "3/4"),
        ("-\\frac{6}{8}", "-3/4"),
        ("\\frac34", "3/4"),
        ("1 3/4", "7/4"),
        ("1\\frac{3}{4}", "1.75"),
        (".5", "1/2"),
        ("1.5e3", "1500"),
        ("1.5 \\times 10^{3}", "1500"),
        ("1.5*10**3", "1500"),
        ("0.3333333", "1/3"),
        ("2.9999999999", "3"),
        ("25%", "25"),
        ("25\\%", "1/4"),
        ("25", "25%"),
        ("0.25", "25%"),
    ],
)
def test_right_spellings(answer: str, wanted: str) -> None:
    assert same(answer, wanted) is True


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("41", "42"),
        ("-42", "42"),
        ("0.333", "1/3"),
        ("0.33333", "1/3"),
        ("1000000000001.0", "1000000000000"),
        ("1e12", "1000000000001"),
        ("41.99999", "42"),
        ("4/3", "3/4"),
        ("1,234", "1.234"),
        ("0.25", "25"),
        ("25", "1/4"),
    ],
)
def test_other_numbers(answer: str, wanted: str) -> None:
    assert same(answer, wanted) is False


@pytest.mark.parametrize(
    "answer",
    [
        *("", " ", "nan", "NaN", "inf", "-Infinity", "1e999999", "1e9999", "oo", "\\infty", "None", "True"),
        *("5 or 6", "5, 6", "5;6", "5 6", "{5, 6}", "[5]", "5±1", "\\pm 5", "5 and 6", "x=5 or x=6", "5\n6", "5=6"),
        *("\\boxed{5}\\boxed{6}", "\\boxed{5} \\boxed{6}", "$5$ $6$", "between 5 and 6"),
        *("٤٢", "４２", "⁴²", "Ⅳ", "½", "4२", "1_000", "0x2A", "0b1", "4L", "4j", "--4", "+-4", "4+", "2+2", "2*3"),
        *("9**9**9**9", "10^{10^{10}}", "2^10", "1/0", "1/2/3", "\\frac{1}{0}", "\\frac{1}{2", "12,34", "1,2345", "1."[1:]),
        *("9" * 5000, "1" * 10**6, "(" * 10**5, "{" * 10**5, "\\frac{" * 10**5, "x" * 10**6, "-" * 10**6, "$" * 10**6),
        *("42 apples", "about 42", "the answer is 42", "42\x00", "\ud800", "<b>42</b>", "__import__('os')"),
    ],
)
def test_all_else_is_no_number(answer: str) -> None:
    assert read_number(answer) is None


@given(st.fractions(), st.fractions())
def test_fractions_are_equal_where_their_values_are(a, b) -> None:
    written = read_number(f"\\frac{{{a.numerator}}}{{{a.denominator}}}")
    assert written is not None and written.value == a
    assert same(str(b), str(a)) is (a == b)


@given(st.text(max_size=60))
def test_any_text_is_read_without_a_stumble(text) -> None:
    found = read_number(text)
    assert found is None or any(character in "0123456789" for character in text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.\\overline{3}", Fraction(1, 3)),
        ("0.1\\overline{6}", Fraction(1, 6)),
        ("-1.2(3)", Fraction(-37, 30)),
        ("0.\\bar3", Fraction(1, 3)),
        (".\\overline{9}", Fraction(1)),
        ("1,234.\\overline{5}", Fraction(11111, 9)),
        ("0.\\overline{012}", Fraction(4, 333)),
        ("0.\\overline{0}", Fraction(0)),
    ],
)
def test_repeating_decimals_are_exact(text, value):
    number = read_number(text)
    assert number is not None and number.value == value and not number.rounded


@pytest.mark.parametrize("text", ["0.\\overline{}", "\\overline{3}", "0.()", "0.3(", "1(2)", "0.\\overline{-3}"])
def test_what_repeats_nothing_is_no_number(text):
    assert read_number(text) is None


def test_a_decimal_is_taken_at_its_word():
    """0.33 is 33/100 for GSM8K (the same text), MATH (the same text) and math-verify (six digits), and never 1/3."""
    third, gold = read_number("1/3"), read_number("0.33")
    assert third and gold and not same_number(third, gold) and not same_number(gold, third)
    assert same_number(read_number("0.330"), gold) and same_number(read_number("0.3333333"), third)
