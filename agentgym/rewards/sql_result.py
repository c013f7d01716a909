"""Equality of two SQL results, by our own rule and by those of Spider's and BIRD's evaluations.

`same_result` compares a multiset of rows, or row by row if an order is required. Values compare by Python's equality of
SQLite's results: 1 and 1.0 are equal, '1' is neither, NULL equals NULL; floats are equal if 12 significant digits are,
since two right queries may add in different orders.

`same_in_spider` is the comparison of Spider's test suite (Zhong et al. 2020, arXiv 2010.02840; its code of 2022-08-02),
which drops DISTINCT from both queries first (`without_distinct`). `same_in_bird` is that of BIRD (Li et al. 2023, arXiv
2305.03111): sets of rows. Both compare values by Python's equality, floats to the last digit.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

Row = Sequence[object]
DIGITS = 12


def canonical(value: object) -> object:
    """Return a value that is equal for equal SQL values: integral floats as integers, others to 12 significant digits."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    rounded = value if value.is_integer() else float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def same_result(
    rows: Sequence[Row], gold: Sequence[Row], *, ordered: bool, permutation: Sequence[int] | None = None
) -> bool:
    """Return whether the rows are the same; `permutation[i]` is the column of `rows` that matches gold's column i."""
    if len(rows) != len(gold):
        return False
    if rows and len(rows[0]) != len(gold[0]):
        return False
    mine, gold_rows = _rows(rows, permutation), _rows(gold, None)
    return mine == gold_rows if ordered else Counter(mine) == Counter(gold_rows)


def column_orders(rows: Sequence[Row], gold: Sequence[Row], *, exact: bool = False) -> list[tuple[int, ...]]:
    """Return the orders of the columns of `rows` that could make the results equal, since Spider's test suite allows any.

    Columns can match only if they hold the same values the same number of times; with `exact`, equal to the last digit.
    """
    width = len(gold[0]) if gold else 0
    if not gold or len(rows) != len(gold) or len(rows[0]) != width:
        return [tuple(range(width))] if not gold and not rows else []
    value = _itself if exact else canonical
    mine = [Counter(value(row[i]) for row in rows) for i in range(width)]
    gold_columns = [Counter(value(row[i]) for row in gold) for i in range(width)]
    orders: list[tuple[int, ...]] = [()]
    for column in gold_columns:
        orders = [(*order, i) for order in orders for i in range(width) if i not in order and mine[i] == column][
            :MOST_ORDERS
        ]
    return orders


def _itself(value: object) -> object:
    return value


MOST_ORDERS = 720
"""Maximum number of column orders tried: all of six columns with the same values."""


def f1(rows: Sequence[Row], gold: Sequence[Row]) -> float:
    """Return the harmonic mean of precision and recall of rows, as multisets, from 0 to 1."""
    if not rows and not gold:
        return 1.0
    shared = sum((Counter(_rows(rows, None)) & Counter(_rows(gold, None))).values())
    return 2 * shared / (len(rows) + len(gold))


def same_in_spider(rows: Sequence[Row], gold: Sequence[Row], *, ordered: bool) -> bool:
    """Return whether rows are the same as a multiset, or row by row, in some order of columns."""
    if not rows or not gold:
        return not rows and not gold
    if len(rows) != len(gold) or len(rows[0]) != len(gold[0]):
        return False
    gold_rows = [tuple(row) for row in gold]
    for order in column_orders(rows, gold, exact=True):
        mine = [tuple(row[i] for i in order) for row in rows]
        if mine == gold_rows if ordered else Counter(mine) == Counter(gold_rows):
            return True
    return False


def same_in_bird(rows: Sequence[Row], gold: Sequence[Row]) -> bool:
    """Return whether the sets of rows are equal, ignoring order and repetition."""
    return {tuple(row) for row in rows} == {tuple(row) for row in gold}


_DISTINCT = re.compile(
    r"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|\bis\s+(?:not\s+)?distinct\s+from\b)|\bdistinct\b",
    re.IGNORECASE | re.DOTALL,
)


def without_distinct(sql: str) -> str:
    """Return a query without its DISTINCT keywords; names, strings, comments and `IS DISTINCT FROM` stay."""
    return _DISTINCT.sub(lambda match: match[1] or "", sql)


def _rows(rows: Sequence[Row], permutation: Sequence[int] | None) -> list[tuple[object, ...]]:
    if permutation is not None:
        return [tuple(canonical(row[i]) for i in permutation) for row in rows]
    return [tuple(canonical(value) for value in row) for row in rows]
