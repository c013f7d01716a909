"""Results of queries compared by hand-made rows."""

import pytest

from agentgym.rewards.sql_result import (
    canonical,
    column_orders,
    f1,
    same_in_bird,
    same_in_spider,
    same_result,
    without_distinct,
)


@pytest.mark.parametrize(
    ("candidate", "gold", "ordered", "same"),
    [
        ([(1,)], [(1.0,)], False, True),  # as Python's equality, and so BIRD's
        ([("1",)], [(1,)], False, False),
        ([(None,)], [(None,)], False, True),
        ([(None,)], [("",)], False, False),
        ([(None,)], [(0,)], False, False),
        ([(b"a",)], [("a",)], False, False),
        ([(0.1 + 0.2,)], [(0.3,)], False, True),
        ([(0.3000001,)], [(0.3,)], False, False),
        ([(2.9999999999999996,)], [(3,)], False, True),
        ([(12345678901234,)], [(12345678901235,)], False, False),  # integers are exact
        ([(1,), (2,)], [(2,), (1,)], False, True),
        ([(1,), (2,)], [(2,), (1,)], True, False),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)], False, False),  # BIRD's sets would say yes
        ([(1,), (1,)], [(1,)], False, False),
        ([(1, 2)], [(2, 1)], False, False),
        ([(1, 2)], [(1,)], False, False),
        ([], [], True, True),
        ([], [(None,)], False, False),
        ([(float("inf"),)], [(float("inf"),)], False, True),
        ([("a", 1.5), ("b", None)], [("b", None), ("a", 1.5)], False, True),
    ],
)
def test_same_result(candidate, gold, ordered, same):
    assert same_result(candidate, gold, ordered=ordered) is same
    assert same_result(gold, candidate, ordered=ordered) is same


def test_column_orders_are_those_that_can_be():
    gold = [("a", 1), ("b", 2)]
    assert column_orders([(1, "a"), (2, "b")], gold) == [(1, 0)]
    assert column_orders([(1, "a"), (3, "b")], gold) == []
    assert column_orders([("a", 1)], gold) == []
    assert same_result([(2, "b"), (1, "a")], gold, ordered=False, permutation=(1, 0))
    assert not same_result([(1, "b"), (2, "a")], gold, ordered=False, permutation=(1, 0))  # other pairs of the same values
    assert set(column_orders([(1, 1)], [(1, 1)])) == {(0, 1), (1, 0)}


def test_column_orders_stay_few():
    wide = [tuple([0] * 40)]
    assert 0 < len(column_orders(wide, wide)) <= 720


def test_f1_counts_rows():
    assert f1([(1,), (2,)], [(2,), (3,), (4,)]) == pytest.approx(0.4)
    assert f1([], []) == 1.0
    assert f1([(1,)], []) == 0.0


def test_canonical_keeps_what_is_no_number():
    assert [canonical(v) for v in ("3.0", None, b"3", 3.0, 1e300)] == ["3.0", None, b"3", 3, int(1e300)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT DISTINCT a FROM t", "SELECT  a FROM t"),
        ("select count(distinct a), Distinct_x FROM t", "select count( a), Distinct_x FROM t"),
        (
            "SELECT 'distinct', \"distinct\", `distinct`, [distinct] -- distinct",
            "SELECT 'distinct', \"distinct\", `distinct`, [distinct] -- distinct",
        ),
        ("SELECT 'it''s distinct' WHERE a IS NOT DISTINCT FROM b", "SELECT 'it''s distinct' WHERE a IS NOT DISTINCT FROM b"),
        ("SELECT DISTINCT(a) /* distinct */", "SELECT (a) /* distinct */"),
    ],
)
def test_without_distinct(sql, expected):
    assert without_distinct(sql) == expected


@pytest.mark.parametrize(
    ("candidate", "gold", "unordered", "ordered", "as_sets"),
    [
        ([], [], True, True, True),
        ([(1,)], [], False, False, False),
        ([(1,), (2,)], [(2,), (1,)], True, False, True),
        ([(1,), (1,)], [(1,)], False, False, True),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)], False, False, True),
        ([("a", 1)], [(1, "a")], True, True, False),
        ([(1, 2), (2, 1)], [(1, 2), (1, 2)], False, False, False),  # the same bags of cells
        ([(1.0,)], [(1,)], True, True, True),
        ([("1",)], [(1,)], False, False, False),
        ([(None,)], [(None,)], True, True, True),
        ([(0.1 + 0.2,)], [(0.3,)], False, False, False),
        ([(1, 1)], [(1,)], False, False, False),
    ],
)
def test_the_rules_of_spider_and_bird(candidate, gold, unordered, ordered, as_sets):
    assert same_in_spider(candidate, gold, ordered=False) is unordered
    assert same_in_spider(candidate, gold, ordered=True) is ordered
    assert same_in_bird(candidate, gold) is as_sets
