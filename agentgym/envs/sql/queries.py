"""SQL of each family of questions, and plausible wrong versions.

A writer (`_write_…`) turns a frame into a query. It gets all names from `Clauses` first, so that FROM has all joins.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from agentgym.envs.sql.frames import Clauses, Frame

AGGREGATES = {"average": "AVG", "total": "SUM", "highest": "MAX", "lowest": "MIN"}


def _select(frame: Frame, c: Clauses, what: str, *, tail: str = "", more: tuple[str, ...] = ()) -> str:
    where = c.where(frame, *more)
    return c.plain(f"SELECT {what} FROM {c.source}{where}{tail}")


def _write_count(frame: Frame, c: Clauses) -> str:
    return _select(frame, c, "COUNT(*)")


def _write_list(frame: Frame, c: Clauses) -> str:
    return _select(frame, c, c.name(frame.column))


def _write_aggregate(frame: Frame, c: Clauses) -> str:
    return _select(frame, c, f"{AGGREGATES[frame.aggregate]}({c.name(frame.number)})")


def _write_distinct(frame: Frame, c: Clauses) -> str:
    return _select(frame, c, f"COUNT(DISTINCT {c.name(frame.column)})")


def _write_known(frame: Frame, c: Clauses) -> str:
    return _select(frame, c, f"AVG({c.name(frame.number)})")


def _write_top(frame: Frame, c: Clauses) -> str:
    return _top_by(frame, c, "DESC", frame.count)


def _top_by(frame: Frame, c: Clauses, direction: str, count: int) -> str:
    what, number = c.name(frame.column), c.name(frame.number)
    return _select(frame, c, what, tail=f" ORDER BY {number} {direction}, t.id LIMIT {count}")


def _write_best(frame: Frame, c: Clauses) -> str:
    what, number = c.name(frame.column), c.name(frame.number)
    most = _select(frame, c, f"MAX({number})")
    return _select(frame, c, what, more=(f"{number} = ({most})",))


def _write_nth(frame: Frame, c: Clauses) -> str:
    number = c.name(frame.number)
    return _select(frame, c, f"DISTINCT {number}", tail=f" ORDER BY {number} DESC LIMIT 1 OFFSET {frame.count - 1}")


def _write_groups(frame: Frame, c: Clauses) -> str:
    group = c.name(frame.group)
    return _select(frame, c, f"{group}, COUNT(*)", tail=f" GROUP BY {group}")


def _write_group_values(frame: Frame, c: Clauses) -> str:
    group, number = c.name(frame.group), c.name(frame.number)
    return _select(frame, c, f"{group}, {AGGREGATES[frame.aggregate]}({number})", tail=f" GROUP BY {group}")


def _write_having(frame: Frame, c: Clauses) -> str:
    return _having_by(frame, c, ">")


def _having_by(frame: Frame, c: Clauses, operator: str) -> str:
    group = c.name(frame.group)
    return _select(frame, c, group, tail=f" GROUP BY {group} HAVING COUNT(*) {operator} {frame.count}")


def _write_above(frame: Frame, c: Clauses) -> str:
    number, what = c.name(frame.number), c.name(frame.column)
    mean = f"SELECT AVG({c.at(frame.number)[2].stored}) FROM {c.table.name}"
    return _select(frame, c, what, more=(f"{number} > ({mean})",))


def _write_share(frame: Frame, c: Clauses) -> str:
    test = c.where(frame).removeprefix(" WHERE ")
    return c.plain(f"SELECT 100.0 * COUNT(CASE WHEN {test} THEN 1 END) / COUNT(*) FROM {c.source}")


def _write_children(frame: Frame, c: Clauses) -> str:
    parent = c.table.by_name[frame.parent]
    where = c.where(frame, f"t.{parent.stored} = p.id")
    source = c.source if " AS t" in c.source else f"{c.source} AS t"
    return f"SELECT p.{frame.column[0]}, (SELECT COUNT(*) FROM {source}{where}) FROM {parent.target} AS p"


def _write_none(frame: Frame, c: Clauses) -> str:
    parent = c.table.by_name[frame.parent]
    where = c.where(frame, f"t.{parent.stored} = p.id")
    source = c.source if " AS t" in c.source else f"{c.source} AS t"
    return f"SELECT p.{frame.column[0]} FROM {parent.target} AS p WHERE NOT EXISTS (SELECT 1 FROM {source}{where})"


def _write_best_of_each(frame: Frame, c: Clauses) -> str:
    return _ranked(frame, c, "RANK")


def _ranked(frame: Frame, c: Clauses, rank: str) -> str:
    group, what, number = c.name(frame.group), c.name(frame.column), c.name(frame.number)
    inner = _select(frame, c, f"{group} AS a, {what} AS b, {rank}() OVER (PARTITION BY {group} ORDER BY {number} DESC) AS r")
    return f"SELECT a, b FROM ({inner}) WHERE r = 1"


def _write_running(frame: Frame, c: Clauses) -> str:
    number, date = c.name(frame.number), c.name(frame.column)
    over = f"OVER (ORDER BY {date}, t.id ROWS UNBOUNDED PRECEDING)"
    return _select(frame, c, f"t.id, SUM({number}) {over}", tail=f" ORDER BY {date}, t.id")


def _write_change(frame: Frame, c: Clauses) -> str:
    number, date, parent = c.name(frame.number), c.name(frame.column), f"t.{c.table.by_name[frame.parent].stored}"
    over = f"OVER (PARTITION BY {parent} ORDER BY {date}, t.id)"
    return _select(frame, c, f"t.id, {number} - LAG({number}) {over}")


def _write_months(frame: Frame, c: Clauses) -> str:
    month = f"strftime('%Y-%m', {c.name(frame.column)})"
    return _select(frame, c, f"{month}, COUNT(*)", tail=f" GROUP BY {month}")


def _slip_count(frame: Frame, c: Clauses) -> Iterator[str]:
    for column in c.table.columns:
        if column.kind == "category" and not frame.where[0].path[:-1]:
            yield _select(frame, c, f"COUNT(DISTINCT t.{column.name})")
            return


def _slip_list(frame: Frame, c: Clauses) -> Iterator[str]:
    yield _select(frame, c, f"DISTINCT {c.name(frame.column)}")
    yield _select(frame, c, "t.id")


def _slip_aggregate(frame: Frame, c: Clauses) -> Iterator[str]:
    for word in AGGREGATES:
        if word != frame.aggregate:
            yield _write_aggregate(replace(frame, aggregate=word), c)


def _slip_distinct(frame: Frame, c: Clauses) -> Iterator[str]:
    yield _select(frame, c, f"COUNT({c.name(frame.column)})")
    yield _select(frame, c, f"DISTINCT {c.name(frame.column)}")


def _slip_known(frame: Frame, c: Clauses) -> Iterator[str]:
    number = c.name(frame.number)
    yield _select(frame, c, f"AVG(COALESCE({number}, 0))")
    yield _select(frame, c, f"SUM({number}) * 1.0 / COUNT(*)")
    yield _select(frame, c, f"SUM({number}) / COUNT({number})")


def _slip_top(frame: Frame, c: Clauses) -> Iterator[str]:
    yield _top_by(frame, c, "ASC", frame.count)
    yield _top_by(frame, c, "DESC", frame.count + 1)
    yield _select(frame, c, c.name(frame.column), tail=f" ORDER BY t.id LIMIT {frame.count}")


def _slip_best(frame: Frame, c: Clauses) -> Iterator[str]:
    what, number = c.name(frame.column), c.name(frame.number)
    yield _select(frame, c, what, tail=f" ORDER BY {number} DESC LIMIT 1")
    yield _select(frame, c, what, more=(f"{number} = (SELECT MAX({c.at(frame.number)[2].stored}) FROM {c.table.name})",))


def _slip_nth(frame: Frame, c: Clauses) -> Iterator[str]:
    number = c.name(frame.number)
    yield _select(frame, c, number, tail=f" ORDER BY {number} DESC LIMIT 1 OFFSET {frame.count - 1}")
    yield _select(frame, c, f"DISTINCT {number}", tail=f" ORDER BY {number} DESC LIMIT 1 OFFSET {frame.count}")
    yield _select(frame, c, f"DISTINCT {number}", tail=f" ORDER BY {number} LIMIT 1 OFFSET {frame.count - 1}")


def _slip_groups(frame: Frame, c: Clauses) -> Iterator[str]:
    group = c.name(frame.group)
    yield _select(frame, c, f"{group}, COUNT(DISTINCT {group})", tail=f" GROUP BY {group}")
    yield _select(frame, c, group, tail=f" GROUP BY {group}")


def _slip_group_values(frame: Frame, c: Clauses) -> Iterator[str]:
    for word in AGGREGATES:
        if word != frame.aggregate:
            yield _write_group_values(replace(frame, aggregate=word), c)


def _slip_having(frame: Frame, c: Clauses) -> Iterator[str]:
    yield _having_by(frame, c, ">=")
    yield _having_by(frame, c, "<")
    yield _select(frame, c, f"DISTINCT {c.name(frame.group)}")


def _slip_above(frame: Frame, c: Clauses) -> Iterator[str]:
    number, what = c.name(frame.number), c.name(frame.column)
    yield _select(frame, c, what, more=(f"{number} < (SELECT AVG({number[2:]}) FROM {c.table.name})",))
    yield _select(frame, c, what, more=(f"{number} > ({_select(frame, c, f'AVG({number})')})",))


def _slip_share(frame: Frame, c: Clauses) -> Iterator[str]:
    test = c.where(frame).removeprefix(" WHERE ")
    yield c.plain(f"SELECT 100 * COUNT(CASE WHEN {test} THEN 1 END) / COUNT(*) FROM {c.source}")
    yield c.plain(f"SELECT 1.0 * COUNT(CASE WHEN {test} THEN 1 END) / COUNT(*) FROM {c.source}")
    yield _select(frame, c, "COUNT(*)")


def _slip_children(frame: Frame, c: Clauses) -> Iterator[str]:
    parent = c.table.by_name[frame.parent]
    name = f"p.{frame.column[0]}"
    where = c.where(frame)
    source = c.source if " AS t" in c.source else f"{c.source} AS t"
    joined = f"{source} JOIN {parent.target} AS p ON t.{parent.stored} = p.id{where}"
    yield f"SELECT {name}, COUNT(*) FROM {joined} GROUP BY p.id"
    yield f"SELECT {name}, COUNT(*) FROM {joined} GROUP BY {name}"
    if not frame.where:
        left = f"{parent.target} AS p LEFT JOIN {source} ON t.{parent.stored} = p.id"
        yield f"SELECT {name}, COUNT(*) FROM {left} GROUP BY p.id"
        yield f"SELECT {name}, COUNT(t.id) FROM {left} GROUP BY {name}"


def _slip_none(frame: Frame, c: Clauses) -> Iterator[str]:
    parent = c.table.by_name[frame.parent]
    where = c.where(frame)
    source = c.source if " AS t" in c.source else f"{c.source} AS t"
    name = f"p.{frame.column[0]}"
    those = f"FROM {parent.target} AS p WHERE p.id"
    yield f"SELECT {name} {those} IN (SELECT t.{parent.stored} FROM {source}{where})"
    yield f"SELECT {name} {those} NOT IN (SELECT t.id FROM {source}{where})"
    yield f"SELECT DISTINCT {name} {those} NOT IN (SELECT t.{parent.stored} FROM {source}{where})"


def _slip_best_of_each(frame: Frame, c: Clauses) -> Iterator[str]:
    group, what, number = c.name(frame.group), c.name(frame.column), c.name(frame.number)
    yield _ranked(frame, c, "ROW_NUMBER")
    yield _select(frame, c, f"{group}, {what}", tail=f" ORDER BY {number} DESC LIMIT 1")
    yield _select(frame, c, f"{group}, MAX({number})", tail=f" GROUP BY {group}")


def _slip_running(frame: Frame, c: Clauses) -> Iterator[str]:
    number, date = c.name(frame.number), c.name(frame.column)
    tail = f" ORDER BY {date}, t.id"
    yield _select(frame, c, f"t.id, SUM({number}) OVER ()", tail=tail)
    yield _select(frame, c, f"t.id, SUM({number}) OVER (ORDER BY t.id)", tail=tail)
    yield _select(frame, c, f"t.id, {number}", tail=tail)


def _slip_change(frame: Frame, c: Clauses) -> Iterator[str]:
    number, date, parent = c.name(frame.number), c.name(frame.column), f"t.{c.table.by_name[frame.parent].stored}"
    yield _select(frame, c, f"t.id, {number} - LAG({number}) OVER (ORDER BY {date}, t.id)")
    yield _select(frame, c, f"t.id, {number} - LAG({number}) OVER (PARTITION BY {parent} ORDER BY t.id)")
    yield _select(frame, c, f"t.id, {number} - LEAD({number}) OVER (PARTITION BY {parent} ORDER BY {date}, t.id)")


def _slip_months(frame: Frame, c: Clauses) -> Iterator[str]:
    for part in ("%Y", "%m"):
        month = f"strftime('{part}', {c.name(frame.column)})"
        yield _select(frame, c, f"{month}, COUNT(*)", tail=f" GROUP BY {month}")


WRITE: Mapping[str, Callable[[Frame, Clauses], str]] = {
    "count": _write_count,
    "list": _write_list,
    "aggregate": _write_aggregate,
    "distinct": _write_distinct,
    "known": _write_known,
    "top": _write_top,
    "best": _write_best,
    "nth": _write_nth,
    "groups": _write_groups,
    "group_values": _write_group_values,
    "having": _write_having,
    "above": _write_above,
    "share": _write_share,
    "children": _write_children,
    "none": _write_none,
    "best_of_each": _write_best_of_each,
    "running": _write_running,
    "change": _write_change,
    "months": _write_months,
}
"""Family -> function that writes a frame's query."""

SLIPS: Mapping[str, Callable[[Frame, Clauses], Iterator[str]]] = {
    "count": _slip_count,
    "list": _slip_list,
    "aggregate": _slip_aggregate,
    "distinct": _slip_distinct,
    "known": _slip_known,
    "top": _slip_top,
    "best": _slip_best,
    "nth": _slip_nth,
    "groups": _slip_groups,
    "group_values": _slip_group_values,
    "having": _slip_having,
    "above": _slip_above,
    "share": _slip_share,
    "children": _slip_children,
    "none": _slip_none,
    "best_of_each": _slip_best_of_each,
    "running": _slip_running,
    "change": _slip_change,
    "months": _slip_months,
}
"""Family -> function that yields plausible wrong queries, in addition to queries with wrong conditions."""
