"""What the tests that read the sources of the package share."""

import ast

from agentgym.core.garbage import uncollected


def parsed(text: str) -> ast.Module:
    """Return the tree of a source; the garbage collector would walk it many times while it grows."""
    with uncollected():
        return ast.parse(text)
