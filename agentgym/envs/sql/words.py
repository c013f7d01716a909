"""The language of generated questions: converts frames to words, and words to frames."""

import re
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from agentgym.envs.sql.families import FAMILIES
from agentgym.envs.sql.frames import Condition, Frame, Path
from agentgym.envs.sql.queries import AGGREGATES
from agentgym.envs.sql.schemas import Column, Schema, Table

_PHRASES = {
    "=": ("is {}",),
    ">": ("is more than {}", "is above {}"),
    "<": ("is less than {}", "is below {}"),
    ">=": ("is at least {}",),
    "<=": ("is at most {}",),
    "null": ("is not known",),
    "known": ("is known",),
    "after": ("is after {}",),
    "before": ("is before {}",),
    "year": ("is in the year {}",),
}
"""Wordings of each operator; dates and categories are quoted."""


def say(frame: Frame, schema: Schema, rng: np.random.Generator) -> str:
    """Return a frame's question in a random wording of its family."""
    forms = FAMILIES[frame.family].forms
    table = schema.by_name[frame.table]
    return forms[int(rng.integers(len(forms)))].format(
        things=frame.table,
        where=_where(frame, schema, rng),
        column=_possessive(frame.column),
        number=_possessive(frame.number),
        group=_possessive(frame.group),
        aggregate=frame.aggregate,
        count=frame.count,
        parent=frame.parent,
        parents=table.by_name[frame.parent].target if frame.parent else "",
    )


def _possessive(path: Path) -> str:
    return "'s ".join(path)


def _where(frame: Frame, schema: Schema, rng: np.random.Generator) -> str:
    several = len(schema.tables) > 1  # the column's name suffices over one table, which small policies are trained on
    phrases: list[str] = []
    for each in frame.where:
        forms = _PHRASES[each.operator]
        date = " date" if several and _is_date(schema, frame.table, each.path) else ""
        value = f"'{each.value}'" if isinstance(each.value, str) and each.operator != "year" else each.value
        phrases.append(f"whose {_possessive(each.path)}{date} {forms[int(rng.integers(len(forms)))].format(value)}")
    return " " + (" or " if frame.either else " and ").join(phrases) if phrases else ""


def _is_date(schema: Schema, table: str, path: Path) -> bool:
    """Return True if a path ends in a date column, to add the word `date` to names such as `held` or `joined`."""
    here = schema.by_name[table]
    for step in path[:-1]:
        here = schema.by_name[here.by_name[step].target]
    return here.by_name[path[-1]].kind == "date"


_PATH = r"[a-z]+(?:'s [a-z]+)*"
_SLOTS = {
    "things": r"(?P<things>[a-z]+)",
    "where": r"(?P<where>(?: whose .+?)?)",
    "column": rf"(?P<column>{_PATH})",
    "number": rf"(?P<number>{_PATH})",
    "group": rf"(?P<group>{_PATH})",
    "aggregate": rf"(?P<aggregate>{'|'.join(AGGREGATES)})",
    "count": r"(?P<count>\d+)",
    "parent": r"(?P<parent>[a-z]+)",
    "parents": r"(?P<parents>[a-z]+)",
}


@lru_cache(maxsize=1)
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    patterns: list[tuple[str, re.Pattern[str]]] = []
    for family in FAMILIES.values():
        for form in family.forms:
            patterns.append((family.name, re.compile(_pattern(form))))
    return patterns


def _pattern(form: str) -> str:
    seen: set[str] = set()
    parts: list[str] = []
    for piece in re.split(r"(\{\w+\})", form):
        slot = piece[1:-1]
        if not piece.startswith("{"):
            parts.append(re.escape(piece))
        else:
            parts.append(f"(?P={slot})" if slot in seen else _SLOTS[slot])
            seen.add(slot)
    return "".join(parts)


