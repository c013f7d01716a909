"""Text made safe for a terminal or a file: that of environments, models and files is hostile until it went through here."""

import sys


def printable(text: str) -> str:
    """Return text with control, format and surrogate characters, which could drive a terminal, shown as escapes."""
    return "".join(c if c in "\n\t" or c.isprintable() else repr(c)[1:-1] for c in text)


def storable(text: str) -> str:
    """Return text with a ? for each half of a character (lone surrogate), which no file, request or tokenizer takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def announce(line: str) -> None:
    """Print a slow step on standard error before it starts: loading torch or a model, a test run."""
    print(printable(line), file=sys.stderr, flush=True)
