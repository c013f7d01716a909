import pytest
from abacus import ExpressionError, Name, Number, evaluate, parse, show, tokenize, variables


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("2 ^ 3 ^ 2", 512),
        ("-2 ^ 2", -4),
        ("(-2) ^ 2", 4),
        ("2 ^ -1", 0.5),
        ("2 * -3", -6),
        ("- -3", 3),
        ("+4 - +1", 3),
        ("7 % 4 * 2", 6),
        ("12 / 3 / 2", 2),
        (".5 + 1.", 1.5),
        ("1 + 1 < 3", True),
        ("3 >= 4", False),
        ("2 == 2", True),
        ("2 != 2", False),
        ("2 <= 2", True),
        ("2 > 2", False),
    ],
)
def test_binding(text, value):
    assert evaluate(text) == value


def test_tokens_have_positions():
    assert tokenize(" 12+ab") == [("number", "12", 1), ("sign", "+", 3), ("name", "ab", 4), ("end", "", 6)]


def test_numbers_stay_whole():
    assert parse("12") == Number(12)
    assert isinstance(parse("12").value, int)
    assert isinstance(parse("12.0").value, float)


def test_names():
    assert parse("rate_2") == Name("rate_2")


@pytest.mark.parametrize(
    ("text", "position", "said"),
    [
        ("", 0, "unexpected end"),
        ("1 +", 3, "unexpected end"),
        ("1 + * 2", 4, r"unexpected '\*'"),
        ("(1 + 2", 6, r"expected '\)'"),
        ("1 2", 2, "unexpected '2'"),
        ("a $ b", 2, r"unexpected '\$'"),
        ("nothing(1)", 0, "no function"),
        ("2 + sqrt(1, 2)", 4, "does not take 2"),
        ("max()", 0, "does not take 0"),
    ],
)
def test_errors_have_positions(text, position, said):
    with pytest.raises(ExpressionError, match=said) as error:
        parse(text)
    assert error.value.position == position


@pytest.mark.parametrize(
    "text",
    [
        "a + b * c",
        "(a + b) * c",
        "a - (b - c)",
        "a - b - c",
        "a ^ b ^ c",
        "(a ^ b) ^ c",
        "-a ^ 2",
        "(-a) ^ 2",
        "max(a, b + 1)",
    ],
)
def test_show_uses_the_brackets_that_are_needed(text):
    assert show(parse(text)) == text


def test_show_leaves_out_brackets():
    assert show(parse("((a * b)) + (c)")) == "a * b + c"
    assert show(parse("(a + b) - c")) == "a + b - c"


def test_variables_in_order():
    assert variables("b * (a + b) - max(c, a)") == ["b", "a", "c"]
    assert variables("-z / pi") == ["z"]
    assert variables("1 + 2") == []
