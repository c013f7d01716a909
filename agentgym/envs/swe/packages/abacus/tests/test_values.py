import math

import pytest
from abacus import ExpressionError, evaluate, parse


def test_variables():
    assert evaluate("x * y + 1", x=2, y=5) == 11


def test_a_tree_may_be_evaluated_often():
    tree = parse("x ^ 2")
    assert [evaluate(tree, x=number) for number in (1, 2, 3)] == [1, 4, 9]


def test_a_variable_without_value():
    with pytest.raises(ExpressionError, match="no value for 'y'"):
        evaluate("x + y", x=1)


def test_constants():
    assert evaluate("pi") == math.pi
    assert evaluate("e") == math.e
    assert evaluate("pi", pi=3) == 3


def test_division_of_whole_numbers():
    assert isinstance(evaluate("6 / 3"), int)
    assert evaluate("7 / 2") == 3.5
    assert isinstance(evaluate("6.0 / 3"), float)


@pytest.mark.parametrize("text", ["1 / 0", "1 % 0", "0 ^ -1", "1 / (2 - 2)"])
def test_division_by_zero(text):
    with pytest.raises(ExpressionError, match="division by zero"):
        evaluate(text)


def test_zero_to_a_power():
    assert evaluate("0 ^ 2") == 0
    assert evaluate("0 ^ 0") == 1


def test_roots_of_negative_numbers():
    with pytest.raises(ExpressionError, match="root of a negative"):
        evaluate("(-8) ^ 0.5")
    assert evaluate("(-8) ^ 2") == 64


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("abs(-3)", 3),
        ("min(3, 1, 2)", 1),
        ("max(3, 1, 2)", 3),
        ("round(2.567, 1)", 2.6),
        ("round(2.4)", 2),
        ("floor(-1.5)", -2),
        ("ceil(1.2)", 2),
        ("sqrt(16)", 4),
        ("log(8, 2)", 3),
        ("exp(0)", 1),
        ("sin(0) + cos(0)", 1),
    ],
)
def test_functions(text, value):
    assert evaluate(text) == pytest.approx(value)


def test_functions_outside_of_their_domain():
    with pytest.raises(ExpressionError, match="sqrt has no value"):
        evaluate("sqrt(-1)")


def test_if():
    assert evaluate("if(x > 2, 10, 20)", x=3) == 10
    assert evaluate("if(x > 2, 10, 20)", x=2) == 20


def test_if_works_out_one_side_only():
    assert evaluate("if(x == 0, 0, 1 / x)", x=0) == 0
    assert evaluate("if(x != 0, 1 / x, 0)", x=0) == 0


def test_no_expression():
    with pytest.raises(TypeError):
        evaluate(["1"])
