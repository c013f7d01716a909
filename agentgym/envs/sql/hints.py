"""Hints: the gold query's tables, joins and clauses."""

import re

_NAME = r"(?:\"[^\"]+\"|`[^`]+`|\[[^\]]+\]|\w+)"
_SOURCE = re.compile(rf"\b(?:FROM|JOIN)\s+({_NAME})(?:\s+(?:AS\s+)?(?!ON\b|JOIN\b|WHERE\b|GROUP\b|ORDER\b)({_NAME}))?", re.I)
_JOIN = re.compile(
    r"\bON\s+(.+?)(?=\s+(?:LEFT|INNER|CROSS|JOIN|WHERE|GROUP|ORDER|HAVING|LIMIT|UNION|EXCEPT|INTERSECT)\b|\)|;|$)",
    re.I | re.S,
)
_WITH = re.compile(rf"(?:\bWITH(?:\s+RECURSIVE)?|,)\s*({_NAME})\s+AS\s*\(", re.I)
_CLAUSES = (
    *("COUNT", "SUM", "AVG", "MIN", "MAX", "DISTINCT", "CASE", "WHERE", "IS NULL", "IS NOT NULL", "BETWEEN", "LIKE"),
    *("EXISTS", "NOT IN", "GROUP BY", "HAVING", "OVER", "UNION", "INTERSECT", "EXCEPT", "ORDER BY", "LIMIT"),
)


def steps(gold: str) -> list[str]:
    """Return the hints for a query: its tables, joins and clauses."""
    query = re.sub(r"'(?:[^']|'')*'", "''", gold)  # ignore words inside string values
    made = {_plain(name) for name in _WITH.findall(query)}
    sources = [(_plain(name), _plain(alias)) for name, alias in _SOURCE.findall(query)]
    tables = list(dict.fromkeys(name for name, _ in sources if name not in made))
    return [f"The query reads {_listed(tables)}.", _joins(query, sources), _clauses(query)]


def _plain(name: str) -> str:
    return name.strip('"`[]')


def _listed(tables: list[str]) -> str:
    if len(tables) == 1:
        return f"the table {tables[0]}"
    return f"the tables {', '.join(tables[:-1])} and {tables[-1]}" if tables else "no table"


def _joins(query: str, sources: list[tuple[str, str]]) -> str:
    names = {alias: name for name, alias in sources if alias}
    conditions = [
        re.sub(r"\b(\w+)\.", lambda match: f"{names.get(match[1], match[1])}.", " ".join(condition.split()))
        for condition in _JOIN.findall(query)
    ]
    return f"It joins them on {'; '.join(dict.fromkeys(conditions))}." if conditions else "It joins no tables."


def _clauses(query: str) -> str:
    used = [clause for clause in _CLAUSES if re.search(rf"\b{clause}\b", " ".join(query.split()), re.I)]
    inner = len(re.findall(r"\bSELECT\b", query, re.I)) - 1
    used += [f"{inner} {'query' if inner == 1 else 'queries'} inside it"] if inner > 0 else []
    return f"It uses {', '.join(used)}." if used else "It is a plain SELECT of columns."
