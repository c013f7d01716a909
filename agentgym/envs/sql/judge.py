"""Grading of queries: comparison with the gold query's result on several databases with the same schema.

A wrong query is less likely to be right by chance on several databases than on one. This is the idea of test-suite accuracy
(Zhong, Yu and Klein 2020, arXiv 2010.02840).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym.envs.sql.database import Database, QueryError, Result
from agentgym.errors import Fault
from agentgym.rewards.sql_result import column_orders, same_in_bird, same_in_spider, same_result, without_distinct

JsonMapping = Mapping[str, Any]

RULES = ("published", "strict")
"""Comparisons for a file's questions: the data set's own evaluation, or the comparison for generated questions."""


def rewritten_gold(database: Database, data: JsonMapping, rule: str) -> tuple[str, Result]:
    """Return the gold query in its compared form (`compared`), and its result on a database.

    Without DISTINCT, the result may have too many rows; the query is then compared as written.

    Raises:
        QueryError: the query fails.
    """
    gold = compared(data["gold"], data, rule)
    try:
        return gold, database.run(gold)
    except QueryError:
        if gold == data["gold"]:
            raise
        return data["gold"], database.run(data["gold"])


def results(database: Database, sql: str, data: JsonMapping, rule: str) -> tuple[Result, Result]:
    """Return the results of an answer and of the gold query, both in compared form or both as written.

    Raises:
        QueryError: the answer fails.
        Fault: the gold query fails, so no answer could be right.
    """
    try:
        gold, gold_result = rewritten_gold(database, data, rule)
    except QueryError as error:
        database.run(compared(sql, data, rule))  # a failing answer is its author's error, even if the gold query fails, too
        raise Fault(f"the gold query fails on {database.name}: {error} (gold: {data['gold'][:200]})") from error
    as_written = gold == data["gold"] != compared(gold, data, rule)
    return database.run(sql if as_written else compared(sql, data, rule)), gold_result


def holds_on(databases: Iterable[Database], sql: str, data: JsonMapping, rule: str, comparison: "Comparison") -> bool:
    """Return True if a query has the gold query's result on all given databases; a query that fails on one is wrong."""
    for database in databases:
        try:
            result, gold_result = results(database, sql, data, rule)
        except QueryError:
            return False
        if not comparison.same(result, gold_result):
            return False
    return True


def comparison(data: JsonMapping, rule: str) -> "Comparison":
    """Return the comparison for answers to a task's question."""
    evaluation = data.get("evaluation", "") if rule == "published" else ""
    if evaluation == "spider":
        return Comparison("order by" in data["gold"].lower(), evaluation=evaluation)
    return Comparison(data["ordered"], data.get("any_columns", False), evaluation)


def compared(sql: str, data: JsonMapping, rule: str) -> str:
    """Return the query to execute for the comparison of results.

    For Spider under the rule `published`, remove DISTINCT and repair operators like `> =`; otherwise return it unchanged.
    """
    if rule != "published" or data.get("evaluation") != "spider":
        return sql
    return without_distinct(sql.replace("> =", ">=").replace("< =", "<=").replace("! =", "!="))


@dataclass
class Comparison:
    """Compares results on several databases in turn; remembers the column orders that fit the answer so far."""

    ordered: bool
    """True if the order of rows counts."""
    any_columns: bool = False
    """True if columns may be in another order, which must be the same on every database."""
    evaluation: str = ""
    """Published evaluation to follow, `spider` or `bird`; empty for our own comparison."""
    _orders: set[tuple[int, ...]] | None = field(default=None, init=False)

    def same(self, result: Result, gold_result: Result) -> bool:
        """Return True if two results are equal by the rules of this comparison.

        With `any_columns` and without `evaluation`, one order of columns must fit this result and all earlier results.
        """
        if self.evaluation == "spider":
            return same_in_spider(result.rows, gold_result.rows, ordered=self.ordered)
        if self.evaluation == "bird":
            return same_in_bird(result.rows, gold_result.rows)
        if len(result.columns) != len(gold_result.columns):
            return False
        if not self.any_columns or not gold_result.rows:
            return same_result(result.rows, gold_result.rows, ordered=self.ordered)
        verdicts = {
            order
            for order in column_orders(result.rows, gold_result.rows)
            if same_result(result.rows, gold_result.rows, ordered=self.ordered, permutation=order)
        }
        self._orders = verdicts if self._orders is None else self._orders & verdicts
        return bool(self._orders)
