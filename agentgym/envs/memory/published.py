"""Rows of LongMemEval and MRCR as tasks, and the scoring of answers.

A LongMemEval file is a JSON list, or JSON lines, of objects with `question_id` (ending in `_abs` if the answer was
never stated), `question_type`, `question`, `answer`, `question_date`, `haystack_dates` and `haystack_sessions`. Its
published judge is a model. Here an answer is right if it contains the expected words in order and few others; the
answer `unknown` abstains. Rows about preferences are left out, because they describe a good answer instead of giving
one.

An MRCR file is JSON lines with `prompt` (the messages as a JSON text), `answer` and `random_string_to_prepend`. An
answer that does not begin with that string scores 0. Otherwise the score is the `difflib.SequenceMatcher` ratio of the
rest of the answer.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import lru_cache
from typing import cast

from agentgym.core.tasks import Data, Task
from agentgym.envs.memory.facts import UNKNOWN
from agentgym.errors import BadData
from agentgym.tasks.library import Library, hashed
from agentgym.tasks.lines import objects, raw_lines, stamp
from agentgym.tasks.reading import PLAIN, Reading, playable

Row = dict[str, object]
MOST_COMPARED = 20_000
"""Maximum length of an MRCR answer in characters; a longer answer scores 0, since the comparison takes quadratic time."""
MORE_WORDS = 10
"""Maximum words of a LongMemEval answer beyond the expected ones, so that copying everything fails."""
DESCRIBED = "single-session-preference"
"""LongMemEval's type for rows whose answer only describes what the user would prefer."""
_ARTICLES = {"a", "an", "the"}
_ALSO = re.compile(r"(.+?)\.? ([^.]+?) \(including the last day\) is also acceptable\.?", re.DOTALL)
"""LongMemEval's wording for a row with two right answers."""
_SMALL = """
    zero one two three four five six seven eight nine ten
    eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
"""
_UNITS = tuple(_SMALL.split())
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SHORT = {
    "second": ("sec", "secs", "seconds"),
    "minute": ("min", "mins", "minutes"),
    "hour": ("hr", "hrs", "hours"),
    "kilometer": ("km", "kms", "kilometers", "kilometre", "kilometres"),
    "mile": ("mi", "miles"),
    "kilogram": ("kg", "kgs", "kilograms"),
    "pound": ("lb", "lbs", "pounds"),
}
_LONG = {short: name for name, shorts in _SHORT.items() for short in shorts}
"""Unit name by abbreviation or plural; all spellings are equal after a number."""
_UNIT = re.compile(rf"(?<=\d)([ -]*)({'|'.join(_LONG)})\b\.?")
_NUMBER = re.compile(rf"\b(?:({'|'.join(_TENS)})(?:[- ]({'|'.join(_UNITS[1:10])}))?|({'|'.join(_UNITS)}))\b")


def load(path: str, reading: Reading = PLAIN) -> Library:
    """Return the tasks of a file, which is read once per process.

    Raises:
        BadData: the file is missing or malformed, or no row is playable; with `reading.strict`, some row is not playable.
    """
    return _load(*stamp(path), reading)


@lru_cache(maxsize=4)
def _load(path: str, _time: int, _size: int, reading: Reading) -> Library:
    return Library(path, tuple(playable(path, _records(path), _task, reading, "question").values()), "question")


def _records(path: str) -> Iterator[tuple[str, int, Row]]:
    """Yield (location, number from 0, object) for each object of a JSON list or of JSON lines.

    Raises:
        BadData: the file is not JSON, or an item is not an object.
    """
    first = next((line.lstrip()[:1] for _, line in raw_lines(path) if line.strip()), b"")
    if first != b"[":
        yield from ((where, number, row) for number, (where, row) in enumerate(objects(path)))
        return
    try:
        rows: object = json.loads(b"".join(line for _, line in raw_lines(path)))
    except (ValueError, RecursionError) as error:
        raise BadData(f"{path}: {error}; expected a JSON list in UTF-8") from error
    for number, row in enumerate(cast("list[object]", rows)):
        if not isinstance(row, dict):
            raise BadData(f"{path}, item {number}: {str(row)[:60]!r}; expected an object")
        yield f"{path}, item {number}", number, cast("Row", row)


def _task(where: str, number: int, row: Row) -> Task:
    if "haystack_sessions" in row:
        data, id = _long_mem_eval(where, row), _text(row, "question_id", where)
    elif "random_string_to_prepend" in row:
        data, id = _mrcr(where, row), str(row.get("id") or f"mrcr/{number}")
    else:
        raise BadData(f"{where}: no haystack_sessions and no random_string_to_prepend; expected LongMemEval or MRCR")
    split = row.get("split")
    question = data["question"]
    return Task(question, data, id, split if isinstance(split, str) and split else hashed("memory file", id))


def _text(row: Row, name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str | int | float) or isinstance(value, bool) or not str(value).strip():
        raise BadData(f"{where}: {name} is {str(value)[:60]!r}; expected text")
    return str(value)


