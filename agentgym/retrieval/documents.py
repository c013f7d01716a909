"""Documents: their type, their tokens, and reading them from JSON lines."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from agentgym.core.scripts import SPACELESS, ordinary_width, pieces, spaceless
from agentgym.errors import BadData
from agentgym.tasks.lines import objects

_WORD = re.compile(r"\w+")
_BLOCK = re.compile(rf"[\w{SPACELESS}]+")
ANALYSER = "words-2"
"""Version of `words` and `parts`; an index built with another version is refused."""


@dataclass(frozen=True, slots=True)
class Document:
    """One retrievable text."""

    id: str
    title: str
    text: str
    quoted: bool = True
    """True if `contents` quotes the title, as in the 2018 Wikipedia passages."""

    @property
    def contents(self) -> str:
        """The whole document in Search-R1's and FlashRAG's format: a line with the title, then the text."""
        return f"{self.heading}\n{self.text}"

    @property
    def heading(self) -> str:
        """First line of `contents`."""
        return f'"{self.title}"' if self.quoted else self.title


def from_contents(id: str, contents: str) -> Document:
    """Return the document with exactly these `contents`."""
    heading, _, text = contents.partition("\n")
    quoted = len(heading) > 1 and heading[0] == heading[-1] == '"'
    return Document(id, heading[1:-1] if quoted else heading, text, quoted)


def words(text: str) -> list[str]:
    """Return the lower-case words of a text: runs of letters, digits and underscores."""
    return _WORD.findall(text.lower())


def parts(text: str) -> list[str]:
    """Return the tokens of text in scripts without spaces: characters, character bigrams, and words in other scripts.

    These scripts are Chinese, Japanese, Korean, Thai, Lao, Khmer and similar ones; full-width letters count too. A text
    without any of them has no parts.
    """
    if not spaceless(text):
        return []
    return [part for block in _BLOCK.findall(text) if spaceless(block) for part in _parts(block)]


def _parts(text: str) -> list[str]:
    found: list[str] = []
    for piece in pieces(ordinary_width(text).lower()):
        if isinstance(piece, str):
            found.append(piece)
        for run in piece if isinstance(piece, list) else ():
            found += [*run, *(first + second for first, second in pairwise(run))]
    return found


def query_words(query: str) -> tuple[list[str], list[str]]:
    """Return the query's tokens for the index of `words`, and its tokens for the index of `parts`."""
    known = words(query)
    if not spaceless(query):
        return known, known
    every = _parts(query)
    return known + [part for part in every if part not in known and not spaceless(part)], every


def searched(document: Document) -> list[str]:
    """Return the words under which a document is indexed: those of its title and text."""
    return words(f"{document.title} {document.text}")


def searched_parts(document: Document) -> list[str]:
    """Return the `parts` under which a document is indexed: those of its title and text."""
    return [*parts(document.title), *parts(document.text)]


def title_key(title: str) -> str:
    """Return the title without outer quotes, in lower case and with single spaces; equal keys mean equal titles."""
    return " ".join(title.strip().strip('"').casefold().split())


def read_documents(path: str) -> Iterator[tuple[str, Document]]:
    r"""Yield the documents of a file of JSON lines, each with its location; a name ending in .gz is decompressed.

    Lines are {"id", "contents": "\"Title\"\ntext"} (the 2018 Wikipedia passages of Search-R1 and FlashRAG) or {"id",
    "title", "text"}; anything else raises BadData with file and line. The caller must check that ids are unique.
    """
    for where, raw in objects(path):
        yield where, read_document(raw, where)


def read_corpus(path: str) -> list[Document]:
    """Return all documents of a file.

    Raises:
        BadData: a line is not a document, an id repeats, or the file has no documents.
    """
    documents: dict[str, Document] = {}
    for where, document in read_documents(path):
        if document.id in documents:
            raise BadData(f"{where}: the id {document.id!r} was given before; expected one document per id")
        documents[document.id] = document
    if not documents:
        raise BadData(f"{path} holds no document; expected at least one")
    return list(documents.values())


def read_document(raw: dict[str, object], where: str) -> Document:
    """Return the document that a JSON object describes.

    Raises:
        BadData: the object is not a document; the message begins with `where`.
    """
    if "contents" in raw:
        return from_contents(read_id(raw, "id", where), read_text(raw, "contents", where))
    if "title" in raw and "text" in raw:
        title, text = read_text(raw, "title", where), read_text(raw, "text", where)
        return Document(read_id(raw, "id", where), " ".join(title.strip().strip('"').split()), text.strip())
    expected = '{"id", "contents"} or {"id", "title", "text"}'
    raise BadData(f"{where}: a document with the keys {sorted(raw)[:8]}; expected {expected}")


def read_text(raw: dict[str, object], key: str, where: str) -> str:
    """Return the text under a key, unstripped.

    Raises:
        BadData: the value is not a text, or is blank.
    """
    value = raw.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BadData(f"{where}: {key} is {str(value)[:60]!r}; expected text")
    return plain_text(value)


def read_id(raw: dict[str, object], key: str, where: str, default: str | None = None) -> str:
    """Return the id under a key as text; the value may be a text or an integer, and `default` replaces a missing one.

    Raises:
        BadData: the value is neither a text nor an integer, or is blank.
    """
    value = raw.get(key, default)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise BadData(f"{where}: {key} is {str(value)[:60]!r}; expected a text or a whole number")
    return plain_text(str(value).strip())


def plain_text(text: str) -> str:
    """Return the text with lone surrogates replaced, since tokenizers reject them."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def beginning(text: str, length: int, mark: str) -> str:
    """Return the text; if longer than `length` characters, cut it there or after the last whole word, and append `mark`."""
    if len(text) <= length:
        return text
    return (text[:length].rsplit(None, 1)[0] if " " in text[:length] else text[:length]) + mark
