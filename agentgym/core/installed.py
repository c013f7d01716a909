"""Environments of installed packages: distributions name their ids and classes in the entry-point group `agentgym.envs`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

GROUP = "agentgym.envs"
OURS = "rlvr"
"""Namespace of the environments that agentgym ships; other packages must not register ids in it."""
_ID = re.compile(r"(\w[\w-]*)/\w[\w.-]*-v\d+", re.ASCII)
_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment that an installed distribution offers."""

    id: str
    entry_point: str
    """`module:Class`; the module is imported when the environment is made."""
    distribution: str
    """Name and version of the distribution."""


def installed(points: Iterable[EntryPoint] | None = None) -> tuple[list[Installed], list[str]]:
    """Return the environments of installed packages without importing them, and a sentence for each rejected entry point.

    `points` defaults to the entry points of this Python. If several distributions register the same id, the first in
    alphabetical order wins, and the others are reported if they name another class.
    """
    envs: dict[str, Installed] = {}
    problems: list[str] = []
    points = entry_points(group=GROUP) if points is None else points
    for owner, point in sorted(((_owner(point), point) for point in points), key=lambda pair: (pair[0], pair[1].name)):
        name = _ID.fullmatch(point.name)
        if name is None:
            problems.append(f"{owner} names an environment {point.name!r}; expected NAMESPACE/NAME-v0")
        elif name[1].lower() == OURS:
            problems.append(f"{owner} names an environment {point.name!r}; the namespace {OURS} is agentgym's own")
        elif not _TARGET.fullmatch(point.value):
            problems.append(f"{owner} names {point.value!r} for {point.name}; expected MODULE:CLASS")
        elif point.name not in envs:
            envs[point.name] = Installed(point.name, point.value, owner)
        elif envs[point.name].entry_point != point.value:
            problems.append(f"{owner} names {point.name} too, which {envs[point.name].distribution} has; remove one of them")
    return list(envs.values()), problems


def _owner(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "a package"
