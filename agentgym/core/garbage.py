"""Garbage collection during long work: the libraries' objects are left out of it."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def libraries_frozen() -> Generator[None]:
    """Leave the objects that exist now out of garbage collections during the block, unless the caller has done the same.

    An episode makes many small objects, and each full collection visits all objects of torch and transformers: without
    this, it takes a twelfth of a rollout.
    """
    if gc.get_freeze_count():  # another block's, or the caller's own
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
