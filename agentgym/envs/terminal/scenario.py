"""A task of a family: what the folder holds, what is asked, how it is done right and wrong, and what has to hold after."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

import numpy as np

from agentgym.core.seeding import generator
from agentgym.envs.terminal.tree import Entry, Tree, at
from agentgym.sandbox.protocol import Result

HOME = "/home/agent"
FOLDER = "task"
"""The folder of the task, in the home folder."""
Rng = np.random.Generator
Run = Callable[[str, bytes, Mapping[str, bytes]], Result]
"""Run a command in a fresh sandbox that holds the final state: command, standard input, files to add."""
Checks = Iterator[tuple[str, bool]]
"""What has to hold, in words, and whether it does."""
T = TypeVar("T")


class Final:
    """The state that an agent left, as a checker sees it: read outside the sandbox, run only in a fresh one."""

    def __init__(self, tree: Tree, run: Run, home: str = f"{HOME}/{FOLDER}") -> None:
        self.tree, self.home, self._run = tree, home, run

    def entry(self, path: str) -> Entry | None:
        """Return what is at a path, links followed; None where nothing is."""
        return at(self.tree, path, self.home)[1]

    def leads_to(self, path: str) -> str:
        """Return the path that a path leads to, links followed."""
        return at(self.tree, path, self.home)[0]

    def content(self, path: str) -> bytes | None:
        """Return a file's bytes; None where there is no file."""
        entry = self.entry(path)
        return entry.content if entry is not None and entry.kind == "file" else None

    def text(self, path: str) -> str | None:
        """Return a file's text without white space at its end; None where there is no file, or no UTF-8 in it."""
        content = self.content(path)
        try:
            return None if content is None else content.decode().rstrip()
        except UnicodeDecodeError:
            return None

    def files(self, below: str) -> dict[str, bytes]:
        """Return the files below a folder by path; a link counts as what it points to."""
        prefix = f"{below}/"
        contents = {path: self.content(path) for path in self.tree if path.startswith(prefix)}
        return {path: content for path, content in contents.items() if content is not None}

    def run(self, command: str, stdin: bytes = b"", files: Mapping[str, bytes] | None = None) -> Result:
        """Run a command in a fresh sandbox that holds this state."""
        return self._run(command, stdin, files or {})

    def prints(self, command: str, stdin: bytes = b"", files: Mapping[str, bytes] | None = None) -> str | None:
        """Return what a command prints in a fresh sandbox, without white space at its end; None where it failed."""
        result = self.run(command, stdin, files)
        return result.stdout.decode("utf-8", "backslashreplace").rstrip() if result.ok else None


@dataclass(frozen=True)
class Scenario:
    """One task, with all that its environment, its oracle and its tests need."""

    instruction: str
    tree: Tree
    """What the folder holds at the start."""
    solution: Sequence[str]
    """Commands that do it, from what the instruction says alone."""
    wrong: Mapping[str, Sequence[str]]
    """Commands that look plausible and do not do it, by what is wrong with them."""
    check: Callable[[Final], Checks]
    """Yields what has to hold in the end; whatever way led there."""
    look: Sequence[str] = ("ls -la",)
    """What somebody would look at first."""
    show: Sequence[str] = ()
    """What somebody would look at before handing in."""
    changes: Sequence[str] = ()
    """Paths that may change, folders with all below them; everything else must stay as it is."""
    answers: Sequence[str] = field(default=())
    """What must not be shown at the start."""


Maker = Callable[[Rng, Rng, int], Scenario]
"""Make a scenario from chance for what is asked, chance for what the folder holds, and a level from 0.

The same first chance and level give the same instruction and the same solution, whatever the second: so nothing in the
solution can come from what the instruction does not show.
"""
FAMILIES: dict[str, Maker] = {}


def family(name: str) -> Callable[[Maker], Maker]:
    """Register a function that makes the scenarios of a family."""

    def enter(make: Maker) -> Maker:
        FAMILIES[name] = make
        return make

    return enter


@lru_cache(maxsize=256)
def scenario(name: str, ask: int, fill: int, level: int) -> Scenario:
    """Return a task of a family by its seeds and level."""
    return FAMILIES[name](generator(name, "ask", ask, level), generator(name, "fill", fill, level), level)


def grade(scene: Scenario, final: Final) -> str | None:
    """Return what does not hold in the final state, in words; None where the task is done."""
    for path, before in scene.tree.items():
        if not any(path == free or path.startswith(f"{free}/") for free in scene.changes):
            after = final.tree.get(path)
            if after is None or (after.kind, after.content) != (before.kind, before.content):
                return f"{path} was to stay as it is"
    return next((what for what, holds in scene.check(final) if not holds), None)


def pick(rng: Rng, choices: Sequence[T]) -> T:
    """Return one of the choices."""
    return choices[int(rng.integers(len(choices)))]


def sample(rng: Rng, choices: Sequence[T], count: int) -> list[T]:
    """Return so many different choices, in random order."""
    return [choices[int(place)] for place in rng.permutation(len(choices))[:count]]


def shuffled(rng: Rng, items: Sequence[T]) -> list[T]:
    """Return the items in random order."""
    return sample(rng, items, len(items))
