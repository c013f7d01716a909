"""Python's syntax, read safely: by one thread at a time."""

import ast
import threading

TRIES = 10
_lock = threading.Lock()


def parse(source: str | bytes, name: str = "<unknown>") -> ast.Module:
    """Return the syntax tree of Python code; SyntaxError, ValueError, RecursionError or MemoryError where it has none.

    Python 3.11 counts the depth of all trees in one place: another thread that reads one at the same time, or a
    traceback that is printed meanwhile, makes it raise SystemError (CPython issue 106905). Then it is read again.
    """
    for _ in range(TRIES):
        try:
            with _lock:
                return ast.parse(source, name)
        except SystemError:
            continue
    raise RecursionError("the code could not be read: too deep, or too much is read at once")
