"""Documents: what one is, how its text falls into words, and how they are read from JSON lines."""

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
"""The name of what `words` and `parts` do: an index made by another analyser is not read."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text to find."""

    id: str
    title: str
    text: str
    quoted: bool = True
    """Whether the title stands in quotes in `contents`, as in the 2018 Wikipedia passages."""

    @property
    def contents(self) -> str:
        """The whole as Search-R1 and FlashRAG write it: the title, and the text from the second line on."""
        return f"{self.heading}\n{self.text}"

    @property
    def heading(self) -> str:
        """The first line of `contents`."""
        return f'"{self.title}"' if self.quoted else self.title


def from_contents(id: str, contents: str) -> Document:
    """Return the document whose `contents` are these, to the letter."""
    heading, _, text = contents.partition("\n")
    quoted = len(heading) > 1 and heading[0] == heading[-1] == '"'
    return Document(id, heading[1:-1] if quoted else heading, text, quoted)


def words(text: str) -> list[str]:
    """Return the words of a text in lower case: letters and digits between other signs."""
    return _WORD.findall(text.lower())


def parts(text: str) -> list[str]:
    """Return smaller parts of words that hold more than one: characters and pairs of neighbors, and the words beside them.

    These are words in Chinese, Japanese, Korean, Thai, Lao, Khmer and other scripts that do not part words by spaces, and
    those of full width. All other texts have none.
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


def asked(query: str) -> tuple[list[str], list[str]]:
    """Return the words of a query, and what to look for among the parts of documents."""
    known = words(query)
    if not spaceless(query):
        return known, known
    every = _parts(query)
    return known + [part for part in every if part not in known and not spaceless(part)], every


def searched(document: Document) -> list[str]:
    """Return the words by which a document is found: those of its title and its text."""
    return words(f"{document.title} {document.text}")


def searched_parts(document: Document) -> list[str]:
    """Return the parts of words by which a document is found."""
    return [*parts(document.title), *parts(document.text)]


def title_key(title: str) -> str:
    """Return what titles that count as the same have in common."""
    return " ".join(title.strip().strip('"').casefold().split())


def read_documents(path: str) -> Iterator[tuple[str, Document]]:
    """Yield the documents of a file of JSON lines, one at a time, each with its place; a name ending in .gz is unpacked.

    Lines are {"id", "contents": "\\"Title\\"\\ntext"} (the 2018 Wikipedia passages of Search-R1 and FlashRAG) or {"id",
    "title", "text"}. BadData with file and line for anything else; whether an id comes twice is for the reader to see.
    """
    for where, raw in objects(path):
        yield where, read_document(raw, where)


def read_corpus(path: str) -> list[Document]:
    """Return all documents of a file; BadData with file and line for an id that comes twice, and for a file without any."""
    documents: dict[str, Document] = {}
    for where, document in read_documents(path):
        if document.id in documents:
            raise BadData(f"{where}: the id {document.id!r} was given before; expected one document per id")
        documents[document.id] = document
    if not documents:
        raise BadData(f"{path} holds no document; expected at least one")
    return list(documents.values())


def read_document(raw: dict[str, object], where: str) -> Document:
    """Return the document that an object says; BadData, beginning with `where`, for one that says none."""
    if "contents" in raw:
        return from_contents(read_id(raw, "id", where), read_text(raw, "contents", where))
    if "title" in raw and "text" in raw:
        title, text = read_text(raw, "title", where), read_text(raw, "text", where)
        return Document(read_id(raw, "id", where), " ".join(title.strip().strip('"').split()), text.strip())
    expected = '{"id", "contents"} or {"id", "title", "text"}'
    raise BadData(f"{where}: a document with the keys {sorted(raw)[:8]}; expected {expected}")


def read_text(raw: dict[str, object], key: str, where: str) -> str:
    """Return the text under a key, white space at its ends included; BadData where there is none."""
    value = raw.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BadData(f"{where}: {key} is {str(value)[:60]!r}; expected text")
    return plain_text(value)


def read_id(raw: dict[str, object], key: str, where: str, default: str | None = None) -> str:
    """Return the id under a key, a text or a whole number, as text."""
    value = raw.get(key, default)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise BadData(f"{where}: {key} is {str(value)[:60]!r}; expected a text or a whole number")
    return plain_text(str(value).strip())


def plain_text(text: str) -> str:
    """Return the text with halves of characters (lone surrogates), which no tokenizer takes, replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
