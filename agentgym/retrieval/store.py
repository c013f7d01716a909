"""Documents on disk, by number, id and title: one read-only SQLite file shared by all processes."""

import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from agentgym.errors import BadData
from agentgym.retrieval.documents import Document, plain_text, title_key

_COLUMNS = "id, title, text, quoted"
_BATCH = 10_000  # documents between two progress reports, and per read when iterating
_MAPPED = 1 << 31  # bytes that SQLite may memory-map


class Store:
    """The documents of one corpus, numbered from 0 in file order; threads and processes share one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self.size = int(str(self._rows("SELECT count(*) FROM documents")[0][0]))

    def many(self, numbers: Sequence[int]) -> list[Document]:
        """Return the documents with these numbers, in the given order."""
        marks = ",".join("?" * len(numbers))
        rows = self._rows(f"SELECT number, {_COLUMNS} FROM documents WHERE number IN ({marks})", *numbers)
        documents = {number: _document(row) for number, *row in rows}
        return [documents[number] for number in numbers]

    def titled(self, name: str) -> list[Document]:
        """Return the documents with this title, ignoring case and quotes, in the order of the corpus."""
        key = title_key(plain_text(name))  # model text may contain a lone surrogate, which SQLite rejects
        rows = self._rows(f"SELECT {_COLUMNS} FROM documents WHERE title_hash = ? ORDER BY number", _hash(key))
        return [document for document in map(_document, rows) if title_key(document.title) == key]

    def find(self, id: str) -> Document | None:
        """Return the document with this id, or None."""
        rows = self._rows(f"SELECT {_COLUMNS} FROM documents WHERE id = ?", plain_text(id))
        return _document(rows[0]) if rows else None

    def unique(self, document: Document) -> bool:
        """Return True if no other document has this document's title."""
        rows = self._rows("SELECT 1 FROM documents WHERE title_hash = ? LIMIT 2", _hash(title_key(document.title)))
        return len(rows) == 1

    def __iter__(self) -> Iterator[Document]:
        """Yield all documents in order, reading them in batches."""
        return self.from_number(0)

    def from_number(self, first: int) -> Iterator[Document]:
        """Yield the documents from number `first` on, reading them in batches."""
        for start in range(first, self.size, _BATCH):
            bounds = (start, start + _BATCH)
            yield from map(
                _document, self._rows(f"SELECT {_COLUMNS} FROM documents WHERE number >= ? AND number < ?", *bounds)
            )

    def _rows(self, question: str, *values: object) -> list[tuple[object, ...]]:
        return self._connection().execute(question, values).fetchall()

    def _connection(self) -> sqlite3.Connection:
        """Return this thread's database connection; a forked child does not reuse its parent's."""
        if getattr(self._local, "process", None) != os.getpid():
            address = f"file:{quote(str(self.path.resolve()))}?mode=ro&immutable=1"
            self._local.connection = sqlite3.connect(address, uri=True)
            self._local.connection.execute(f"PRAGMA mmap_size = {_MAPPED}")
            self._local.process = os.getpid()
        return self._local.connection


def write_store(path: Path, documents: Iterable[Document], source: str, progress: Callable[[int], None]) -> None:
    """Write documents to a database file, which gets its final name only when it is complete.

    `source` names the corpus in errors; `progress` receives the number of documents so far.

    Raises:
        BadData: an id repeats, or there are no documents.
    """
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    connection = sqlite3.connect(part)
    try:
        connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE TABLE documents (number INTEGER PRIMARY KEY, id TEXT NOT NULL, title_hash INTEGER NOT NULL,"
            " title TEXT NOT NULL, text TEXT NOT NULL, quoted INTEGER NOT NULL);"
        )
        number = -1
        for number, document in enumerate(documents):
            row = (number, document.id, _hash(title_key(document.title)), document.title, document.text, document.quoted)
            connection.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)", row)
            if number % _BATCH == _BATCH - 1:
                connection.commit()
                progress(number + 1)
        if number < 0:
            raise BadData(f"{source} holds no document; expected at least one")
        connection.commit()
        try:
            connection.execute("CREATE UNIQUE INDEX by_id ON documents (id)")
        except sqlite3.IntegrityError:
            raise BadData(_repeated(connection, source)) from None
        connection.execute("CREATE INDEX by_title ON documents (title_hash)")
        connection.commit()
    finally:
        connection.close()
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)


def _repeated(connection: sqlite3.Connection, source: str) -> str:
    question = "SELECT id, min(number), max(number) FROM documents GROUP BY id HAVING count(*) > 1 ORDER BY 2 LIMIT 1"
    id, first, last = connection.execute(question).fetchone()
    return (
        f"{source}: the id {id!r} is that of document {first + 1} and of document {last + 1}; expected one document per id"
    )


def _hash(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big", signed=True)


def _document(row: Sequence[object]) -> Document:
    id, title, text, quoted = row
    return Document(str(id), str(title), str(text), bool(quoted))
