"""What a failing test observed, told from its source and from what pytest said."""

import pytest
from swe_quoted import TOLD

from agentgym.envs.swe.maker import issue
from agentgym.envs.swe.maker.issue import write_issue
from agentgym.envs.swe.maker.observation import Observation, observe

FILE = "tests/test_shop.py"
TESTS = '''import pytest
from shop import ShopError, cheapest, total

PRICES = [3, 1]


def doubled(prices):
    """A helper."""
    return [2 * price for price in prices]


@pytest.fixture
def basket():
    held = list(PRICES)
    return held


@pytest.mark.parametrize(("rate", "expected"), [(0, 4), (50, "2")])
def test_rates(rate, expected):
    assert str(total(PRICES, rate)) == expected


def test_helper():
    assert total([1]) == 1
    assert total(doubled([1, 2])) == 6


def test_fixture(basket):
    basket.append(9)
    assert cheapest(basket) == [1]


def test_refused():
    with pytest.raises(ShopError, match="too much"):
        total([1], 101)


def test_truth():
    assert not total([])


@pytest.mark.parametrize("rate", range(3))
def test_computed(rate):
    assert total([rate]) == rate


def test_sides():
    three = 3
    assert three is total([three])
    assert three in cheapest([three])


class TestOld:
    def test_method(self):
        assert total([5]) == 5

    def test_old(self):
        self.assertTrue(total([1]))
        self.assertEqual(total([2]), 2)

    def test_self(self):
        assert total(self.prices) == 5
'''
ORDER = [f"{FILE}::{name}" for name in ("test_rates[0-4]", "test_rates[50-2]", "test_helper", "test_computed[0]")]


def line_of(text: str) -> int:
    return TESTS[: TESTS.index(text)].count("\n") + 1


def seen(name: str, at: str, statement: str) -> Observation | None:
    message = f"{statement}\n{FILE}:{line_of(at)}: in {name}\n    …\nsrc/shop.py:7: in total\nE   …"
    return observe({FILE: TESTS.encode()}, f"{FILE}::{name}", message, ORDER)


def test_values_of_parameters_are_written_out() -> None:
    assert seen("test_rates[50-2]", "    assert str(", "AssertionError: assert '3' == '2'\n  - 2") == Observation(
        "value", "total", "from shop import total\n\nPRICES = [3, 1]\nstr(total(PRICES, 50))", "'3'", "'2'"
    )


def test_code_has_what_it_needs_of_the_module_and_no_other_checks() -> None:
    found = seen("test_helper", "    assert total(doubled", "assert 3 == 6\n +  where 3 = total([2, 4])")
    assert found is not None
    assert found.code.startswith("from shop import total\n\ndef doubled(prices):\n")
    assert found.code.endswith("\n\ntotal(doubled([1, 2]))") and "total([1])" not in found.code
    assert (found.got, found.expected) == ("3", "6")


def test_fixtures_become_lines() -> None:
    found = seen("test_fixture", "    assert cheapest", "TypeError: no `such` thing")
    assert found == Observation(
        "error",
        "cheapest",
        "from shop import cheapest\n\nPRICES = [3, 1]\n"
        "held = list(PRICES)\nbasket = held\nbasket.append(9)\ncheapest(basket)",
        "TypeError: no 'such' thing",
        "",
    )


@pytest.mark.parametrize(
    ("statement", "kind", "got", "expected"),
    [
        ("Failed: DID NOT RAISE <class 'shop.ShopError'>", "silent", "", "ShopError"),
        ("ValueError: odd", "message", "ValueError: odd", "ShopError"),
        (
            "AssertionError: Regex pattern did not match.\n  Expected regex: 'too much'\n  Actual message: 'what'",
            "message",
            "'what'",
            "'too much'",
        ),
    ],
)
def test_errors(statement: str, kind: str, got: str, expected: str) -> None:
    found = seen(
        "test_refused", "        total([1], 101)" if "Regex" not in statement else "    with pytest.raises", statement
    )
    assert found == Observation(kind, "total", "total([1], 101)", got, expected)


def test_truth_and_methods() -> None:
    assert seen("test_truth", "    assert not", "assert not 1\n +  where 1 = total([])") == Observation(
        "value", "total", "total([])", "", "false"
    )
    found = seen("TestOld::test_method", "        assert total([5])", "assert 4 == 5")
    assert found == Observation("value", "total", "total([5])", "4", "5")


def test_what_is_asked_about_may_stand_on_either_side() -> None:
    found = seen("test_sides", "    assert three is", "assert 4 is 3\n")
    assert found is not None
    assert (found.code.splitlines()[-1], found.got, found.expected) == ("total([three])", "3", "4")
    alike = seen("test_sides", "    assert three is", "assert x is x\n")
    assert alike is not None and (alike.got, alike.expected) == ("", "three")
    inside = seen("test_sides", "    assert three in", "KeyError: 3")
    assert inside is not None and inside.code.splitlines()[-1] == "three in cheapest([three])"


def test_unittest() -> None:
    found = seen("TestOld::test_old", "        self.assertEqual", "AssertionError: 3 != 2")
    assert found == Observation("value", "total", "total([2])", "3", "2")
    assert seen("TestOld::test_self", "        assert total(self", "assert 4 == 5") is None  # it leans on its class


def test_what_cannot_be_told() -> None:
    assert (
        seen("test_computed[0]", "    assert total([rate])", "assert 1 == 0") is None
    )  # its parameters are not written out
    assert observe({FILE: TESTS.encode()}, f"{FILE}::test_truth", "assert not 1", ORDER) is None  # no line
    assert seen("test_truth", "    assert not", f"ValueError: {'x' * 5000}") is not None


def test_the_text_is_the_same_each_time_and_varies_from_bug_to_bug() -> None:
    tree = {FILE: TESTS.encode()}
    message = f"assert 3 == 6\n{FILE}:{line_of('    assert total(doubled')}: in test_helper\n"
    tests = [f"{FILE}::test_helper"]
    first = write_issue(tree, tests, {tests[0]: message}, ORDER)
    assert first == write_issue(tree, tests, {tests[0]: message}, ORDER)
    assert "`total`" in first.splitlines()[0] and "test_helper" not in first
    assert "`3`" in first and "`6`" in first
    others = {write_issue(tree, [*tests, f"{FILE}::{number}"], {tests[0]: message}, ORDER) for number in range(20)}
    assert len(others) > 8
    assert write_issue(tree, tests, {}, ORDER) == ""


@pytest.mark.parametrize("sentence", [*issue.VALUE, *issue.UNKNOWN_VALUE, *issue.TRUTH, *issue.SILENT, *issue.MESSAGE])
def test_the_shortcut_policy_reads_every_sentence_that_quotes_what_is_expected(sentence):
    expected = "true" if sentence in issue.TRUTH else "E(3)"
    quoted = TOLD.search(sentence.format(got="G(2)", expected=expected))
    assert quoted and expected in quoted.groups()
