"""What the tests that read the sources of the package share."""

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collector() -> Iterator[None]:
    """Stop the garbage collector meanwhile: trees have no cycles, and it would walk a growing one many times."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def parsed(text: str) -> ast.Module:
    """Return the tree of a source."""
    with no_collector():
        return ast.parse(text)
