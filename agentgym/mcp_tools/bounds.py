"""Size limit for messages of an untrusted MCP server; the package `mcp` reads lines of any length."""

import codecs
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LARGEST = 4 << 20
"""Maximum bytes of one message, which contains a result twice if a tool declares an output type."""
ENCODING = "agentgym_mcp_utf_8"
"""Name of a text encoding: UTF-8, but decoding stops at the first line longer than `LARGEST` bytes."""
TOO_MUCH: ContextVar[Callable[[], None]] = ContextVar("TOO_MUCH")
"""Function to call when a message is too long; it is set before a connection is opened."""


class _Lines(codecs.IncrementalDecoder):
    """Decodes lines until one exceeds `LARGEST` bytes, and drops everything from that line on."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._utf_8 = codecs.getincrementaldecoder("utf-8")(errors)
        self._length = 0  # bytes of the current line so far

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
