"""What may be written to a terminal: text of environments, models and files is hostile until it went through here."""

import sys


def printable(text: str) -> str:
    """Return text with control, format and surrogate characters, which could drive a terminal, shown as escapes."""
    return "".join(c if c in "\n\t" or c.isprintable() else repr(c)[1:-1] for c in text)


def announce(line: str) -> None:
    """Say on standard error what is about to be done, before what takes seconds: loading torch, a model, a test run."""
    print(printable(line), file=sys.stderr, flush=True)
