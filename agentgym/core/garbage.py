"""Garbage collection during long work: exclude the objects of large libraries."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def libraries_frozen() -> Generator[None]:
    """Exclude the existing objects from garbage collection inside the block; do nothing if objects are already frozen.

    An episode creates many small objects, and each full collection visits all objects of torch and transformers:
    without this, collection takes a twelfth of a rollout.
    """
    if gc.get_freeze_count():  # another block's, or the caller's own
        yield
        return
    gc.collect()  # the model of an earlier run would stay until the end of the block
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
