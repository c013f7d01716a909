"""Processes that do not run the user's script a second time."""

import multiprocessing
import pickle
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

from agentgym.errors import BadConfig

GUARD = 'put the script\'s code under `if __name__ == "__main__":`, or the environment into a separate module'
_LOCK = threading.Lock()
"""Held while the script is hidden, which all threads would see."""


def defined_in_script(sent: object) -> bool:
    """Whether what is sent to a process can only be found in the script that runs."""
    try:
        return b"__main__" in pickle.dumps(sent)
    except Exception:  # a lambda, say, which goes by value
        return False


@contextmanager
def spawned(*, script: bool) -> Generator[None]:
    """Start processes of `multiprocessing` that import the script only where asked to.

    They do so otherwise, and a script without `if __name__ == "__main__":` would begin again in each of them.
    """
    main = sys.modules["__main__"]
    with _LOCK:
        hidden = {} if script else {name: vars(main)[name] for name in ("__spec__", "__file__") if name in vars(main)}
        if hidden:
            main.__spec__ = None
            vars(main).pop("__file__", None)
        try:
            yield
        finally:
            vars(main).update(hidden)


def check_not_importing() -> None:
    """Raise BadConfig in a process that is importing its parent's script, which would otherwise run again in it."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise BadConfig(f"this script plays episodes while a worker process imports it: {GUARD}")
