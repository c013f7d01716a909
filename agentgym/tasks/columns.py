"""Columns of published question sets: which ones belong to the question, and which ones must not be dropped silently.

Names are matched case-insensitively, with `_` for spaces. A premise (`body`, `context`, `passage`, …) precedes the question;
choices (`choices`, `options`, …) follow it. If a column has text that is neither read nor known to be metadata (id, topic,
solution, …), the file is refused, with the column's name.
"""

import ast
import json
import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import cast

from agentgym.errors import BadData

Row = Mapping[str, object]
PREMISES = (
    *("context", "contexts", "passage", "passages", "body", "premise", "premises", "story", "paragraph", "background"),
    *("scenario", "article", "support", "facts", "sentence", "preamble", "input", "document"),
)
"""Text columns that precede the question; `document` only if there is no other."""
UNCERTAIN = frozenset(("prompt", "template", "comment", "comments", "notes", "document"))
"""Columns with different meanings in different sets: a copy of the question, a part of it, or a mere remark."""
CHOICES = ("choices", "options", "candidates", "endings", "mcq_choices")
MEDIA = (
    *("image", "images", "image_path", "image_url", "image_assets", "figure", "figures", "diagram"),
    *("audio", "video", "table"),
)
"""Columns with images and other media, which no reader can show."""
_ABOUT_A_ROW = (
    "id _id idx index uid uuid qid key number split level difficulty type types subject subjects topic category "
    "domain field source dataset data_source license url urls link tags tag keywords concepts language lang year date "
    "author solution solutions rationale rationales explanation reasoning derivation equation equations formula "
    "linear_formula annotated_formula annotation annotations steps cot chain_of_thought proof generated_solution "
    "decomposition question_decomposition question_concept evidence evidences supporting_facts supporting_titles "
    "metadata extra_info meta info ability reward_model extra_data term description_of_source title page_title grade "
    "solution_type unit_type hops long_answer annotations_creators pop prop obj subj s_aliases o_aliases "
    "s_wiki_title o_wiki_title s_pop o_pop search_results entity_pages question_source question_toks query_toks "
    "original_question original_answer canary final_decision reasoning_type required_background_information "
    "wiki_links canonical_answer ground_truth"
)
ABOUT = frozenset(_ABOUT_A_ROW.split())
"""Metadata columns: labels, sources, solutions and their derivations."""
_ABOUT = re.compile(r".*_(?:id|ids|idx|url|type|toks|count|date|level|source|index|hash)|prop_id|.*_uri|__.*__")
_MARKS = re.compile(r"[a-e]|op[a-d]|option_?[a-e1-5]|(?:distractor|incorrect_answer)_?\d|label|final_decision")
"""Names of columns that form choices together with other columns."""
_LABEL = re.compile(r"[\w.:/#@+\-]*")
_OWN_LABEL = re.compile(r"\s*\(?([A-Za-z])\s?[).:]\s*")
_OF_STRING = re.compile(r"(?:^|,)\s*\(?([a-eA-E])\s*\)\s*")


class RefusedRow(BadData):
    """A row that makes its whole file unusable, even in a lenient reading."""


class OtherLanguageRow(BadData):
    """A row in a language that is not graded. A file with at least as many such rows as playable ones is refused."""


class UnreadText(RefusedRow):
    """A row with text in a column that no reader uses."""


def lowered(raw: Row) -> Row:
    """Return a row with column names in lower case and `_` for spaces; the first of two equal names wins."""
    names = _lowered(tuple(raw))
    if names is None:
        return raw
    row: dict[str, object] = {}
    for name, value in zip(names, raw.values(), strict=True):
        row.setdefault(name, value)
    return row


