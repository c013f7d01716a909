"""Tests with other values: what they alter, sweep and quote, by hand."""

import random

import pytest

from agentgym.envs.swe import fresh
from agentgym.envs.swe.grading.canaries import alter, other

SUITE = b"""
import pytest, unittest

def test_literal():
    value = [1, {"a": "x"}]
    assert value == [1, {"a": "x"}]

def test_call():
    assert sorted([2, 1]) == list((1, 2))
    assert "a" in "abc" and not False

def test_left():
    assert "\xc3\xa9t\xc3\xa9" == "".join(["\xc3\xa9", "t", "\xc3\xa9"])  # more than one byte a letter

def test_raises():
    with pytest.raises(ValueError, match="invalid"):
        int("x")

def test_over_lines():
    assert (
        sum([1, 2])
        == 3
    )

def test_leaves():
    for n in range(3):
        if n:
            return
    assert False

def test_nothing():
    print("no assertion")

class TestOld(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(len("abc"), 3)

    def test_true(self):
        self.assertTrue("x")

    def test_in(self):
        self.assertIn(1, [1])
"""
NAMES = ("test_literal", "test_call", "test_left", "test_raises", "test_over_lines")
OLD = ("TestOld.test_equal", "TestOld.test_true", "TestOld.test_in")


def outcome(source, name):
    """Return whether a test of a source passes."""
    space = {}
    exec(compile(source, "suite", "exec"), space)
    try:
        kind, _, method = name.rpartition(".")
        getattr(space[kind](method), method)() if kind else space[name]()
    except Exception:
        return "failed"
    return "passed"


@pytest.mark.parametrize("seed", range(8))
def test_altered_tests_fail_and_swept_ones_pass(seed):
    rng = random.Random(seed)
    altered, must_fail = alter(SUITE, {*NAMES, *OLD, "test_leaves", "test_nothing", "no_such"}, (), rng)
    assert must_fail == {*NAMES, *OLD}
    assert all(outcome(SUITE, name) == "passed" and outcome(altered, name) == "failed" for name in must_fail)
    assert outcome(altered, "test_leaves") == "passed"
    swept, none = alter(SUITE, (), {*NAMES, *OLD}, rng)
    assert not none and swept != SUITE
    assert all(outcome(swept, name) == "passed" for name in (*NAMES, *OLD))


@pytest.mark.parametrize("value", [0, -1, 1.5, float("inf"), True, None, "", "a", b"", [], [[]], (), {1}, {}, {"a": {}}])
def test_another_value_differs(value):
    assert all(other(value, random.Random(seed)) != value for seed in range(20))


def test_tests_with_other_values_look_at_results_and_expect_nothing(tasks):
    """Written from `swe_files.TESTS` by hand: the assertion tells its left side, the right one holds the expected value."""
    made = fresh.variants(tasks["purse-discount"], range(9))
    assert sorted(made) == [f"tests/test_with_{number}_test_purse.py" for number in range(9)]
    sources = {name: text.decode() for name, text in made.items()}
    assert sources["tests/test_with_0_test_purse.py"].endswith(
        "def test_total_with_a_discount():\n    _agentgym_sees(total([100, 100], 10))\n\nclass TestPurse:\n    pass"
    )
    assert all("180" not in text and "def test_share" not in text for text in sources.values())
    calls = {text.partition("_agentgym_sees(")[2].partition("\n")[0] for text in sources.values()}
    assert len(calls) > 4  # the draws differ
    refused = fresh.variants(tasks["purse-nobody"], [0])["tests/test_with_0_test_purse.py"].decode()
    assert "with pytest.raises(ValueError) as _raised:\n        share(1, parts)\n    _agentgym_sees('raised')" in refused


def test_three_of_four_tests_of_each_function_have_to_agree():
    wanted = {("f",): {str(n): {0: "a", 2: "c"} for n in range(4)}, ("g",): {"g": {1: "b"}}}
    right = {**{str(n): ["a", "x", "c"] for n in range(4)}, "g": ["?", "b"]}
    assert fresh.agrees(wanted, right) and fresh.agrees({}, {})
    assert fresh.agrees(wanted, {**right, "0": ["a", "x", "d"]})
    assert not fresh.agrees(wanted, {**right, "0": ["a"], "1": []})
    assert not fresh.agrees(wanted, {**right, "g": ["b"]})
    assert not fresh.agrees(wanted, {test: seen for test, seen in right.items() if test != "g"})


def test_what_a_run_that_ended_never_reached_tells_nothing():
    """By hand: the broken code agrees in the first variant, ends in the second, and was never asked in the third."""
    name, function = (lambda number: f"tests/test_with_{number}_test_f.py::test_g"), ("tests/test_f.py", "test_g")
    clean = {name(number): [value, "end"] for number, value in enumerate("abcd")}
    broken = {name(0): ["x", "end"], name(1): ["b", "end"], name(2): [fresh.ERROR]}
    assert fresh._telling(clean, broken).values == {function: {name(2): {0: "c"}}}
    nothing_runs = fresh._telling(clean, {})
    assert nothing_runs.values == {function: {name(number): {0: "bcd"[number - 1]} for number in (1, 2, 3)}}


def test_what_an_original_shows_where_the_bug_does_is_quoted():
    name, function = (
        (lambda number, text: f"tests/test_with_{number}_test_f.py::test_g[{text}]"),
        ("tests/test_f.py", "test_g"),
    )
    clean = {name(0, "x"): ["a"], name(1, "y"): ["a"], name(2, "z"): ["b"], name(3, "x"): ["a"], name(4, "v"): ["c"]}
    places = fresh._telling(clean, {key: ["wrong"] for key in clean})
    places_found = [set(telling[function]) for telling in (places.any, places.inputs, places.values)]
    assert places_found[0] - places_found[1] == {name(3, "x")} and places_found[1] - places_found[2] == {name(1, "y")}
    assert places_found[2] == {name(2, "z"), name(4, "v")} and not places.poor
    assert fresh._telling({key: ["a"] for key in clean}, {}).poor == {function}
