"""Task files: finding them, and reading their JSON objects line by line, each with its location."""

import codecs
import csv
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

from agentgym.errors import BadData

COPY = "give the path of your copy, or set AGENTGYM_DATA to its folder"


def find_file(path: str) -> Path:
    """Return the file at the path, or under $AGENTGYM_DATA if the path is relative; raise BadData if it does not exist."""
    return find_path(path, Path.is_file, "no file", COPY)


def find_path(path: str, there: Callable[[Path], bool], missing: str, advice: str) -> Path:
    """Return the path, or a relative path under $AGENTGYM_DATA: the first for which `there` returns True.

    Raises:
        BadData: there is no such path; the message begins with `missing` and ends with `advice`.
    """
    choices = [Path(path).expanduser()]
    if os.environ.get("AGENTGYM_DATA") and not choices[0].is_absolute():
        choices.append(Path(os.environ["AGENTGYM_DATA"]).expanduser() / path)
    for choice in choices:
        if there(choice):
            return choice
    tried = " and ".join(str(choice) for choice in choices)
    raise BadData(f"{missing} {path!r} (looked at {tried}); {advice}")


def stamp(path: str) -> tuple[str, int, int]:
    """Return a file's path, modification time in ns and size in bytes, which show when a cached file is out of date."""
    file = find_file(path)
    status = file.stat()
    return str(file), status.st_mtime_ns, status.st_size


def objects(path: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield (location, JSON object) for each non-empty line; a file whose name ends in .gz is decompressed.

    For a table (.csv) the objects are its rows, keyed by the header.

    Raises:
        BadData: a line is not a JSON object, or the file is damaged; the message gives file and line.
    """
    if is_table(path):
        yield from table_rows(path)
        return
    for number, line in raw_lines(path):
        if line.isspace():
            continue
        where = f"{path}, line {number}"
        try:
            value = decoded(line.decode())
        except json.JSONDecodeError as error:
            raise BadData(f"{where}: {error.msg} (column {error.colno}); expected one JSON object a line") from error
        except (UnicodeDecodeError, RecursionError, ValueError) as error:
            raise BadData(f"{where}: {error}; expected one JSON object a line in UTF-8") from error
        if not isinstance(value, dict):
            raise BadData(f"{where}: {str(value)[:60]!r}; expected a JSON object")
        yield where, cast("dict[str, object]", value)


_DECODER = json.JSONDecoder()


def decoded(line: str) -> object:
    """Like `json.loads`, but faster if no spaces surround the value."""
    try:
        value, end = _DECODER.raw_decode(line)
    except json.JSONDecodeError:
        return json.loads(line)
    return value if line[end:] in ("", "\n", "\r\n") else json.loads(line)


def raw_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield (number from 1, line) for the lines of a file.

    Raises:
        BadData: the file is missing, unreadable or damaged.
    """
    number = 0
    try:
        with opened(path) as file:
            for number, line in enumerate(file, 1):
                yield number, line
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise BadData(f"{path}: {error.strerror}; expected a file that can be read") from error
    except (OSError, EOFError, zlib.error) as error:
        raise BadData(f"{path}, after line {number}: {error}; the file is damaged or cut short") from error


def opened(path: str) -> gzip.GzipFile | io.BufferedReader:
    """Open a file for reading bytes and skip a byte order mark; a file whose name ends in .gz is decompressed."""
    file = gzip.open(path, "rb") if path.endswith(".gz") else Path(path).open("rb")  # noqa: SIM115  # the caller closes it
    if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
        file.seek(0)
    return file


def is_table(path: str) -> bool:
    """Return True if a file's name says that it is a CSV table, whose first row is its header."""
    return path.removesuffix(".gz").endswith(".csv")


def table_rows(path: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield (location, object of texts) for the rows of a table; empty cells are left out.

    Raises:
        BadData: the file is not CSV in UTF-8, or a row has more cells than the header.
    """
    try:
        text = b"".join(line for _, line in raw_lines(path)).decode()
    except UnicodeDecodeError as error:
        raise BadData(f"{path}: {error}; expected a CSV file in UTF-8") from error
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey="", strict=True)
    try:
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            if "" in row:
                raise BadData(f'{where}: more cells than the header\'s {len(reader.fieldnames or ())}; quote commas: "a, b"')
            yield where, {name.strip(): cell for name, cell in row.items() if cell and cell.strip()}
    except csv.Error as error:
        raise BadData(f"{path}, line {reader.line_num}: {error}; expected a CSV file with a header") from error
