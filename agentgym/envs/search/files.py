r"""Documents and questions from files: HotpotQA, and JSON lines in Search-R1's and FlashRAG's layout.

HotpotQA: a JSON list (or one object per line) of `question`, `answer`, `context` and `supporting_facts`. The last two
are lists, objects such as {"title": [...], ...}, or strings with either one as a Python literal. The corpus is the
union of all paragraphs in the file.

Corpus lines: {"id", "contents": "\"Title\"\ntext"} or {"id", "title", "text"}.

Question lines: {"question", "golden_answers": [...]} and, optionally, `id`, `split`, `supporting_titles` and FlashRAG's
`metadata`, from which the titles in `supporting_facts` are read. The column `answers` or `answer` may replace
`golden_answers`, and a table (.csv) with the same columns may replace JSON lines. Files with a name ending in .gz are
decompressed.

Splits: in a folder of sets (`agentgym.envs.search.sets`), the file determines the split. Otherwise, a question keeps the
`split` that its line names; without one, the hash of the id decides (80 % train, 10 % valid, 10 % test). Split `all` is
the whole file.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import cast

from agentgym.core.env import Task
from agentgym.envs.search.answers import ALIASES, ANSWERS, EXAMPLE, id_aliases, right_answers
from agentgym.envs.search.literals import as_list, read_literal
from agentgym.envs.search.sets import QuestionFile, question_files
from agentgym.errors import BadData
from agentgym.retrieval import Document, Retriever
from agentgym.retrieval.documents import plain_text, read_corpus, read_id
from agentgym.retrieval.memory import Corpus
from agentgym.tasks import library
from agentgym.tasks.columns import Row, bare, choices, lowered, premises, refuse_unread, right_choice, with_choices
from agentgym.tasks.library import ALL, hashed
from agentgym.tasks.lines import objects, raw_lines, stamp
from agentgym.tasks.reading import PLAIN, Reading, playable

Stamp = tuple[str, int, int]
"""Path, modification time and size in bytes of a file; equal stamps mean equal content."""


@dataclass(frozen=True)
class Library(library.Library):
    """Questions, and the corpus of documents they are about."""

    corpus: Retriever = field(kw_only=True)


def load_hotpot(path: str, reading: Reading = PLAIN) -> Library:
    """Load a HotpotQA file, once per process; BadData gives the location of an error."""
    return _hotpot(*stamp(path), reading)


def load_lines(corpus: str, questions: str, reading: Reading = PLAIN) -> Library:
    """Load documents and questions in JSON lines, once per process; BadData gives file and line.

    `questions` is a comma-separated list of files or of folders of sets. With several files, each question's type is
    the name of its file's folder.
    """
    return _lines(stamp(corpus), question_files(questions), reading)


def load_questions(questions: str, retriever: Retriever, name: str, reading: Reading = PLAIN) -> Library:
    """Load questions about a retriever's documents, like `load_lines`; `name` identifies the retriever.

    Supporting documents are matched by title, since many passages can have the same title.
    """
    return _over(question_files(questions), retriever, name, reading)


@lru_cache(maxsize=4)
def _hotpot(path: str, _time: int, _size: int, reading: Reading) -> Library:
    documents: dict[tuple[str, str], Document] = {}
    of_ids, stem = id_aliases(path), Path(path).stem

    def read(where: str, number: int, raw: dict[str, object]) -> Task:
        paragraphs = _paragraphs(raw, where)
        for title, text in paragraphs.items():
            documents.setdefault((title, text), Document(str(len(documents)), title, text))
        question, answers = _question(raw, where, reading, of_ids)
        id = read_id(raw, "_id" if "_id" in raw else "id", where, f"{stem}/{number}")
        evidence: list[str] = []
        for title in _supporting_titles(raw, where):
            if title in paragraphs:
                evidence.append(documents[title, paragraphs[title]].id)
            elif reading.strict:
                raise BadData(f"{where}: supporting fact {title!r} is not among the titles of its context")
        data = {"question": question, "answers": answers, "evidence": list(dict.fromkeys(evidence))}
        return Task(instruction=question, data=data, id=id, split=_split(raw, id, where))

    tasks = playable(path, _numbered(_records(path)), read, reading, "question")
    return Library(path, tuple(tasks.values()), "question", corpus=Corpus(list(documents.values())))


def _numbered(records: Iterable[tuple[str, dict[str, object]]]) -> Iterator[tuple[str, int, dict[str, object]]]:
    """Yield (location, number, record) for each record; the number, from 0, serves as the default id."""
    return ((where, number, raw) for number, (where, raw) in enumerate(records))


def _question(raw: dict[str, object], where: str, reading: Reading, of_ids: dict[str, list[str]]) -> tuple[str, list[str]]:
    """Return the text of the question, including other columns that belong to the question, and the gold answers.

    `where` begins error messages, and `of_ids` are further answers by `answer_id`.
    """
    row = lowered(raw)
    documents = tuple(name for name in DOCUMENTS if name in row and _documents(row[name]))
    known = _known(documents)
    question = _text(row, "question", where, f"; expected for example {EXAMPLE}")
    if bare(tuple(row), known) and type(row.get("answer")) is not bool:
        return question, right_answers(row, where, of_ids)
    read = set(known)
    before = premises(row, read, reading.ignore)
    found = {} if {"choices", "options"} & set(reading.ignore) or "answer" not in row else choices(row, read, where)
    refuse_unread(row, read, reading.ignore, where, question)
    if not found or type(row.get("answer")) is bool:
        row = {**row, "answer": "yes" if row["answer"] else "no"} if type(row.get("answer")) is bool else row
        return "\n".join((*before, question)), right_answers(row, where, of_ids)
    right = right_choice(found, row["answer"], where)
    return "\n".join((*before, with_choices(question, found))), [right, found[right]]


DOCUMENTS = ("context", "paragraphs", "passages")


@lru_cache(maxsize=16)
def _known(documents: tuple[str, ...]) -> frozenset[str]:
    return frozenset((*READ, *ANSWERS, *ALIASES, *documents))


READ = ("question", "answerable", "is_impossible", "answer_start", "answer_id", "answer_type")


def _documents(value: object) -> bool:
    """Return whether a column contains titled paragraphs (documents to find) and not a part of the question."""
    if isinstance(value, str):
        return value.lstrip()[:1] in ("[", "{")
    if isinstance(value, dict):
        return {"title", "sentences"} <= cast("dict[str, object]", value).keys()
    items = cast("list[object]", value) if isinstance(value, list) else []
    return bool(items) and not all(isinstance(item, str) for item in items)


def _paragraphs(raw: dict[str, object], where: str) -> dict[str, str]:
    if "context" not in raw and isinstance(raw.get("paragraphs"), list):
        return {title: text for title, text, _ in _of_musique(raw, where)}
    expected = 'a list of [title, [sentences]], {"title": [...], "sentences": [...]}, or either as a Python literal'
    value = read_literal(raw.get("context"), f"{where}: context", expected)
    pairs = as_list(value, ("title", "sentences"), f"{where}: context", expected)
    paragraphs: dict[str, str] = {}
    for title, sentences in pairs:
        whole = cast("list[object]", sentences) if isinstance(sentences, list) else None
        if not isinstance(title, str) or whole is None or not all(isinstance(s, str) for s in whole):
            raise BadData(f"{where}: context holds {str(title)[:60]!r}; expected {expected}")
        paragraphs[_line(title)] = plain_text("".join(cast("list[str]", whole)).strip())
    return paragraphs


def _of_musique(raw: dict[str, object], where: str) -> list[tuple[str, str, bool]]:
    """Return the title and text of each MuSiQue paragraph, and True if the question needs the paragraph.

    Raises:
        BadData: a paragraph has no title or no text; the message begins with `where`.
    """
    found: list[tuple[str, str, bool]] = []
    for paragraph in cast("list[object]", raw["paragraphs"]):
        parts: dict[str, object] = cast("dict[str, object]", paragraph) if isinstance(paragraph, dict) else {}
        title, text = parts.get("title"), parts.get("paragraph_text")
        if not isinstance(title, str) or not isinstance(text, str):
            raise BadData(f"{where}: paragraphs holds {str(parts)[:60]!r}; expected title and paragraph_text")
        found.append((_line(title), plain_text(text.strip()), parts.get("is_supporting") is True))
    return found


def _supporting_titles(raw: dict[str, object], where: str) -> list[str]:
    """Return the titles of the supporting facts, each once, or, without that column, of MuSiQue's supporting paragraphs.

    The list is empty if the row has neither column, as in test files.

    Raises:
        BadData: a title is not a string; the message begins with `where`.
    """
    if raw.get("supporting_facts") is None:
        own = _of_musique(raw, where) if isinstance(raw.get("paragraphs"), list) else []
        return [title for title, _, supporting in own if supporting]
    expected = 'a list of [title, sentence number], {"title": [...], "sent_id": [...]}, or either as a Python literal'
    value = read_literal(raw["supporting_facts"], f"{where}: supporting_facts", expected)
    pairs = as_list(value, ("title", "sent_id"), f"{where}: supporting_facts", expected)
    if not all(isinstance(title, str) for title, _ in pairs):
        raise BadData(f"{where}: a title in supporting_facts is not a string; expected {expected}")
    return list(dict.fromkeys(_line(cast("str", title)) for title, _ in pairs))


@lru_cache(maxsize=4)
def _lines(stamped: Stamp, questions: tuple[QuestionFile, ...], reading: Reading) -> Library:
    corpus = stamped[0]
    documents = read_corpus(corpus)
    by_title = {_line(document.title): document.id for document in reversed(documents)}
    tasks = _tasks(questions, corpus, by_title, reading)
    return Library(_sources(questions), tuple(tasks.values()), "question", corpus=Corpus(documents))


@lru_cache(maxsize=4)
def _over(questions: tuple[QuestionFile, ...], retriever: Retriever, name: str, reading: Reading) -> Library:
    tasks = _tasks(questions, name, None, reading)
    return Library(_sources(questions), tuple(tasks.values()), "question", corpus=retriever)


def _tasks(
    questions: tuple[QuestionFile, ...], corpus: str, by_title: dict[str, str] | None, reading: Reading
) -> dict[str, Task]:
    """Return the questions of all files by id; `by_title` maps titles to document ids, or is None if they are unknown.

    Raises:
        BadData: an id repeats.
    """
    tasks: dict[str, Task] = {}
    for file in questions:
        for task in _tasks_of_file(file, corpus, by_title, reading):
            if task.id in tasks:
                raise BadData(f"{file.path}: the id {task.id!r} was given before; expected one question per id")
            tasks[task.id] = task
    return tasks


def _sources(questions: tuple[QuestionFile, ...]) -> str:
    return ",".join(file.path for file in questions)


def _tasks_of_file(file: QuestionFile, corpus: str, by_title: dict[str, str] | None, reading: Reading) -> Iterable[Task]:
    """Return the questions of a file; with several files, each question has the file's type."""
    path, kind = file.path, file.kind
    of_ids, stem = id_aliases(path), Path(path).name.split(".")[0]
    typed = {"type": kind} if kind else {}

    def read(where: str, number: int, raw: dict[str, object]) -> Task:
        id = read_id(raw, "id", where, f"{stem}/{number}")
        question, answers = _question(raw, where, reading, of_ids)
        split = file.split or _split(raw, id, where)
        chain = _chain(raw, where, corpus, by_title, reading.strict)
        data: dict[str, object] = {"question": question, "answers": answers, "evidence": [], **chain, **typed}
        return Task(instruction=question, data=data, id=f"{kind}/{id}" if kind else id, split=split)

    return playable(path, _numbered(objects(path)), read, reading, "question").values()


