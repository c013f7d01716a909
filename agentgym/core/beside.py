"""The current folder of a command: Python finds modules there only if the user names them.

The folder may be a stranger's download. A `docker.py` in it must not stand in for a package that is not installed.
Only a folder from which agentgym itself is imported is exempt.
"""

import importlib.machinery
import importlib.util
import os
import re
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

FOLDERS: list[str] = []
"""Folders in which a command looks for modules that its user names; empty if no command is running."""
_SAFE = "PYTHONSAFEPATH"
_OURS = "agentgym"
"""Value of PYTHONSAFEPATH that shows that agentgym set it; Python treats any nonempty value the same way."""
_OWN_FOLDER = str(Path(__file__).parents[2])
"""Folder from which Python imports agentgym: a checkout or site-packages."""
_LOCK = threading.Lock()


def leave_folder() -> None:
    """Remove the current folder from `sys.path`, where `python -m agentgym` puts it, and store it in FOLDERS for `find`.

    The folder is not removed if agentgym itself is imported from it.
    """
    here = _folder()
    FOLDERS[:] = [here] if here else []
    if here != _OWN_FOLDER and not sys.flags.safe_path and sys.path[:1] in ([here], [""]):
        del sys.path[0]


def _folder() -> str:
    """Return the current folder; empty if it no longer exists."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def find(module: str) -> None:
    """Append the folder in FOLDERS to `sys.path` if it contains `module` and Python finds no such module elsewhere."""
    top = module.partition(".")[0]
    if not FOLDERS or not re.fullmatch(r"\w+", top) or top in sys.modules or importlib.util.find_spec(top):
        return
    for folder in FOLDERS:
        if importlib.machinery.PathFinder.find_spec(top, [folder]):
            sys.path.append(folder)  # last; its modules may import their neighbors, and workers inherit the path
            return


def python() -> list[str]:
    """Return the start of a command line that runs this Python without importing from the current folder."""
    return [sys.executable] if _folder() == _OWN_FOLDER else [sys.executable, "-P"]


@contextmanager
def safe_start() -> Generator[None]:
    """Keep processes that `multiprocessing` starts in the block from importing from the current folder while they start."""
    with _LOCK:
        if not os.environ.get(_SAFE) and _folder() != _OWN_FOLDER:
            os.environ[_SAFE] = _OURS
        try:
            yield
        finally:
            if os.environ.get(_SAFE) == _OURS:
                del os.environ[_SAFE]


def started() -> None:
    """Undo `safe_start` in a process started inside its block, so that programs started by this process are not affected."""
    if os.environ.get(_SAFE) == _OURS:
        del os.environ[_SAFE]
