"""Addresses: taken apart, put together, made canonical."""

import re
from dataclasses import dataclass, replace
from urllib.parse import quote_plus, unquote_plus

DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21}
_URL = re.compile(
    r"(?:(?P<scheme>[A-Za-z][\w+.-]*):)?(?://(?:(?P<user>[^@/?#]*)@)?(?P<host>[^:/?#]*)(?::(?P<port>\d*))?)?"
    r"(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?$"
)


@dataclass(frozen=True)
class Url:
    """The parts of an address; what it lacks is empty or None."""

    scheme: str = ""
    user: str = ""
    host: str = ""
    port: int | None = None
    path: str = ""
    query: str = ""
    fragment: str = ""

    @classmethod
    def parse(cls, text):
        """Take an address apart; ValueError where it cannot be one."""
        found = _URL.match(text)
        if found is None or " " in text:
            raise ValueError(f"no address: {text!r}")
        port = int(found["port"]) if found["port"] else None
        if port is not None and port > 65535:
            raise ValueError(f"no such port: {port}")
        scheme = (found["scheme"] or "").lower()
        host = (found["host"] or "").lower()
        return cls(scheme, found["user"] or "", host, port, found["path"], found["query"] or "", found["fragment"] or "")

    def __str__(self):
        text = f"{self.scheme}:" if self.scheme else ""
        if self.host:
            text += "//" + (f"{self.user}@" if self.user else "") + self.host
            text += f":{self.port}" if self.port is not None else ""
        text += self.path
        text += f"?{self.query}" if self.query else ""
        text += f"#{self.fragment}" if self.fragment else ""
        return text

    def origin(self):
        """Return scheme, host and port, the scheme's own port where none is given."""
        return self.scheme, self.host, self.port or DEFAULT_PORTS.get(self.scheme)

    def with_query(self, **values):
        """Return it with values set in the query; None takes one out."""
        pairs = [(name, value) for name, value in parse_query(self.query) if name not in values]
        pairs += [(name, value) for name, value in values.items() if value is not None]
        return replace(self, query=build_query(pairs))


def parse_query(text):
    """Return the (name, value) pairs of a query, in order; a name without = has an empty value."""
    pairs = []
    for piece in text.lstrip("?").split("&"):
        if not piece:
            continue
        name, _, value = piece.partition("=")
        pairs.append((unquote_plus(name), unquote_plus(value)))
    return pairs


def build_query(values):
    """Return a query for pairs or a dictionary; lists give a pair for each of their items, True a name alone."""
    pieces = []
    for name, value in values.items() if isinstance(values, dict) else values:
        for item in value if isinstance(value, (list, tuple)) else [value]:
            key = quote_plus(str(name))
            pieces.append(key if item is True else f"{key}={quote_plus(str(item))}")
    return "&".join(pieces)


def remove_dots(path):
    """Return a path without `.` and `..` (RFC 3986, section 5.2.4)."""
    kept = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            if len(kept) > 1 or (kept and kept[0] != ""):
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", "..") and (not kept or kept[-1] != ""):
        kept.append("")
    return "/".join(kept) or ("/" if path.startswith("/") else "")


def join(base, reference):
    """Return the address that a reference means on a page at `base` (RFC 3986, section 5.2)."""
    start, there = Url.parse(base), Url.parse(reference)
    if there.scheme:
        return str(replace(there, path=remove_dots(there.path)))
    if there.host:
        return str(replace(there, scheme=start.scheme, path=remove_dots(there.path)))
    if not there.path:
        query = there.query or start.query
        return str(replace(start, query=query, fragment=there.fragment))
    if there.path.startswith("/"):
        path = remove_dots(there.path)
    else:
        folder = start.path.rsplit("/", 1)[0] if "/" in start.path else ""
        path = remove_dots(f"{folder}/{there.path}")
    return str(replace(start, path=path, query=there.query, fragment=there.fragment))


def normalize(text):
    """Return the canonical form of an address: no default port, no dots, sorted query, capital escapes, no fragment."""
    url = Url.parse(text)
    port = None if url.port == DEFAULT_PORTS.get(url.scheme) else url.port
    path = re.sub(r"%[0-9a-fA-F]{2}", lambda found: found[0].upper(), remove_dots(url.path))
    if url.host and not path:
        path = "/"
    query = build_query(sorted(parse_query(url.query)))
    return str(replace(url, port=port, path=path, query=query, fragment=""))