def _long_mem_eval(where: str, row: Row) -> Data:
    kind = str(row.get("question_type", ""))
    absent = _text(row, "question_id", where).endswith("_abs")
    if kind == DESCRIBED and not absent:
        raise BadData(f"{where}: question_type is {kind}, whose answer describes a good reply; only a model can judge it")
    sessions, dates = row.get("haystack_sessions"), row.get("haystack_dates")
    if not isinstance(sessions, list) or not isinstance(dates, list):
        raise BadData(f"{where}: haystack_sessions or haystack_dates is no list; expected one of each length")
    talks, days = cast("list[object]", sessions), cast("list[object]", dates)
    if len(talks) != len(days) or not talks:
        raise BadData(f"{where}: {len(talks)} sessions and {len(days)} dates; expected as many, and at least one")
    stream = [{"day": str(day), "lines": _messages(talk, where)} for talk, day in zip(talks, days, strict=True)]
    return {
        "stream": stream,
        "question": f"{_text(row, 'question', where)} (asked on {row.get('question_date', 'an unknown day')})",
        "answer": UNKNOWN if absent else _text(row, "answer", where),
        "prefix": "",
        "kind": kind,
    }


def _mrcr(where: str, row: Row) -> Data:
    messages: object = row.get("prompt")
    if not isinstance(messages, list):  # the published file has them as text
        try:
            messages = json.loads(_text(row, "prompt", where))
        except (ValueError, RecursionError) as error:
            raise BadData(f"{where}: prompt is no JSON ({error}); expected the messages as a JSON text") from error
    lines = _messages(cast("object", messages), where)
    prefix, answer = _text(row, "random_string_to_prepend", where), _text(row, "answer", where)
    if not answer.startswith(prefix):
        raise BadData(f"{where}: the answer does not begin with {prefix[:40]!r}; expected it to")
    pairs = [lines[place : place + 2] for place in range(0, len(lines) - 1, 2)]
    stream = [{"day": str(number), "lines": pair} for number, pair in enumerate(pairs, 1)]
    if not stream:
        raise BadData(f"{where}: {len(lines)} messages; expected a conversation and a question")
    return {"stream": stream, "question": lines[-1].partition(": ")[2], "answer": answer, "prefix": prefix, "kind": "mrcr"}


def _messages(value: object, where: str) -> list[str]:
    """Return messages as lines of `Role: content`.

    Raises:
        BadData: `value` is not a list, or a message lacks role or content; the error begins with `where`.
    """
    lines: list[str] = []
    for message in cast("list[object]", value) if isinstance(value, list) else [None]:
        parts: Row = cast("Row", message) if isinstance(message, dict) else {}
        role, content = parts.get("role"), parts.get("content")
        if not isinstance(role, str) or not isinstance(content, str):
            raise BadData(f"{where}: a message is {str(parts or None)[:60]!r}; expected role and content")
        lines.append(f"{role.capitalize()}: {content}")
    return lines


def score(data: Data, answer: str) -> float:
    """Return the score of an answer, from 0 to 1."""
    if data["prefix"]:
        if not answer.startswith(data["prefix"]) or len(answer) > MOST_COMPARED:
            return 0.0
        answer_rest, expected = (text.removeprefix(data["prefix"]) for text in (answer, data["answer"]))
        return SequenceMatcher(None, answer_rest, expected).ratio()
    expected = _ALSO.fullmatch(data["answer"].strip())
    return float(any(_holds(answer, one, data["question"]) for one in (expected.groups() if expected else [data["answer"]])))


def _holds(answer: str, gold: str, question: str) -> bool:
    """Return True if an answer has the expected words in order, few others, no other number, and not both yes and no."""
    words, expected = _words(answer), _words(gold)
    if not expected:  # a sign or an emoji
        return answer.strip() == gold.strip()
    if (expected == [UNKNOWN]) != (words == [UNKNOWN]) or len(words) > len(expected) + MORE_WORDS:
        return False
    numbers = {word for word in words if word[-1].isdigit()} - {"1", *expected, *_words(question)}  # `one` is a pronoun too
    guesses = {"yes", "no"} & {*words, *expected} if {"yes", "no"} & {*expected} else ()
    if len(guesses) > 1 or (numbers and any(word[-1].isdigit() for word in expected)):
        return False
    return any(words[place : place + len(expected)] == expected for place in range(len(words)))


def _words(text: str) -> list[str]:
    """Return a text's lower-case words without articles; `1,300` and `$1300` are equal, as are `45 min` and `45 minutes`."""
    text = unicodedata.normalize("NFKC", text).lower().replace("\u2212", "-")
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    text = _UNIT.sub(lambda match: f" {_LONG[match[2]]}", _NUMBER.sub(_digits, text))
    text = re.sub(r"(?<=\d)(?=[a-z])", " ", text)
    words = re.findall(r"(?<!\w)-?\d+(?:[.:]\d+)*(?!\w)|\w+(?:\+\+|#)?", text)
    return [word for word in words if word not in _ARTICLES] or words  # an answer may be the grade `A`


def _digits(match: re.Match[str]) -> str:
    tens, unit, small = match.groups()
    return str(_UNITS.index(small) if small else 20 + 10 * _TENS.index(tens) + (_UNITS.index(unit) if unit else 0))
