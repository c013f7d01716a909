"""Tables as text with separators (RFC 4180)."""


class TableError(ValueError):
    """A table that cannot be read; `line` counts from 1."""

    def __init__(self, message, line):
        super().__init__(f"line {line}: {message}")
        self.line = line


def read_rows(text, separator=",", quote='"'):
    """Return the rows of a table as lists of text."""
    rows, row, field = [], [], ""
    quoted = was_quoted = False
    line, opened, at = 1, 0, 0
    while at < len(text):
        letter = text[at]
        at += 1
        if quoted:
            if letter == quote and text[at : at + 1] == quote:
                field += quote
                at += 1
            elif letter == quote:
                quoted = False
            else:
                line += letter == "\n"
                field += letter
        elif letter == quote and not field and not was_quoted:
            quoted = was_quoted = True
            opened = line
        elif letter == separator:
            row.append(field)
            field, was_quoted = "", False
        elif letter == "\n":
            if row or field or was_quoted:
                rows.append([*row, field.removesuffix("\r") if not was_quoted else field])
            row, field, was_quoted = [], "", False
            line += 1
        elif was_quoted and letter != "\r":
            raise TableError("text after a closing quote", line)
        else:
            field += "" if was_quoted else letter
    if quoted:
        raise TableError("a quote is never closed", opened)
    if row or field or was_quoted:
        rows.append([*row, field])
    return rows


def read_table(text, separator=",", types=None):
    """Return the rows under a header as dictionaries; `types` converts columns by name. Empty text becomes None there."""
    rows = read_rows(text, separator)
    if not rows:
        return []
    header, *body = rows
    if len(set(header)) < len(header):
        raise TableError("two columns have the same name", 1)
    found = []
    for number, row in enumerate(body, 2):
        if len(row) != len(header):
            raise TableError(f"{len(row)} fields; expected {len(header)}", number)
        record = dict(zip(header, row))
        for name, convert in (types or {}).items():
            if name in record:
                record[name] = convert(record[name]) if record[name] != "" else None
        found.append(record)
    return found


def write_table(records, columns=None, separator=","):
    """Return records as a table; columns are those of the first record, unless they are given."""
    columns = columns or list(records[0] if records else [])
    rows = [columns, *([record.get(name) for name in columns] for record in records)]
    return "".join(separator.join(_field(value, separator) for value in row) + "\n" for row in rows)


def _field(value, separator):
    if value is None:
        return ""
    text = str(value)
    if text == "" or any(mark in text for mark in (separator, '"', "\n", "\r")) or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text
