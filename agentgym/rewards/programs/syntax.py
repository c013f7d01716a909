"""Thread-safe parsing of Python."""

import ast
import threading

TRIES = 10
_lock = threading.Lock()


def parse(source: str | bytes, name: str = "<unknown>") -> ast.Module:
    """Return the syntax tree of Python code; raises SyntaxError, ValueError and MemoryError as `ast.parse` does.

    Python 3.11 counts the depth of all trees in one place. So if another thread parses or prints a traceback at the same
    time, `ast.parse` may raise SystemError (CPython issue 106905). The code is then parsed again.

    Raises:
        RecursionError: the code is too deep, or every try raised SystemError.
    """
    for _ in range(TRIES):
        try:
            with _lock:
                return ast.parse(source, name)
        except SystemError:
            continue
    raise RecursionError("the code could not be read: too deep, or too much is read at once")
