"""Make text safe for a terminal or a file; text of environments, models and files is untrusted before that."""

import sys


def printable(text: str) -> str:
    """Return text with control, format and surrogate characters escaped for a terminal; newline and tab stay."""
    return "".join(c if c in "\n\t" or c.isprintable() else repr(c)[1:-1] for c in text)


def storable(text: str) -> str:
    """Return text with `?` for each lone surrogate, which no file, request or tokenizer accepts."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def announce(line: str) -> None:
    """Print a line on standard error before a slow step, such as loading torch or a model."""
    print(printable(line), file=sys.stderr, flush=True)
