"""Garbage collection during imports and long work: spare the objects of large libraries."""

import gc
import sys
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
    if "torch" in sys.modules:
        gc.collect()  # the model of an earlier run would stay until the end of the block
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def uncollected() -> Generator[None]:
    """Pause garbage collection inside the block, for imports: a tenth of their time goes to objects that stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
