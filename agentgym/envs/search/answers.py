"""Gold answers of a question row, in all spellings that its columns allow."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from agentgym.errors import BadData
from agentgym.retrieval.documents import plain_text
from agentgym.tasks.lines import objects

EXAMPLE = '{"question": "Who wrote Emma?", "answer": "Jane Austen"}, or in a table: question,answer'
ANSWERS = ("golden_answers", "answers", "answer", "possible_answers", "answers_spans")
"""Columns that may contain the answer; the first one present must not be empty."""
ALIASES = ("answer_aliases", "aliases", "normalized_aliases", "answer_alias", "accepted_answers", "possible_answers")
"""Columns with alternative spellings of the answer, such as those of MuSiQue, TriviaQA and PopQA."""
_INSIDE = ("value", "aliases", "normalized_value", "normalized_aliases", "human_answers", "text", "spans", "answer")


def right_answers(row: Mapping[str, object], where: str, of_ids: Mapping[str, list[str]] | None = None) -> list[str]:
    """Return the distinct gold answers of a row whose column names are in lower case.

    `of_ids` maps `answer_id` to further spellings.

    Raises:
        BadData: the row has no well-formed answer, or its question is marked unanswerable; the message begins with
            `where`.
    """
    if row.get("answerable") is False or row.get("is_impossible") is True or row.get("answerable") == "false":
        raise BadData(f"{where}: the question has no answer (answerable, is_impossible); expected one that has")
    key = next((key for key in ANSWERS if row.get(key) is not None), None)
    if key is None:
        raise BadData(f"{where}: no golden_answers, answers or answer; expected for example {EXAMPLE}")
    value = row[key]
    if key == "golden_answers" and isinstance(value, str) and not value.lstrip().startswith("["):
        raise BadData(f"{where}: {key} is {value[:60]!r}; expected a list of texts")
    found = _texts(_parsed(value, key, where), where, key)
    if not found:
        raise BadData(f"{where}: {key} is empty; expected a list of texts, for example {EXAMPLE}")
    for name in ALIASES:
        if name != key and row.get(name):
            found += _texts(_parsed(row[name], name, where), where, name)
    if of_ids:
        found += of_ids.get(str(row.get("answer_id")), [])
    return list(dict.fromkeys(found))


def id_aliases(path: str) -> dict[str, list[str]]:
    """Return aliases and demonyms by id from 2WikiMultihopQA's `id_aliases.json` next to a file; empty without it."""
    file = Path(path).parent / "id_aliases.json"
    if not file.is_file():
        return {}
    rows = (row for _, row in objects(str(file)))
    return {
        str(row.get("Q_id")): [
            *_texts(row.get("aliases") or [], str(file), "aliases"),
            *_texts(row.get("demonyms") or [], str(file), "demonyms"),
        ]
        for row in rows
    }


def _parsed(value: object, key: str, where: str) -> object:
    if isinstance(value, str) and value.lstrip().startswith("[") and key != "answer":
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            raise BadData(f"{where}: {key} is {value[:60]!r} ({error}); expected a JSON list of texts") from error
    return value


def _texts(value: object, where: str, key: str) -> list[str]:
    """Return the texts in a string, a number, a list, or an object in TriviaQA's, SQuAD's or DROP's format.

    Raises:
        BadData: the value is none of these; the message begins with `where` and names the column `key`.
    """
    if isinstance(value, str) and value.strip():
        return [plain_text(value.strip())]
    if isinstance(value, list | tuple):
        return [text for item in cast("list[object]", value) if item != "" for text in _texts(item, where, key)]
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, object]", value)
        return [text for name in _INSIDE if inner.get(name) for text in _texts(inner[name], where, key)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [str(value)]
    raise BadData(f"{where}: {key} is {str(value)[:60]!r}; expected a list of texts")