@lru_cache(maxsize=256)
def _lowered(keys: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return column names in lower case, with `_` for spaces; None if that changes nothing."""
    names = tuple(key.strip().lower().replace(" ", "_") for key in keys)
    return None if names == keys else names


@lru_cache(maxsize=256)
def _small(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


@lru_cache(maxsize=256)
def _bare(keys: tuple[str, ...], read: frozenset[str]) -> bool:
    """Like `bare`, but accept names that are not in lower case."""
    return bare(_lowered(keys) or keys, _small(read))


@lru_cache(maxsize=256)
def bare(keys: tuple[str, ...], read: frozenset[str]) -> bool:
    """Return True if rows with these columns have only a question: no premise, no choices, and no text outside `read`."""
    return not any(_MARKS.fullmatch(name) for name in keys) and not _suspects(keys, read, ())


def whole_question(
    raw: Row, question: str, read: frozenset[str], ignore: tuple[str, ...], where: str, after: Iterable[str] = ()
) -> str:
    """Return a question with its row's premises before it; the columns `after` follow, each under its name.

    `read` are the columns that the reader uses.

    Raises:
        UnreadText: another column, neither in `read` nor in `ignore`, has text; the message begins with `where`.
    """
    if _bare(tuple(raw), read):
        return question
    row, known = lowered(raw), _small(read)
    found = set(known)
    parts = [*premises(row, found, ignore), question]
    for name in after:
        value = row.get(name)
        text = prose(value) if name not in known and name not in ignore else None
        if text:
            parts.append(f"{name.replace('_', ' ').capitalize()}:\n{text}")
            found.add(name)
    refuse_unread(row, found, ignore, where, question)
    return "\n\n".join(parts) if len(parts) > 1 else question


def refuse_unread(row: Row, read: Collection[str], ignore: tuple[str, ...], where: str, question: str = "") -> None:
    """Refuse a row that has text in a column that no reader uses.

    Columns in UNCERTAIN are accepted if they repeat the question or if a premise is read.

    Raises:
        UnreadText: a column has text and is neither in `read` nor in `ignore`; the message begins with `where`.
    """
    for name, known in _suspects(tuple(row), frozenset(read), tuple(ignore)):
        value = row[name]
        if not value or not (_filled(value) if known else _is_text(value)):
            continue
        if name in UNCERTAIN and (_repeats(value, question) or any(other in read and row.get(other) for other in PREMISES)):
            continue
        raise UnreadText(
            f"{where}: column {name!r} holds {str(value)[:60]!r}, which nobody reads; put it into the question, or "
            f"leave the column out by name: ignore=({name!r},)"
        )


@lru_cache(maxsize=256)
def _suspects(keys: tuple[str, ...], read: frozenset[str], ignore: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """Return (column, known) for the columns that may have unread text.

    `known`: the name is that of a premise, choices or a medium, so any content counts; else only text counts.
    """
    left = {*read, *ABOUT, *(other.strip().lower().replace(" ", "_") for other in ignore)}
    known = {*PREMISES, *CHOICES, *MEDIA} - UNCERTAIN
    return tuple(
        (name, name in known)
        for name in keys
        if name not in left and (name in known or name in UNCERTAIN or not _ABOUT.fullmatch(name))
    )


def _repeats(value: object, question: str) -> bool:
    """Return True if a text, or some text in a list or an object, contains the question or is contained in it."""
    if isinstance(value, str):
        return bool(question) and (question.strip() in value or value.strip() in question)
    if isinstance(value, Mapping):
        return any(_repeats(part, question) for part in cast("Row", value).values())
    return isinstance(value, list | tuple) and any(_repeats(part, question) for part in cast("list[object]", value))


def _filled(value: object) -> bool:
    return bool(value) and value != "[]"


def _is_text(value: object) -> bool:
    if isinstance(value, str):
        return _LABEL.fullmatch(value.strip()) is None
    if isinstance(value, Mapping):
        return any(_is_text(part) for part in cast("Row", value).values())
    if isinstance(value, list | tuple):
        return any(_is_text(part) for part in cast("list[object]", value))
    return isinstance(value, bytes)


def premises(row: Row, read: set[str], ignore: Iterable[str] = ()) -> list[str]:
    """Return the premises of a row except columns in `ignore` or `read`, and add their column names to `read`."""
    texts: list[str] = []
    for name in PREMISES:
        if row.get(name) and name not in read and name not in ignore and not (name in UNCERTAIN and texts):
            text = prose(row[name])
            if text is not None:
                texts.append(text)
                read.add(name)
    return texts


def prose(value: object) -> str | None:
    """Return a column's text if its value is a text, a list of texts or an object with texts; None for anything else."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Mapping):
        inner = lowered(cast("Row", value))
        value = next((inner[key] for key in ("contexts", "text", "texts", "sentences", "passages") if key in inner), None)
        return None if value is None else prose(value)
    if isinstance(value, list | tuple):
        parts = [prose(part) for part in cast("list[object]", value)]
        return None if not parts or None in parts else "\n".join(part for part in parts if part)
    return None


def choices(row: Row, read: set[str], where: str) -> dict[str, str]:
    """Return a row's choices by label, empty if it has none, and add their column names to `read`.

    Raises:
        BadData: a column of choices is neither a list of choices nor an object with labels and texts; the message begins
            with `where`.
    """
    if isinstance(row.get("answers"), list) and type(row.get("label")) is int:  # LogiQA and ReClor
        return _labelled(row["answers"]) or {}
    if type(row.get("answer")) is bool:
        return {"yes": "true", "no": "false"}
    if row.get("final_decision") in ("yes", "no", "maybe"):  # PubMedQA
        return {"yes": "yes", "no": "no", "maybe": "maybe"}
    for name in CHOICES:
        if row.get(name) and name not in read:
            found = _labelled(_parsed(row[name]))
            if found is None:
                raise BadData(f"{where}: {name} is {str(row[name])[:60]!r}; expected a list of choices, or labels and texts")
            read.add(name)
            return found
    for names in (("a", "b", "c", "d", "e"), *([f"option_{x}" for x in "abcde"], [f"option{n}" for n in range(1, 6)])):
        columns = [name for name in (*names, *(["opa", "opb", "opc", "opd"] if names[0] == "a" else ())) if row.get(name)]
        if len(columns) > 1:
            read.update(columns)
            return dict(zip("ABCDE", (str(row[name]).strip() for name in columns), strict=False))
    wrong = [name for name in row if re.fullmatch(r"(?:distractor|incorrect_answer)_?\d", name) and row[name]]
    if wrong and row.get("correct_answer"):
        read.update(("correct_answer", *wrong))
        texts = sorted({str(row[name]).strip() for name in ("correct_answer", *wrong)})  # the order must reveal nothing
        return dict(zip("ABCDEFGHI", texts, strict=False))
    return {}


def _parsed(value: object) -> object:
    if not isinstance(value, str):
        return value
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            continue
    pieces = _OF_STRING.split(value)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True)) if len(pieces) > 4 else None


