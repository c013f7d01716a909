"""Patterns of paths: `/users/{id:int}/files/{path:rest}`."""

import re
from urllib.parse import quote, unquote


class PatternError(ValueError):
    """A pattern that cannot be read, or values that do not fit one."""


CONVERTERS = {
    "str": (r"[^/]+", str),
    "int": (r"-?\d+", int),
    "float": (r"-?\d+\.\d+", float),
    "slug": (r"[a-z0-9]+(?:-[a-z0-9]+)*", str),
    "rest": (r".+", str),
}
"""What a part in braces matches, and what its text becomes."""
_PART = re.compile(r"\{(\w+)(?::(\w+))?\}")


class Pattern:
    """A path with parts in braces."""

    def __init__(self, text):
        if not text.startswith("/"):
            raise PatternError(f"a pattern begins with /, unlike {text!r}")
        self.text = text
        self.names = {}
        pieces, at = [], 0
        for found in _PART.finditer(text):
            name, kind = found[1], found[2] or "str"
            if kind not in CONVERTERS:
                raise PatternError(f"no converter {kind!r}; known: {', '.join(sorted(CONVERTERS))}")
            if name in self.names:
                raise PatternError(f"{name!r} occurs twice in {text!r}")
            if kind == "rest" and found.end() != len(text):
                raise PatternError(f"{{{name}:rest}} must be the last part of {text!r}")
            self.names[name] = kind
            pieces.append(re.escape(text[at : found.start()]))
            pieces.append(f"(?P<{name}>{CONVERTERS[kind][0]})")
            at = found.end()
        remaining = text[at:]
        if "{" in remaining or "}" in remaining:
            raise PatternError(f"a brace is not closed in {text!r}")
        self._regex = re.compile("".join([*pieces, re.escape(remaining)]))

    @property
    def rank(self):
        """What decides between patterns that match alike: smaller is tried first."""
        weights = {"int": 1, "float": 1, "slug": 2, "str": 3, "rest": 4}
        parts = []
        for segment in self.text.strip("/").split("/"):
            kinds = [found[2] or "str" for found in _PART.finditer(segment)]
            parts.append(max((weights[kind] for kind in kinds), default=0))
        return parts, -len(self.text)

    def match(self, path):
        """Return the values of the parts where a path fits, else None."""
        found = self._regex.fullmatch(path)
        if found is None:
            return None
        values = {}
        for name, text in found.groupdict().items():
            convert = CONVERTERS[self.names[name]][1]
            values[name] = convert(unquote(text))
        return values

    def build(self, **values):
        """Return the path for some values; PatternError where one is missing, too much or does not fit."""
        extra = set(values) - set(self.names)
        if extra:
            raise PatternError(f"{self.text} has no {sorted(extra)[0]!r}")

        def fill(found):
            name = found[1]
            if name not in values:
                raise PatternError(f"{self.text} needs a value for {name!r}")
            kind = self.names[name]
            text = quote(str(values[name]), safe="/" if kind == "rest" else "")
            if not re.fullmatch(CONVERTERS[kind][0], text):
                raise PatternError(f"{values[name]!r} is no {kind}")
            return text

        return _PART.sub(fill, self.text)
