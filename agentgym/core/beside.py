"""The current folder of a command: modules that its user names can be imported from it, and nothing else.

The folder may be a stranger's download. A `docker.py` in it must not stand in for a package that is not installed.
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
"""Folders in which a command looks for modules that its user names; empty outside of commands."""
_SAFE = "PYTHONSAFEPATH"
_OURS = "agentgym"
"""A value of the variable that shows that agentgym set it; any text has the same effect."""
_OWN_FOLDER = str(Path(__file__).parents[2])
"""Folder that the package is imported from: a checkout or site-packages."""
_LOCK = threading.Lock()


def leave_folder() -> None:
    """Take the current folder off the path of modules, and remember it for `find`. `python -m agentgym` puts it first.

    It stays where the package itself is imported from it.
    """
    here = _folder()
    FOLDERS[:] = [here] if here else []
    if here != _OWN_FOLDER and not sys.flags.safe_path and sys.path[:1] in ([here], [""]):
        del sys.path[0]


def _folder() -> str:
    """Return the current folder; empty for one that is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def find(module: str) -> None:
    """Let Python find a module that the user names: where it finds none, a command's folder that has it joins the path."""
    top = module.partition(".")[0]
    if not FOLDERS or not re.fullmatch(r"\w+", top) or top in sys.modules or importlib.util.find_spec(top):
        return
    for folder in FOLDERS:
        if importlib.machinery.PathFinder.find_spec(top, [folder]):
            sys.path.append(folder)  # last; its modules may import their neighbors, and workers inherit the path
            return


def python() -> list[str]:
    """Return the words that start a Python of the same kind, which imports nothing from the current folder."""
    return [sys.executable] if _folder() == _OWN_FOLDER else [sys.executable, "-P"]


@contextmanager
def safe_start() -> Generator[None]:
    """Start processes of `multiprocessing` that import nothing from the current folder before they have this one's path."""
    with _LOCK:
        if not os.environ.get(_SAFE) and _folder() != _OWN_FOLDER:
            os.environ[_SAFE] = _OURS
        try:
            yield
        finally:
            if os.environ.get(_SAFE) == _OURS:
                del os.environ[_SAFE]


def started() -> None:
    """Undo `safe_start` in the process that was started, for the programs that it starts itself."""
    if os.environ.get(_SAFE) == _OURS:
        del os.environ[_SAFE]
