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
"""Function that runs a command in a fresh sandbox with the final state: (command, standard input, files to add)."""
Checks = Iterator[tuple[str, bool]]
"""(requirement in words, True if it is met) pairs."""
T = TypeVar("T")


class Final:
    """The agent's final state for checks: files are read outside the sandbox and executed only in a fresh sandbox."""

    def __init__(self, tree: Tree, run: Run, home: str = f"{HOME}/{FOLDER}") -> None:
        self.tree, self.home, self._run = tree, home, run

    def entry(self, path: str) -> Entry | None:
        """Return the entry at a path, following links; None if the path does not exist."""
        return at(self.tree, path, self.home)[1]

    def leads_to(self, path: str) -> str:
        """Return `path` with all links resolved."""
        return at(self.tree, path, self.home)[0]

    def content(self, path: str) -> bytes | None:
        """Return a file's bytes; None if the path is not a file."""
        entry = self.entry(path)
        return entry.content if entry is not None and entry.kind == "file" else None

    def text(self, path: str) -> str | None:
        """Return a file's text without trailing whitespace; None if the path is not a file or the file is not UTF-8."""
        content = self.content(path)
        try:
            return None if content is None else content.decode().rstrip()
        except UnicodeDecodeError:
            return None

    def files(self, below: str) -> dict[str, bytes]:
        """Return the contents of files below a folder by path; a link has its target's content."""
        prefix = f"{below}/"
        contents = {path: self.content(path) for path in self.tree if path.startswith(prefix)}
        return {path: content for path, content in contents.items() if content is not None}

    def run(self, command: str, stdin: bytes = b"", files: Mapping[str, bytes] | None = None) -> Result:
        """Run a command in a fresh sandbox with this state."""
        return self._run(command, stdin, files or {})

    def prints(self, command: str, stdin: bytes = b"", files: Mapping[str, bytes] | None = None) -> str | None:
        """Run a command as `run` does; return its output without trailing whitespace, None if it fails."""
        result = self.run(command, stdin, files)
        return result.stdout.decode("utf-8", "backslashreplace").rstrip() if result.ok else None


@dataclass(frozen=True)
class Scenario:
    """One task, with its solution and its checks."""

    instruction: str
    tree: Tree
    """Initial content of the folder."""
    solution: Sequence[str]
    """Commands of the reference solution, which depend on the instruction alone."""
    wrong: Mapping[str, Sequence[str]]
    """Plausible but wrong solutions: name of the mistake -> commands."""
    check: Callable[[Final], Checks]
    """Function that checks the final state, regardless of how the agent reached it."""
    look: Sequence[str] = ("ls -la",)
    """Commands with which the expert looks at the folder first."""
    show: Sequence[str] = ()
    """Commands with which the expert looks at the result before submitting."""
    changes: Sequence[str] = ()
    """Paths that may change, for folders including everything below; all other paths must stay unchanged."""
    answers: Sequence[str] = field(default=())
    """Texts that the initial folder must not contain."""


Maker = Callable[[Rng, Rng, int], Scenario]
"""Function that creates a scenario from two random generators and a level (from 0).

The first generator is for the instruction, the second for the folder's content. Instruction and solution depend only on
the first generator and the level, so the solution cannot use anything that the instruction does not say.
"""
FAMILIES: dict[str, Maker] = {}


def family(name: str) -> Callable[[Maker], Maker]:
    """Return a decorator that registers a function as the `Maker` of a family."""

    def enter(make: Maker) -> Maker:
        FAMILIES[name] = make
        return make

    return enter


@lru_cache(maxsize=256)
def scenario(name: str, ask: int, fill: int, level: int) -> Scenario:
    """Return a family's scenario for the seeds of the instruction (`ask`) and of the content (`fill`), and a level."""
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
    """Return a random choice."""
    return choices[int(rng.integers(len(choices)))]


def sample(rng: Rng, choices: Sequence[T], count: int) -> list[T]:
    """Return `count` distinct choices in random order."""
    return [choices[int(place)] for place in rng.permutation(len(choices))[:count]]


def shuffled(rng: Rng, items: Sequence[T]) -> list[T]:
    """Return the items in random order."""
    return sample(rng, items, len(items))
