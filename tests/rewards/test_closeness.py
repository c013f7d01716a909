"""Numbers of math-verify compared exactly, or relative to their size, wherever they stand.

math-verify 0.9.0 by itself calls two numbers equal that differ by less than 1e-15 (findings/math-verify-small-numbers.sh).
"""

from fractions import Fraction
from math import factorial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.rewards.expressions import compare, verify
from agentgym.rewards.numeric import read_number, same_number

pytest.importorskip("math_verify", reason="the extra `math` is not installed")

EQUAL = [
    ("1/20!", "1/20!"),
    ("\\frac{1}{2432902008176640000}", "1/20!"),
    ("(\\frac{5}{6})^{200}", "(5/6)^{200}"),
    ("\\sqrt{6}", "\\sqrt2\\sqrt3"),
    ("\\frac{1}{\\sqrt{10^{12}+1}+10^6}", "\\sqrt{10^{12}+1}-10^6"),
    ("1.414214", "\\sqrt{2}"),
    ("0.00141421356", "\\frac{\\sqrt{2}}{1000}"),
    ("\\{2,1/20!\\}", "\\{1/20!, 2\\}"),
    ("\\begin{pmatrix} \\frac{1}{2^{100}} & 1 \\end{pmatrix}", "\\begin{pmatrix} \\frac{1}{2^{100}} & 1 \\end{pmatrix}"),
    ("0.5x", "\\frac{x}{2}"),
    ("x/2", "0.5x"),
    ("3+4i", "4i+3"),
    ("\\pi^{-100}", "\\pi^{-100}"),
    ("e^{-100}", "\\frac{1}{e^{100}}"),
    ("2^{9999}", "2\\cdot 2^{9998}"),
    ("\\sin(\\pi/7)", "\\cos(5\\pi/14)"),
    ("0.1+0.2x", "0.2x+0.1"),
    ("\\frac{1}{2}\\%", "0.5\\%"),
    ("\\infty", "\\infty"),
    ("2i", "(1+i)^2"),
    ("-1", "e^{i\\pi}"),
    ("\\frac{1+i}{\\sqrt2}", "e^{i\\pi/4}"),
    ("354224848179261915075", "\\frac{(1+\\sqrt5)^{100}-(1-\\sqrt5)^{100}}{2^{100}\\sqrt5}"),
    ("\\sqrt{5+2\\sqrt6}", "\\sqrt2+\\sqrt3"),
    ("\\sqrt[3]{2+\\sqrt5}", "\\frac{1+\\sqrt5}{2}"),
    ("\\tan(\\pi/8)", "\\sqrt2-1"),
]
DIFFERENT = [
    ("(5/6)^{199}", "(5/6)^{200}"),
    ("1/21!", "1/20!"),
    ("\\frac{1}{3\\cdot 2^{2006}}", "\\frac{2^{2005}+1}{3\\cdot 2^{2006}}"),
    ("\\sqrt{10^{12}+1}-10^6", "\\sqrt{10^{12}+2}-10^6"),
    ("\\sqrt{2}+10^{-30}", "\\sqrt{2}"),
    ("1.4142", "\\sqrt{2}"),
    ("0.0014", "\\frac{\\sqrt{2}}{1000}"),
    ("\\{1/21!, 2\\}", "\\{1/20!, 2\\}"),
    ("[0, 1/21!)", "[0, 1/20!)"),
    ("(1/21!, 5)", "(1/20!, 5)"),
    ("\\begin{pmatrix} \\frac{1}{2^{100}} & 1 \\end{pmatrix}", "\\begin{pmatrix} \\frac{1}{2^{101}} & 1 \\end{pmatrix}"),
    ("\\frac{x}{21!}", "\\frac{x}{20!}"),
    ("y=\\frac{x}{2^{100}}", "y=\\frac{x}{2^{101}}"),
    ("1+\\frac{i}{2^{80}}", "1+\\frac{i}{2^{81}}"),
    ("e^{-100}", "e^{-101}"),
    ("2^{9999}", "2^{9998}"),
    ("\\binom{100}{50}2^{-100}", "\\binom{100}{49}2^{-100}"),
    ("\\{0.000001, 3\\}", "\\{0, 3\\}"),
    ("-\\infty", "\\infty"),
    ("(999/1000)^{9999}", "(999/1000)^{9998}"),
    ("x<1/21!", "x<1/20!"),
    ("1", "1-e^{-100}"),
    ("1", "1-e^{-9999}"),
    ("\\sqrt{2}+10^{-50}", "\\sqrt{2}"),
    ("(1+\\sqrt2)^{500}", "(1+\\sqrt2)^{500}+1"),
    ("\\frac{(1+\\sqrt5)^{100}}{2^{100}\\sqrt5}", "\\frac{(1+\\sqrt5)^{100}-(1-\\sqrt5)^{100}}{2^{100}\\sqrt5}"),
    ("\\sqrt{5+2\\sqrt6}+10^{-450}", "\\sqrt2+\\sqrt3"),
    ("-2i", "(1+i)^2"),
    ("\\frac{1-i}{\\sqrt2}", "e^{i\\pi/4}"),
]


@pytest.mark.parametrize(("answer", "gold"), EQUAL)
def test_the_same_value(answer, gold):
    assert verify(answer, gold) is True


@pytest.mark.parametrize(("answer", "gold"), DIFFERENT)
def test_another_value(answer, gold):
    assert verify(answer, gold) is False
    assert not verify(gold, answer)


@pytest.mark.parametrize("power", ["(\\sqrt2+\\sqrt3)^{9999}", "(10^{999})^{999}", "e^{e^{e^{9}}}", "\\cos(1)^{9999}"])
def test_a_large_power_is_decided_without_expanding_it(power):
    assert verify(power, "\\sqrt2") is False  # None is a comparison that was stopped


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 400), st.integers(1, 400))
@settings(deadline=None, max_examples=40)
def test_powers_of_fractions_are_exact(base, other, power, last):
    wanted = Fraction(base, other) ** power == Fraction(base, other) ** last
    assert compare(f"(\\frac{{{base}}}{{{other}}})^{{{power}}}", f"(\\frac{{{base}}}{{{other}}})^{{{last}}}") is wanted


@given(st.integers(1, 60), st.integers(1, 60))
@settings(deadline=None, max_examples=25)
def test_factorials_are_exact(first, second):
    assert compare(f"\\frac{{1}}{{{first}!}}", f"\\frac{{1}}{{{second}!}}") is (factorial(first) == factorial(second))


def test_the_packages_own_comparison_is_put_back():
    from math_verify import grader

    theirs = grader.sympy_numeric_eq
    compare("1/21!", "1/20!")
    assert grader.sympy_numeric_eq is theirs and theirs.__module__ == "math_verify.grader"


@pytest.mark.parametrize(
    ("answer", "gold", "wanted"),
    [
        ("0.0000001", "0", False),
        ("1e-9", "0", False),
        ("0.0", "0", True),
        ("1e-10", "2e-10", False),
        ("0", "1e-10", False),
        ("6.0220001e23", "6.022e23", True),
        ("6.0221e23", "6.022e23", False),
        ("2.9999999", "3", True),
    ],
)
def test_decimals_are_relative_to_their_size(answer, gold, wanted):
    assert same_number(read_number(answer), read_number(gold)) is wanted