def _chain(
    raw: dict[str, object], where: str, corpus: str, by_title: dict[str, str] | None, strict: bool
) -> dict[str, list[str]]:
    """Return a question's supporting documents as `evidence` (ids) or `titles`; empty if the row names none.

    The column `supporting_titles` gives ids if `by_title` is known; FlashRAG's metadata always gives titles.

    Raises:
        BadData: with `strict`, no document has one of the supporting titles; the message begins with `where`.
    """
    if raw.get("supporting_titles") is not None:
        titles = [_line(title) for title in _strings(raw, "supporting_titles", where)]
        if by_title is None:
            return {"titles": list(dict.fromkeys(titles))}
        for title in titles:
            if title not in by_title and strict:
                raise BadData(f"{where}: supporting title {title!r} is the title of no document in {corpus}")
        return {"evidence": list(dict.fromkeys(by_title[title] for title in titles if title in by_title))}
    metadata: object = raw.get("metadata")
    facts: object = cast("dict[str, object]", metadata).get("supporting_facts") if isinstance(metadata, dict) else None
    named: object = cast("dict[str, object]", facts).get("title") if isinstance(facts, dict) else None
    titles = [title for title in cast("list[object]", named if isinstance(named, list) else []) if isinstance(title, str)]
    return {"titles": list(dict.fromkeys(map(_line, titles)))} if titles else {}


