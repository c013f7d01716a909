import pytest
from abacus import ExpressionError, Number, derivative, evaluate, parse, show, simplify


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + 0", "x"),
        ("0 + x", "x"),
        ("x - 0", "x"),
        ("0 - x", "-x"),
        ("x - x", "0"),
        ("x * 1", "x"),
        ("1 * x", "x"),
        ("x * 0", "0"),
        ("0 * x", "0"),
        ("x / 1", "x"),
        ("x ^ 1", "x"),
        ("x ^ 0", "1"),
        ("2 + 3 * 4", "14"),
        ("x + -y", "x - y"),
        ("--x", "x"),
        ("(x + 0) * (3 - 2)", "x"),
        ("max(x + 0, 1 * 2)", "max(x, 2)"),
        ("1 - x", "1 - x"),
        ("x / 2", "x / 2"),
        ("1 / 0", "1 / 0"),
    ],
)
def test_simplify(text, expected):
    assert show(simplify(parse(text))) == expected


def test_simplify_negative_numbers():
    assert simplify(parse("-3")) == Number(-3)
    assert show(simplify(parse("x * -3"))) == "x * (-3)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", "0"),
        ("x", "1"),
        ("y", "0"),
        ("3 * x", "3"),
        ("x + y", "1"),
        ("x - 4", "1"),
        ("-x", "-1"),
        ("x * y", "y"),
        ("x ^ 2", "2 * x"),
        ("x ^ 3", "3 * x ^ 2"),
        ("sin(x)", "cos(x)"),
        ("cos(x)", "-sin(x)"),
        ("exp(x)", "exp(x)"),
        ("log(x)", "1 / x"),
        ("sin(2 * x)", "cos(2 * x) * 2"),
    ],
)
def test_derivative(text, expected):
    assert show(derivative(text, "x")) == expected


@pytest.mark.parametrize("text", ["x ^ 2 * sin(x)", "x / (x + 1)", "exp(x ^ 2) - x", "log(x) / x", "(x + 1) ^ 3"])
def test_derivative_agrees_with_differences(text):
    step = 1e-6
    slope = (evaluate(text, x=2 + step) - evaluate(text, x=2 - step)) / (2 * step)
    assert evaluate(derivative(text, "x"), x=2) == pytest.approx(slope, rel=1e-6)


def test_derivative_by_another_variable():
    assert show(derivative("x ^ 2 * y", "y")) == "x ^ 2"


def test_what_has_no_derivative_here():
    with pytest.raises(ExpressionError, match=r"no derivative of floor\(x\)"):
        derivative("1 + floor(x)", "x")
