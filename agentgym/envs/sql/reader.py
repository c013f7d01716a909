"""The expert policy: parses schema and question, looks up the spelling of categories, and writes the query."""

from collections.abc import Mapping

import numpy as np

from agentgym.core.actions import spell
from agentgym.envs.sql.families import query, wrong_queries
from agentgym.envs.sql.frames import Clauses
from agentgym.envs.sql.words import read, read_schema


def next_action(question: str, schema_text: str, seen: Mapping[str, str], *, spelled: bool) -> str:
    """Return the expert's next action; `seen` maps earlier queries to their results as shown.

    `spelled` is True if categories are stored as the question spells them.
    """
    if not schema_text:
        return spell("schema")
    schema = read_schema(schema_text)
    frame = read(question, schema)
    if frame is None:
        return spell("answer", f"SELECT COUNT(*) FROM {schema.tables[0].name}" if schema.tables else "SELECT 0")
    spellings: dict[tuple[str, str, str], str] = {}
    clauses = Clauses(schema, frame.table)
    for condition in frame.where if not spelled else ():
        if condition.operator != "=" or not isinstance(condition.value, str):
            continue
        _, table, column = clauses.at(condition.path)
        look = f"SELECT DISTINCT {column.stored} FROM {table.name}"
        if look not in seen:
            return spell("query", look)
        for line in seen[look].splitlines()[1:]:
            if line.casefold() == condition.value.casefold():
                spellings[table.name, column.name, condition.value] = line
    return spell("answer", query(frame, schema, spellings))


def slip(question: str, schema_text: str, rng: np.random.Generator) -> str | None:
    """Return an answer with a plausible wrong query; None if the schema is unknown or the question cannot be parsed."""
    schema = read_schema(schema_text)
    frame = read(question, schema)
    wrong = [] if frame is None else wrong_queries(frame, schema, {})
    return spell("answer", wrong[int(rng.integers(len(wrong)))]) if wrong else None
