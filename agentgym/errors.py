"""Exceptions that a caller may catch. Each is also the standard type it resembles, and its message says what to do next."""

import difflib
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

DISTRIBUTION = "rlvr-gym"  # no package index has it yet; "agentgym" there is somebody else's

_VERSION = re.compile(r"-v\d+$")

RENAMED = {"shown": "max_chars", "kept": "hint_in_training"}
"""Former option names, mapped to current ones; an error message suggests the current name."""


class UnknownName(LookupError):
    """A name that is not in its table; the message suggests the closest one."""


class BadConfig(ValueError):
    """An option that is unknown, out of range or in conflict with another."""


class BadData(ValueError):
    """A file with unexpected content; the message names the file, the line and what was expected."""


class EpisodeOver(RuntimeError):
    """`step` was called before `reset` or after the end of an episode."""


class MissingExtra(ImportError):
    """An optional dependency is missing; the message names the extra to install."""


class Reason(StrEnum):
    """Reason why an episode ended; the values are stored in files."""

    SUCCESS = "success"
    """The environment decided: the task is solved."""
    FAILURE = "failure"
    """The environment decided: the task is not solved. Also used if the agent's own text or actions broke something."""
    HORIZON = "horizon"
    """The turn limit was reached before the task was decided."""
    CONTEXT = "context"
    """The prompt no longer fits the model's context."""
    PRUNED = "pruned"
    """A gate ended the episode early (see `agentgym.rollout.gate`); it is excluded from training and from success rates."""
    TIMEOUT = "timeout"
    """A fault: the environment, or something that it depends on, did not answer in time."""
    CRASH = "crash"
    """A fault: the environment, or something that it depends on, failed."""
    ENGINE = "engine"
    """A fault: the engine failed."""

    __repr__ = str.__repr__


class Fault(RuntimeError):
    """Something that an environment or engine depends on failed; the episode ends as a fault and is never trained on.

    `reason` is `Reason.TIMEOUT`, `CRASH` or `ENGINE`.
    """

    def __init__(self, message: str, reason: str = Reason.CRASH) -> None:
        super().__init__(message)
        self.reason = reason


RULED_OUT = "with the agent's part taken away: "
"""Beginning of a fault's message if the environment has ruled out the agent's actions as its cause."""


class EngineDead(Fault):
    """The engine will never answer again; this ends the whole rollout instead of making every episode a fault."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason=Reason.ENGINE)


def no_such(kind: str, name: str, known: Iterable[str], hint: str = "") -> str:
    """Return the error message for an unknown name, with the closest known name as a suggestion."""
    names = sorted(set(known))
    new_name = RENAMED.get(name.rpartition(".")[2])
    close = new_name if new_name in names else _closest(name, names)
    guess = f" Did you mean {close!r}?" if close else ""
    lists_all = names and not hint and (len(names) <= 12 or not close)
    choices = f" Known: {', '.join(names)}." if lists_all else ""
    return f"no {kind} {name!r}.{guess}{choices}{' ' + hint if hint else ''}"


def how_to_install(name: str) -> str:
    """Return the command that installs the extra `name` here, for a checkout or for an installed wheel.

    The command does not name an agentgym distribution, because none is published: a checkout installs itself with the
    extra, and for a wheel the extra's packages are listed.
    """
    checkout = Path(__file__).resolve().parent.parent
    here = checkout.samefile(Path())
    python = sys.executable.removeprefix(f"{checkout}/") if here else sys.executable
    own = shutil.which("pip") == str(Path(sys.executable).with_name("pip"))
    pip = "pip" if own else f"{shlex.quote(python)} -m pip"
    project = checkout / "pyproject.toml"
    if project.is_file() and f'name = "{DISTRIBUTION}"' in project.read_text(encoding="utf-8"):
        place = "." if here else checkout
        return f"{pip} install -e {shlex.quote(f'{place}[{name}]')}"
    try:
        return f"{pip} install {' '.join(map(shlex.quote, _requirements(name)))}"
    except ImportError:  # a copied folder that was not installed
        return f"what the project's pyproject.toml lists under {name!r}"


def _requirements(extra: str) -> list[str]:
    """Return the requirements of an extra of the installed distribution, including those of nested extras."""
    from importlib import metadata

    requirements: list[str] = []
    condition = f'extra == "{extra}"'
    for line in metadata.requires(DISTRIBUTION) or ():
        if line.endswith(condition):
            requirement = re.sub(r"\s*(;|and)\s*$", "", line.removesuffix(condition))
            inner = re.fullmatch(rf"{DISTRIBUTION}\[(.+)\]", requirement)
            requirements += [r for name in inner[1].split(",") for r in _requirements(name)] if inner else [requirement]
    return requirements


def _closest(name: str, names: Iterable[str]) -> str | None:
    """Return the name closest to `name`; None if no name is close.

    Namespace, version, leading dashes and case are ignored; otherwise `rlvr/Nope-v0` and `rlvr/Shop-v0` would seem close.
    """
    bare = {_VERSION.sub("", known.rpartition("/")[2]).lstrip("-").lower(): known for known in names}
    closest = difflib.get_close_matches(_VERSION.sub("", name.rpartition("/")[2]).lstrip("-").lower(), bare, n=1, cutoff=0.6)
    return bare[closest[0]] if closest else None


def failure(error: Exception) -> str:
    """Return place and error of a failure in a user's own code as one line: `FILE, line N: TYPE: MESSAGE`.

    The place is the last line of the traceback outside this package, the standard library and site-packages; it is left out
    if there is no such line.
    """
    import sysconfig
    import traceback

    description = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: {description}"
    ours = ("<frozen", str(Path(__file__).parent), *(sysconfig.get_path(name) for name in ("stdlib", "purelib")))
    foreign = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ours)]
    return f"{foreign[-1].filename}, line {foreign[-1].lineno}: {description}" if foreign else description
