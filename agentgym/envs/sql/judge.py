"""Whether a query answers a question: its result against the gold query's, on several databases of one schema.

Several databases are the idea of test-suite accuracy (Zhong, Yu and Klein 2020, arXiv 2010.02840): a wrong query is right
on one database by luck more easily than on all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym.envs.sql.database import Database, QueryError, Result
from agentgym.errors import Fault
from agentgym.rewards.sql_result import column_orders, same_in_bird, same_in_spider, same_result, without_distinct

JsonMapping = Mapping[str, Any]

RULES = ("published", "strict")
"""How answers to questions of a file are compared: as the evaluation of its set does, or as those to generated questions."""


def rewritten_gold(database: Database, data: JsonMapping, rule: str) -> tuple[str, Result]:
    """Return the gold query as it is compared on a database, and its result; raises QueryError where it has none.

    Without DISTINCT a query may have more rows than are read: it is compared as it is written then.
    """
    gold = compared(data["gold"], data, rule)
    try:
        return gold, database.run(gold)
    except QueryError:
        if gold == data["gold"]:
            raise
        return data["gold"], database.run(data["gold"])


def results(database: Database, sql: str, data: JsonMapping, rule: str) -> tuple[Result, Result]:
    """Return the results of an answer and of the gold query, rewritten alike.

    Raises QueryError for an answer that fails, a Fault for a gold query that does: no answer could be right.
    """
    try:
        gold, wanted = rewritten_gold(database, data, rule)
    except QueryError as error:
        database.run(compared(sql, data, rule))  # a failing answer is its author's own
        raise Fault(f"the gold query fails on {database.name}: {error} (gold: {data['gold'][:200]})") from error
    as_written = gold == data["gold"] != compared(gold, data, rule)
    return database.run(sql if as_written else compared(sql, data, rule)), wanted


def holds_on(databases: Iterable[Database], sql: str, data: JsonMapping, rule: str, comparison: "Comparison") -> bool:
    """Return whether a query has the gold query's result on further databases; one on which it fails is enough."""
    for database in databases:
        try:
            given, wanted = results(database, sql, data, rule)
        except QueryError:
            return False
        if not comparison.same(given, wanted):
            return False
    return True


def comparison(data: JsonMapping, rule: str) -> "Comparison":
    """Return how answers to a task's question are compared."""
    evaluation = data.get("evaluation", "") if rule == "published" else ""
    if evaluation == "spider":
        return Comparison("order by" in data["gold"].lower(), evaluation=evaluation)
    return Comparison(data["ordered"], data.get("any_columns", False), evaluation)


def compared(sql: str, data: JsonMapping, rule: str) -> str:
    """Return the query whose result is compared: Spider's evaluation drops DISTINCT and mends spaces within operators."""
    if rule != "published" or data.get("evaluation") != "spider":
        return sql
    return without_distinct(sql.replace("> =", ">=").replace("< =", "<=").replace("! =", "!="))


@dataclass
class Comparison:
    """How results are compared; remembers in which order the columns of an answer have stood so far."""

    ordered: bool
    """Whether the order of rows counts."""
    any_columns: bool = False
    """Whether columns may stand in another order, the same one on every database."""
    evaluation: str = ""
    """The evaluation whose own rule decides, `spider` or `bird`; empty for ours."""
    _orders: set[tuple[int, ...]] | None = field(default=None, init=False)

    def same(self, given: Result, wanted: Result) -> bool:
        """Return whether two results are the same, and can be together with those before."""
        if self.evaluation == "spider":
            return same_in_spider(given.rows, wanted.rows, ordered=self.ordered)
        if self.evaluation == "bird":
            return same_in_bird(given.rows, wanted.rows)
        if len(given.columns) != len(wanted.columns):
            return False
        if not self.any_columns or not wanted.rows:
            return same_result(given.rows, wanted.rows, ordered=self.ordered)
        verdicts = {
            order
            for order in column_orders(given.rows, wanted.rows)
            if same_result(given.rows, wanted.rows, ordered=self.ordered, permutation=order)
        }
        self._orders = verdicts if self._orders is None else self._orders & verdicts
        return bool(self._orders)
