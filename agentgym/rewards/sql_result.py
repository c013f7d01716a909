"""Equality of two SQL results, by agentgym's rule and by the rules of Spider's and BIRD's evaluations.

`same_result` compares multisets of rows, or row by row if an order is required. Values are compared in Python, as SQLite
returns them: 1 equals 1.0 but not '1', and NULL equals NULL. Floats are equal if 12 significant digits agree, since two
correct queries may add numbers in different orders.

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
    """Return a finite float rounded to 12 significant digits, as an int if it is integral; any other value unchanged."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    rounded = value if value.is_integer() else float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def same_result(
    rows: Sequence[Row], gold: Sequence[Row], *, ordered: bool, permutation: Sequence[int] | None = None
) -> bool:
    """Return True if two results are equal as multisets of rows or, if `ordered`, row by row.

    `permutation[i]` is the column of `rows` to compare with column i of `gold`; None: the same column.
    """
    if len(rows) != len(gold):
        return False
    if rows and len(rows[0]) != len(gold[0]):
        return False
    mine, gold_rows = _rows(rows, permutation), _rows(gold, None)
    return mine == gold_rows if ordered else Counter(mine) == Counter(gold_rows)


def column_orders(rows: Sequence[Row], gold: Sequence[Row], *, exact: bool = False) -> list[tuple[int, ...]]:
    """Return the orders of the columns of `rows` that may make the results equal, as Spider's test suite allows any order.

    A column can match only a column that has the same values equally often; with `exact`, floats must be identical. At
    most MOST_ORDERS are returned; none if the results have different shapes.
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
"""Maximum number of column orders tried: 6!, all orders of six columns with the same values."""


def f1(rows: Sequence[Row], gold: Sequence[Row]) -> float:
    """Return the harmonic mean of precision and recall of the rows as multisets, from 0 to 1; 1 if both are empty."""
    if not rows and not gold:
        return 1.0
    shared = sum((Counter(_rows(rows, None)) & Counter(_rows(gold, None))).values())
    return 2 * shared / (len(rows) + len(gold))


def same_in_spider(rows: Sequence[Row], gold: Sequence[Row], *, ordered: bool) -> bool:
    """Return True if some order of columns makes the results equal, as multisets or, if `ordered`, row by row."""
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
    """Return True if both results have the same set of rows, ignoring order and repetition."""
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
