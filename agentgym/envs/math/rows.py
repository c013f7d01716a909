"""Turn one row of a problem set into a task: the question with its context and choices, and the answer."""

import re
from typing import cast

from agentgym.core.tasks import Task
from agentgym.errors import BadData
from agentgym.rewards.numeric import read_number
from agentgym.tasks.columns import Row, bare, choices, lowered, premises, refuse_unread, right_choice, with_choices
from agentgym.tasks.library import ALL, hashed
from agentgym.tasks.reading import Reading

EXAMPLE = '{"question": "What is 2 + 3?", "answer": "5"}, or in a table: question,answer'
QUESTIONS = ("question", "problem", "query")
ANSWERS = (
    *("answer", "answers", "solution", "answerkey", "answer_key", "correct", "correct_answer", "correct_option", "label"),
    *("cop", "target", "gold", "final_answer", "final_decision", "answer_idx", "correct_choice"),
)
"""Columns that may have the answer.

If a row has choices, the first non-empty column counts, but never `solution`. Otherwise the columns _FREE are tried in
order, then `solution`.
"""
SOLUTIONS = ("solution", "answer", "rationale", "explanation")
"""Columns of a worked solution for hints: the first with more than three words counts."""
_ANSWERS = frozenset(ANSWERS)
_READ = frozenset((*QUESTIONS, *ANSWERS))
_FREE = ("answer", "answers", "correct_answer", "final_answer", "final_decision", "target", "gold")
_BRACE = re.compile(r"(?<!\\)[{}]")
_UNIT = re.compile(r"(-?[\d.,/]+)\s*\([^()]*\)")


def task(where: str, id: str, split: str | None, raw: dict[str, object], reading: Reading) -> Task:
    """Return a row's task; `id` and `split` apply if the row names none (None: the hash of the id decides the split).

    Raises:
        BadData: the row is unplayable; the message gives its location. A column with unread text raises UnreadText.
    """
    row = lowered(raw)
    key = next((name for name in QUESTIONS if row.get(name) is not None), None)
    if key is None or _ANSWERS.isdisjoint(row):
        raise BadData(f"{where}: the keys are {sorted(raw)[:12]}; expected for example {EXAMPLE}")
    if row.get("answerable") is False or row.get("is_impossible") is True:
        raise BadData(f"{where}: the question has no answer (answerable, is_impossible); expected one that has")
    question = problem = _text(row[key], f"{where}: question (or problem)")
    found: dict[str, str] = {}
    if not bare(tuple(row), _READ) or type(row.get("answer")) is bool:  # most files: no further columns
        read = set(_READ)
        before = premises(row, read, reading.ignore)
        found = {} if {"choices", "options"} & set(reading.ignore) else choices(row, read, where)
        refuse_unread(row, read, reading.ignore, where, question)
        problem = _text("\n".join((*before, with_choices(question, found))), where)
    data: dict[str, object] = {"problem": problem}
    if found:
        data |= {"answer": right_choice(found, _choice(row, where), where), "form": "choice", "choices": found}
    else:
        answer = _answer(row, where)
        unit = _UNIT.fullmatch(answer) if "formula" in row else None  # ASDiv: `9 (apples)`
        answer = unit[1] if unit else answer
        data |= {"answer": answer, "form": "expression" if read_number(answer) is None else "number"}
    worked = _solution(row)
    if worked:
        data["solution"] = worked
    named = row.get("split", split)
    if named == ALL:
        raise BadData(f"{where}: split {ALL!r} is the name for everything; expected another name")
    id = str(row.get("unique_id", row.get("id", id)))
    level = re.search(r"\d+", str(row.get("level", "")))
    own_split = str(named) if named is not None else hashed("math file", id)
    return Task(problem, data, id=id, split=own_split, difficulty=int(level[0]) if level else 0)


def _solution(row: Row) -> str:
    """Return a row's worked solution from the columns SOLUTIONS, up to its last `####`; empty if there is none.

    The column `answer` counts only if it contains `####`.
    """
    for name in SOLUTIONS:
        value = row.get(name)
        if isinstance(value, str) and (name != "answer" or "####" in value):
            worked = value.rpartition("####")[0] if "####" in value else value
            if len(worked.split(None, 3)) > 3:  # more than just the answer
                return worked.strip()
    return ""


def _choice(row: Row, where: str) -> object:
    key = next((name for name in ANSWERS if name != "solution" and _label(row.get(name))), None)
    if key is None:
        raise BadData(f"{where}: choices without an answer; expected the label of the right one, or its text")
    return row[key]


def _label(value: object) -> bool:
    return value is not None and value != "" and not isinstance(value, list | dict)


def _answer(row: Row, where: str) -> str:
    value = next((row[name] for name in _FREE if name in row and row[name] is not None), None)
    if isinstance(value, list):
        values = list(dict.fromkeys(str(one) for one in cast("list[object]", value)))
        if len(values) != 1:
            raise BadData(
                f"{where}: answers is {str(cast('object', value))[:60]!r}; expected one answer, for example {EXAMPLE}"
            )
        value = values[0]
    if value is not None:
        answer = _text(str(value), f"{where}: answer")
        last = answer.rpartition("####")[2].strip()
        if not last:
            raise BadData(f"{where}: nothing stands after the last #### of the answer; expected `#### 42`")
        return last if "####" in answer else (boxed(answer) or answer)
    solution = _text(row.get("solution"), f"{where}: answer, or solution")
    boxed_answer = boxed(solution)
    if not boxed_answer:
        raise BadData(f"{where}: the solution has no \\boxed{{…}} with an answer in it")
    return boxed_answer


def boxed(text: str) -> str | None:
    r"""Return the content of a text's last `\boxed{…}`, `\fbox{…}` or `\boxed 5`; None if it is missing or not closed."""
    at = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    if at < 0:
        return None
    rest = text[at:].removeprefix("\\boxed").removeprefix("\\fbox")
    if not rest.startswith("{"):
        return next(iter(rest.split()), "").rstrip("$.") or None  # `\\boxed 5` of the older files
    depth = 0
    for brace in _BRACE.finditer(rest):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return rest[1 : brace.start()].strip()
    return None


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadData(f"{what} is {str(value)[:60]!r}; expected text")
    return (value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")).strip()