def _split(raw: dict[str, object], id: str, where: str) -> str:
    if raw.get("split") is not None:
        split = _text(raw, "split", where)
        if split == ALL:
            raise BadData(f"{where}: split {ALL!r} is the name for the whole file; expected another name")
        return split
    return hashed("search file", id)


def _records(path: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the objects in a JSON list or in JSON lines, each with its location.

    Raises:
        BadData: the file is not a list of objects in JSON.
    """
    first = next((line.lstrip()[:1] for _, line in raw_lines(path) if line.strip()), b"")
    if first == b"{":
        yield from objects(path)
        return
    lines = b"".join(line for _, line in raw_lines(path))
    try:
        values = json.loads(lines.decode())
    except (UnicodeDecodeError, RecursionError) as error:
        raise BadData(f"{path}: {error}; expected a JSON list of questions in UTF-8") from error
    except json.JSONDecodeError as error:
        raise BadData(f"{path}, line {error.lineno}: {error.msg} (column {error.colno}); expected a JSON list") from error
    if not isinstance(values, list):
        raise BadData(f"{path}: a JSON {type(values).__name__}; expected a list of questions")
    for number, value in enumerate(cast("list[object]", values), 1):
        where = f"{path}, question {number}"
        if not isinstance(value, dict):
            raise BadData(f"{where}: {str(value)[:60]!r}; expected an object")
        yield where, cast("dict[str, object]", value)


def _text(raw: Row, key: str, where: str, hint: str = "; expected text") -> str:
    value = raw.get(key)
    if value is None:
        raise BadData(f"{where}: no {key}, only {', '.join(sorted(raw)[:12]) or 'nothing'}{hint}")
    if not isinstance(value, str) or not value.strip():
        raise BadData(f"{where}: {key} is {str(value)[:60]!r}; expected text")
    return plain_text(value.strip())


def _strings(raw: dict[str, object], key: str, where: str) -> list[str]:
    value = raw.get(key)
    texts = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise BadData(f"{where}: {key} is {str(raw.get(key))[:60]!r}; expected a list of texts")
    return [plain_text(text.strip()) for text in cast("list[str]", texts)]


def _line(title: str) -> str:
    return " ".join(plain_text(title).split())