def _labelled(value: object) -> dict[str, str] | None:
    if isinstance(value, Mapping):
        table = lowered(cast("Row", value))
        texts, labels = table.get("text"), table.get("label")
        if isinstance(texts, list) and isinstance(labels, list):
            pairs = zip(cast("list[object]", labels), cast("list[object]", texts), strict=False)
            return {str(label).strip(): str(text).strip() for label, text in pairs}
        texts_by_label = {
            str(key).strip().upper(): str(text).strip().rstrip(",").strip() for key, text in cast("Row", value).items()
        }
        return texts_by_label if len(texts_by_label) > 1 else None
    if not isinstance(value, list) or len(cast("list[object]", value)) < 2 or len(cast("list[object]", value)) > 26:
        return None
    items = cast("list[object]", value)
    if all(isinstance(item, Mapping) for item in items):
        rows = [lowered(cast("Row", item)) for item in items]
        if all({"label", "text"} <= row.keys() for row in rows):
            return {str(row["label"]).strip(): str(row["text"]).strip() for row in rows}
        return None
    texts = [str(item).strip() for item in items]
    own = [_OWN_LABEL.match(text) for text in texts]
    letters = [match[1].upper() if match else "" for match in own]
    if letters == [chr(65 + place) for place in range(len(texts))]:
        texts = [text[match.end() :] for text, match in zip(texts, own, strict=True) if match]
    return {chr(65 + place): text for place, text in enumerate(texts)}


def right_choice(found: Mapping[str, str], gold: object, where: str) -> str:
    """Return the label of the right choice in `found` (text by label).

    `gold` is its label, its number from 0, its text, or a bool for yes or no.

    Raises:
        BadData: the answer is none of the choices; the message begins with `where`.
    """
    labels = list(found)
    text = str(gold).strip()
    if type(gold) is bool:
        return "yes" if gold else "no"
    by_label = next((label for label in labels if label.casefold() == text.strip("().").casefold()), None)
    if by_label is not None and not isinstance(gold, int):
        return by_label
    if re.fullmatch(r"\d+", text) and not isinstance(gold, bool) and text not in found.values() and int(text) < len(labels):
        return labels[int(text)]
    matching = [label for label in labels if found[label].casefold() == text.casefold()]
    if len(matching) == 1:
        return matching[0]
    if isinstance(gold, int) and not isinstance(gold, bool) and 0 <= gold < len(labels):
        return labels[gold]
    raise BadData(f"{where}: the answer {text[:60]!r} is none of the choices {', '.join(labels)}; expected one of them")


def with_choices(question: str, found: Mapping[str, str]) -> str:
    """Return the question followed by the choices `found` (text by label), one per line; yes and no are not listed."""
    if "yes" in found:
        return question
    return "\n".join((question, *(f"{label}. {text}" for label, text in found.items())))


def choose(text: str, found: Mapping[str, str], right: str) -> bool | None:
    """Return True if an answer names the choice `right` by label or text, else False; None if it names none in `found`."""
    body = text.strip().strip("$*").strip()
    label = re.fullmatch(r"\(?([A-Za-z0-9]{1,5})\s?[).:]?(?:\s+(.*))?", body, re.DOTALL)
    if label:
        named = next((one for one in found if one.casefold() == label[1].casefold()), None)
        if named is not None and (label[2] is None or _same(label[2], found[named])):
            return named == right
    matching = [one for one in found if _same(body, found[one])]
    return right in matching if matching else None


def _same(one: str, other: str) -> bool:
    return one.strip().rstrip(".").casefold() == other.strip().rstrip(".").casefold()
