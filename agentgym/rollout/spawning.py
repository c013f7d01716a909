"""Starting of processes without running the user's script again."""

import multiprocessing
import pickle
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

from agentgym.errors import BadConfig

GUARD = 'put the script\'s code under `if __name__ == "__main__":`, or the environment into a separate module'
_LOCK = threading.Lock()
"""Lock for the time in which the script is hidden, since that affects all threads."""


def defined_in_script(sent: object) -> bool:
    """Return True if unpickling an object in another process requires a definition from the running script."""
    try:
        return b"__main__" in pickle.dumps(sent)
    except Exception:  # for example a lambda, which goes by value
        return False


@contextmanager
def spawned(*, script: bool) -> Generator[None]:
    """Make `multiprocessing` start processes that import the script only if `script` is True.

    By default they always import it, so a script without `if __name__ == "__main__":` would run again in each process.
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
    """Check that this process is not a worker that is importing its parent's script, which would play the episodes again.

    Raises:
        BadConfig: this process is importing its parent's script.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise BadConfig(f"this script plays episodes while a worker process imports it: {GUARD}")
