"""A task: a repository with a bug, an issue that describes it, and the tests that decide."""

import difflib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentgym.envs.swe.tasks.source import digest, tree_of
from agentgym.envs.swe.tasks.suite import is_cache, is_protected, without_tests
from agentgym.errors import BadData


@dataclass(frozen=True)
class Edit:
    """Replaces the only occurrence of some whole lines in a file."""

    path: str
    old: str
    new: str

    def apply(self, tree: dict[str, bytes]) -> None:
        """Replace the lines in the file's entry of `tree`.

        Raises:
            BadData: the lines do not occur exactly once.
        """
        text = tree.get(self.path, b"").decode("utf-8")
        if not self.old or occurrences(text, self.old) != 1:
            raise BadData(
                f"an edit of {self.path} does not fit: expected its {self.old.count(chr(10))} lines exactly once, "
                f"found them {occurrences(text, self.old)} times; was the repository changed since the task was made?"
            )
        at = _starts(text, self.old)[0]
        tree[self.path] = (text[:at] + self.new + text[at + len(self.old) :]).encode()

    @property
    def back(self) -> "Edit":
        """The reverse edit."""
        return Edit(self.path, self.new, self.old)


@dataclass(frozen=True)
class Repository:
    """The source of tasks: code and passing tests."""

    name: str
    source: str
    """`package:NAME` for a built-in repository, or the path of a folder or archive."""
    digest: str
    """Digest of the files (`source.digest`); tasks are valid only for exactly these files. Empty: not checked."""
    split: str
    """Split of all tasks of the repository: `train`, `valid` or `test`."""
    tests: tuple[str, ...]
    """Ids of the tests that pass every time."""
    conftest: bool = False
    """True if the tests need the repository's `conftest.py`."""

    def tree(self) -> dict[str, bytes]:
        """Return the repository's files: path -> content.

        Raises:
            BadData: the files have changed since the tasks were made.
        """
        tree = tree_of(self.source)
        if self.digest and digest(tree) != self.digest:
            raise BadData(
                f"{self.source}: not the files that the tasks of {self.name!r} were made from; bring these back, or make "
                "the tasks again with `agentgym swe make`"
            )
        return tree


@dataclass(frozen=True)
class Instance:
    """One task. Test ids are pytest's node ids, relative to the repository."""

    id: str
    repository: Repository
    issue: str
    """Issue text for the agent."""
    bug: tuple[Edit, ...]
    """Edits that turn the clean repository into the broken one."""
    fail_to_pass: tuple[str, ...]
    """Tests that fail with the bug and pass without it; the agent never sees them."""
    pass_to_pass: tuple[str, ...]
    """Tests that pass with and without the bug."""
    kind: str
    """Operators that made the bug, joined by `+`."""
    difficulty: int
    """Two per bug beyond the first, plus one if at most two tests fail with the bug."""
    seconds: float
    """Duration of one run of the repository's tests, in seconds."""

    @property
    def package(self) -> str:
        """Name of the repository."""
        return self.repository.name

    @property
    def split(self) -> str:
        """The repository's split, shared by all of its tasks."""
        return self.repository.split

    @property
    def source(self) -> str:
        """The repository's location."""
        return self.repository.source

    def base(self) -> dict[str, bytes]:
        """Return the clean repository: path -> content."""
        return self.repository.tree()

    def broken(self) -> dict[str, bytes]:
        """Return the repository that the agent gets: with the bug, without the tests that reveal it."""
        return without_tests(self.mutated(), self.fail_to_pass)

    def mutated(self) -> dict[str, bytes]:
        """Return the repository with the bug and all its tests."""
        return edited(self.base(), self.bug)

    @property
    def gold(self) -> tuple[Edit, ...]:
        """Edits that repair the broken repository."""
        return tuple(edit.back for edit in reversed(self.bug))

    def patch(self) -> str:
        """Return the repair as a unified diff."""
        return diff(self.mutated(), self.base())

    def graded(self, tree: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the files to grade: the agent's, but with the clean repository's tests and configuration, and no caches."""
        base = self.base()
        own_files = {path: content for path, content in tree.items() if not is_protected(path) and not is_cache(path)}
        return own_files | {path: content for path, content in base.items() if is_protected(path)}


def edited(tree: Mapping[str, bytes], edits: Iterable[Edit]) -> dict[str, bytes]:
    """Return a tree after edits; raise BadData if an edit does not fit."""
    changed = dict(tree)
    for edit in edits:
        edit.apply(changed)
    return changed


def diff(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """Return the unified diff between two trees, without binary files."""
    hunks: list[str] = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        try:
            lines = [list(io.StringIO((content or b"").decode("utf-8"))) for content in (old, new)]  # not at form feeds
        except UnicodeDecodeError:
            continue
        names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
        for line in difflib.unified_diff(lines[0], lines[1], names[0], names[1]):
            hunks.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(hunks)


def occurrences(text: str, lines: str) -> int:
    """Return the number of occurrences of whole lines in a text."""
    return len(_starts(text, lines))


def _starts(text: str, lines: str) -> list[int]:
    starts: list[int] = []
    at = text.find(lines)
    while at >= 0:
        if (at == 0 or text[at - 1] == "\n") and (lines.endswith("\n") or at + len(lines) == len(text)):
            starts.append(at)
        at = text.find(lines, at + 1)
    return starts