_CONDITION = re.compile(
    rf"whose (?P<path>{_PATH})(?: date)? (?:"
    + "|".join(
        "(?P<{}>{})".format(f"o{i}_{j}", re.escape(phrase).replace(r"\{\}", rf"(?P<v{i}_{j}>'[^']*'|-?[\d.]+)"))
        for i, forms in enumerate(_PHRASES.values())
        for j, phrase in enumerate(forms)
    )
    + r")(?= and whose | or whose |$)"
)


def read(question: str, schema: Schema) -> Frame | None:
    """Parse a question about a schema and return its frame; None if the question is not of the generated language."""
    for family, pattern in _patterns():
        match = pattern.fullmatch(question)
        if match is None:
            continue
        slots = match.groupdict(default="")
        conditions = tuple(_conditions(slots.get("where", "")))
        frame = Frame(
            family,
            slots["things"],
            conditions,
            either=" or whose " in slots.get("where", ""),
            column=_path(slots.get("column", "")),
            number=_path(slots.get("number", "")),
            group=_path(slots.get("group", "")),
            aggregate=slots.get("aggregate", ""),
            count=int(slots.get("count") or 0),
            parent=slots.get("parent", ""),
        )
        whose_count = len(re.findall(r"(?:^| and| or) whose ", slots.get("where", "")))
        if len(conditions) == whose_count and _exists(frame, schema):
            return frame
    return None


def _path(words: str) -> Path:
    return tuple(words.split("'s ")) if words else ()


def _conditions(text: str) -> Iterator[Condition]:
    for match in _CONDITION.finditer(text):
        for i, (operator, forms) in enumerate(_PHRASES.items()):
            for j in range(len(forms)):
                if match[f"o{i}_{j}"] is not None:
                    raw = match.groupdict().get(f"v{i}_{j}")
                    yield Condition(_path(match["path"]), operator, None if raw is None else _value(raw))


def _value(raw: str) -> str | int | float:
    if raw.startswith("'"):
        return raw[1:-1]
    return float(raw) if "." in raw else int(raw)


def _exists(frame: Frame, schema: Schema) -> bool:
    """Return True if all tables and columns of a frame exist in the schema."""
    if frame.table not in schema.by_name:
        return False
    paths = [frame.number, frame.group, *(condition.path for condition in frame.where)]
    if frame.parent:
        column = schema.by_name[frame.table].by_name.get(frame.parent)
        if column is None or column.target not in schema.by_name:
            return False
    owner = frame.table
    if frame.parent and FAMILIES[frame.family].name in ("children", "none"):
        owner = schema.by_name[frame.table].by_name[frame.parent].target
    return all(_leads(schema, frame.table, path) for path in paths if path) and (
        not frame.column or _leads(schema, owner, frame.column)
    )


def _leads(schema: Schema, table: str, path: Path) -> bool:
    here = schema.by_name[table]
    for step in path[:-1]:
        column = here.by_name.get(step)
        if column is None or column.target not in schema.by_name:
            return False
        here = schema.by_name[column.target]
    return path[-1] in here.by_name


_TABLE = re.compile(r"CREATE TABLE (\w+) \(\n(.*?)\n\)", re.DOTALL)
_COLUMN = re.compile(r"^  (\w+) (TEXT|INTEGER|REAL)( NOT NULL)?(?: REFERENCES (\w+)\(id\))?,?$", re.MULTILINE)
_OVERVIEW = re.compile(r"^(\w+) \d+: (.+)$", re.MULTILINE)


def read_schema(observation: str) -> Schema:
    """Parse the schema in an observation, which has CREATE TABLE statements or an overview."""
    tables = [Table(name, tuple(_columns(body))) for name, body in _TABLE.findall(observation)]
    if not tables:
        tables = [
            Table(name, tuple(Column(part.split()[0], "text") for part in body.split(", ")))
            for name, body in _OVERVIEW.findall(observation)
        ]
    return Schema("", tuple(tables), {table.name: table for table in tables})


def _columns(body: str) -> Iterator[Column]:
    for name, kind, known, target in _COLUMN.findall(body):
        if target:
            yield Column(name.removesuffix("_id"), "reference", not known, target=target)
        else:
            yield Column(name, kind.lower(), not known)
