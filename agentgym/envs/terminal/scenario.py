"""A task of a family: initial folder, instruction, right and wrong solutions, and the final check."""

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
"""The task's folder, relative to the home folder."""
Rng = np.random.Generator
Run = Callable[[str, bytes, Mapping[str, bytes]], Result]
"""Runs a command in a fresh sandbox with the final state: command, standard input, files to add."""
Checks = Iterator[tuple[str, bool]]
"""Requirements in words, each with its verdict."""
T = TypeVar("T")


class Final:
    """The agent's final state as a checker sees it: read outside the sandbox, executed only in a fresh one."""

    def __init__(self, tree: Tree, run: Run, home: str = f"{HOME}/{FOLDER}") -> None:
        self.tree, self.home, self._run = tree, home, run

    def entry(self, path: str) -> Entry | None:
        """Return the entry at a path, following links; None if there is none."""
        return at(self.tree, path, self.home)[1]

    def leads_to(self, path: str) -> str:
        """Return the path that a path resolves to."""
        return at(self.tree, path, self.home)[0]

    def content(self, path: str) -> bytes | None:
        """Return a file's bytes; None if there is no file."""
        entry = self.entry(path)
        return entry.content if entry is not None and entry.kind == "file" else None

    def text(self, path: str) -> str | None:
        """Return a file's text without trailing whitespace; None if there is no file, or it is not UTF-8."""
        content = self.content(path)
        try:
            return None if content is None else content.decode().rstrip()
        except UnicodeDecodeError:
            return None

    def files(self, below: str) -> dict[str, bytes]:
        """Return the files below a folder by path; a link counts as its target."""
        prefix = f"{below}/"
        contents = {path: self.content(path) for path in self.tree if path.startswith(prefix)}
        return {path: content for path, content in contents.items() if content is not None}

    def run(self, command: str, stdin: bytes = b"", files: Mapping[str, bytes] | None = None) -> Result:
        """Run a command in a fresh sandbox with this state."""
        return self._run(command, stdin, files or {})

    def prints(self, command: str, stdin: bytes = b"", files: Mapping[str, bytes] | None = None) -> str | None:
        """Return a command's output in a fresh sandbox, without trailing whitespace; None if it failed."""
        result = self.run(command, stdin, files)
        return result.stdout.decode("utf-8", "backslashreplace").rstrip() if result.ok else None


@dataclass(frozen=True)
class Scenario:
    """One task with everything that its environment, its oracle and its tests need."""

    instruction: str
    tree: Tree
    """Initial content of the folder."""
    solution: Sequence[str]
    """Commands of the solution, based on the instruction alone."""
    wrong: Mapping[str, Sequence[str]]
    """Plausible but wrong commands, by their error."""
    check: Callable[[Final], Checks]
    """Yields the requirements on the final state, however it was reached."""
    look: Sequence[str] = ("ls -la",)
    """Commands to look at the folder first."""
    show: Sequence[str] = ()
    """Commands to look at the result before submitting."""
    changes: Sequence[str] = ()
    """Paths that may change, folders with everything below them; all else must stay unchanged."""
    answers: Sequence[str] = field(default=())
    """Texts that the initial folder must not contain."""


Maker = Callable[[Rng, Rng, int], Scenario]
"""Creates a scenario from a generator for the instruction, one for the folder's content, and a level from 0.

The first generator and the level alone determine the instruction and the solution, so the solution cannot depend on
anything that the instruction does not say.
"""
FAMILIES: dict[str, Maker] = {}


def family(name: str) -> Callable[[Maker], Maker]:
    """Return a decorator that registers a function as the maker of a family's scenarios."""

    def enter(make: Maker) -> Maker:
        FAMILIES[name] = make
        return make

    return enter


@lru_cache(maxsize=256)
def scenario(name: str, ask: int, fill: int, level: int) -> Scenario:
    """Return a task of a family by its seeds and level."""
    return FAMILIES[name](generator(name, "ask", ask, level), generator(name, "fill", fill, level), level)


def grade(scene: Scenario, final: Final) -> str | None:
    """Return the first violated requirement in words; None if the task is done."""
    for path, before in scene.tree.items():
        if not any(path == free or path.startswith(f"{free}/") for free in scene.changes):
            after = final.tree.get(path)
            if after is None or (after.kind, after.content) != (before.kind, before.content):
                return f"{path} stays as it was"
    return next((what for what, holds in scene.check(final) if not holds), None)


def pick(rng: Rng, choices: Sequence[T]) -> T:
    """Return one of the choices."""
    return choices[int(rng.integers(len(choices)))]


def sample(rng: Rng, choices: Sequence[T], count: int) -> list[T]:
    """Return `count` distinct choices in random order."""
    return [choices[int(place)] for place in rng.permutation(len(choices))[:count]]


def shuffled(rng: Rng, items: Sequence[T]) -> list[T]:
    """Return the items in random order."""
    return sample(rng, items, len(items))
