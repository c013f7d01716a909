"""Bound on a message from an untrusted server: the official package reads lines and bodies of any length."""

import codecs
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LARGEST = 4 << 20
"""Bytes of one message, which contains a result twice if a tool declares its type; callers cut the text."""
ENCODING = "agentgym_mcp_utf_8"
"""UTF-8 of the lines of a server's output, none longer than `LARGEST`."""
TOO_MUCH: ContextVar[Callable[[], None]] = ContextVar("TOO_MUCH")
"""Callback for a longer message; set before a connection is opened."""


class _Lines(codecs.IncrementalDecoder):
    """Decodes lines up to the first that is too long, and drops everything from there on."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._utf_8 = codecs.getincrementaldecoder("utf-8")(errors)
        self._length = 0  # bytes of the line that has not ended

    def decode(self, input: "ReadableBuffer", final: bool = False) -> str:
        if self._length > LARGEST:
            return ""
        first, *others = bytes(input).split(b"\n")
        lengths = [self._length + len(first), *map(len, others)]
        self._length = lengths[-1]
        if max(lengths) > LARGEST:
            self._length = LARGEST + 1
            TOO_MUCH.get()()
            return ""
        return self._utf_8.decode(input, final)


def _find(name: str) -> codecs.CodecInfo | None:
    if name != ENCODING:
        return None
    utf_8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf_8.encode, utf_8.decode, incrementaldecoder=_Lines, name=ENCODING)


codecs.register(_find)
