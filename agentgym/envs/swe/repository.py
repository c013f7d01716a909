"""Base class of repository environments: the tools, and a sandbox that runs each command in a new shell."""

import errno
import shlex
import zlib
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, ClassVar, cast

import numpy as np

from agentgym.core.actions import Tool, spell, tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task
from agentgym.envs.swe import views
from agentgym.envs.swe.library import Item, Library
from agentgym.envs.swe.predictions import last_observation
from agentgym.envs.swe.verdict import Verdict
from agentgym.errors import BadConfig
from agentgym.sandbox.env import ExternalAccess, SandboxEnv
from agentgym.sandbox.protocol import MEGABYTE, SAME, BadPath, Limits, Result

LONGEST = 100_000
"""Maximum bytes of a command, since the system limits the length of an argument."""
TOOLSETS = ("files", "bash")
Saved = tuple[dict[str, object], dict[str, object]]
"""Payload of `TextEnv.save`: the attributes that are copied, and the attributes named in `shared`."""


class RepositoryEnv(SandboxEnv):
    """A repository to repair. A subclass defines the tasks, the sandbox's content, and the grading."""

    horizon = 50
    difficulty = 99
    task_settings: ClassVar[tuple[str, ...]] = ("toolset", "timeout")
    settings: ClassVar[tuple[str, ...]] = (*SandboxEnv.settings, *task_settings)
    toolset: str = "files"
    """`files`: bash, view, edit, submit. `bash`: bash alone; the agent submits as in mini-swe-agent."""
    timeout: float = 30.0
    """Time limit per command in seconds."""
    limits = Limits(timeout=30.0, memory=1024 * MEGABYTE, processes=128, disk=128 * MEGABYTE, files=20_000)
    shared = ("item",)
    declared = Declarations(random_bound=0.01, expert_bound=0.0, answers=("fix",))
    root = "repository"
    """Path of the repository in the sandbox."""

    def check_options(self) -> None:
        self.library = self.load_library()
        self.splits = self.library.splits
        if self.split == type(self).split and len(self.splits) == 1:
            self.split = next(iter(self.splits))
        if self.toolset not in TOOLSETS:
            raise BadConfig(f"toolset of {type(self).__name__} is {self.toolset!r}; expected 'files' or 'bash'")
        if isinstance(self.timeout, bool) or not 0 < self.timeout <= 3600:
            raise BadConfig(f"timeout of {type(self).__name__} is {self.timeout!r}; expected seconds from above 0 to 3600")
        super().check_options()

    def setup(self) -> None:
        super().setup()
        if self.toolset == "bash":
            self.tools: dict[str, Tool] = {"bash": self.tools["bash"]}

    # Defined by subclasses

    def load_library(self) -> Library[Any]:
        """Return the tasks selected by the options; raise BadConfig or BadData."""
        raise NotImplementedError

    def data_of(self, item: Any) -> dict[str, object]:
        """Return `Task.data` for an item of the library, including the answer."""
        raise NotImplementedError

    def shell(self, command: str) -> str:
        """Return the shell command that runs the agent's `command` in the repository."""
        raise NotImplementedError

    def patch(self) -> str | None:
        """Return the agent's changes as a unified diff; None if the diff would be too long."""
        raise NotImplementedError

    def judge(self) -> Verdict:
        """Return the hidden tests' verdict on the agent's files."""
        raise NotImplementedError

    # Tasks

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        """Draw a task of the current split."""
        items = self.library.of(self.split, difficulty)
        return self._task(items[int(rng.integers(len(items)))])

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the task with this number, wrapping around at the end.

        Raises:
            BadConfig: the number is negative.
        """
        if number < 0:
            raise BadConfig(f"task number {number} of {type(self).__name__}: numbers start at 0")
        items = self.library.of(split or self.split, self.difficulty if difficulty is None else difficulty)
        return self._task(items[number % len(items)])

    def find(self, task_id: str) -> Task:
        """Return the task with this id."""
        return self._task(self.library.find(task_id))

    def size(self, split: str | None = None) -> int | None:
        """Return the number of a split's tasks up to the environment's difficulty."""
        return len(self.library.of(split or self.split, self.difficulty))

    def split_of(self, task: Task) -> str:
        """Return the split of the task's repository."""
        return self.library.find(task.id).split

    def _task(self, item: Any) -> Task:
        return Task(item.issue, self.data_of(item), item.id, item.split, item.difficulty)

    # The episode

    def begin(self, task: Task) -> str:
        self.item: Item = self.library.find(task.id)
        self.verdict: Verdict | None = None
        rest = (
            "Explore the code, fix the issue, then submit."
            if self.toolset == "files"
            else f"When the issue is fixed, submit by running `echo {views.SUBMITTED}` on its own."
        )
        return (
            f"{task.instruction.strip()}\n\n"
            f"The repository is in {self.place}, where every command runs. Hidden tests decide; changes to tests "
            f"and configuration do not count. {rest}"
        )

    def briefing(self) -> str:
        return (
            f"{self.task.instruction.strip()}\n\nThe repository is in {self.place}, the current folder. Find the cause and "
            "fix it there. Hidden tests decide; changes to tests and configuration do not count."
        )

    def lend(self, work: Callable[[ExternalAccess], None]) -> None:
        work(ExternalAccess(self.sandbox, SAME, self.place, self.variables()))
        self.keep()

    def handing_in(self) -> str:
        return spell("submit") if self.toolset == "files" else spell("bash", f"echo {views.SUBMITTED}")

    def variables(self) -> dict[str, str]:
        """Return additional environment variables for the agent's programs."""
        return {}

    @property
    def place(self) -> str:
        """The repository's path as the agent sees it."""
        return str(PurePosixPath("/home/agent") / self.root)

    @tool
    def bash(self, command: str) -> str | Outcome:
        """Run a command in a new shell in the repository; returns its exit code and output. Files persist; variables,
        the working directory and background processes do not.
        """
        if not command.strip():
            return self.invalid("the command is empty. Write one, for example bash[ls].")
        if any("\ud800" <= letter <= "\udfff" for letter in command):
            return self.invalid("the command contains a lone surrogate, which is not valid text.")
        written = self.shell(command)
        if "\0" in command or len(written.encode()) > LONGEST:
            return self.invalid(f"a command can have at most {LONGEST} bytes and no NUL. Write long files in several steps.")
        result = self.run(written, timeout=self.timeout)
        note = self.keep()
        if _submits(result):
            return self.submit()
        return views.command_output(result, self.limits, self.timeout) + note

    @tool
    def view(self, path: str, lines: str = "") -> str | Outcome:
        """Show a file with line numbers, or list a folder. lines selects a range, for example 40-80 (default: the
        first 100).
        """
        read = _range(lines)
        if read is None:
            return self.invalid(f"lines is {lines[:40]!r}; expected the first and last line, for example 40-80.")
        try:
            content = self._content(path)
        except IsADirectoryError:
            return self._folder(path)
        except (OSError, BadPath) as error:
            return self.invalid(self._unreadable(path, error))
        text, (first, last) = content.decode("utf-8", "backslashreplace"), read
        count = len(views.split_lines(text))
        if first > max(count, 1):
            return self.invalid(f"{_short(path)} has {count} lines; line {first} is past its end.")
        return views.window(_short(path), text, first, last)

    @tool
    def edit(self, path: str, old: str, new: str) -> str | Outcome:
        """Replace text in a file: old must occur in it exactly once, including whitespace. An empty old creates a new
        file.
        """
        try:
            text = self._content(path).decode("utf-8")
        except FileNotFoundError as error:
            if old:
                return self.invalid(self._unreadable(path, error))
            return self._written(path, new, 1)
        except UnicodeDecodeError:
            return self.invalid(f"{_short(path)} is not UTF-8 text: change it with bash.")
        except (OSError, BadPath) as error:
            return self.invalid(self._unreadable(path, error))
        if not old:
            return self.invalid(f"{_short(path)} already exists: put the text to replace in old.")
        if old == new:
            return self.invalid("old and new are the same: nothing would change.")
        matches = views.places(text, old)
        if not matches:
            return self.invalid(views.no_match(_short(path), text, old))
        if len(matches) > 1:
            at = ", ".join(map(str, matches[:10])) + (", …" if len(matches) > 10 else "")
            return self.invalid(
                f"No replacement was made: old occurs in {_short(path)} {len(matches)} times, at lines {at}. "
                "Include more of the surrounding text to make it unique."
            )
        return self._written(path, text.replace(old, new), matches[0])

    @tool
    def submit(self) -> Outcome:
        """Finish: hidden tests decide whether the issue is resolved."""
        self.verdict = self.judge()
        text = last_observation(self.verdict.message, self.patch())
        return self.win(text) if self.verdict.resolved else self.lose(text)

    def measures(self) -> dict[str, float]:
        """Return the shares of hidden tests that passed; 0 before they run."""
        verdict = self.verdict
        return {
            "fail_to_pass": verdict.fail_to_pass if verdict else 0.0,
            "pass_to_pass": verdict.pass_to_pass if verdict else 0.0,
        }

    def malformed(self, error: str) -> Outcome:
        if self.toolset == "files":
            return super().malformed(error)
        return self.invalid(
            f"Format error: {error}\nEvery reply must contain exactly one bash command, in the format described at the "
            f"start. To submit, run `echo {views.SUBMITTED}`."
        )

    def keep(self) -> str:
        """Record the folder after a command, for snapshots; return a warning for the agent, empty on success."""
        try:
            self.keep_folder()
        except OSError:  # too large, or no longer readable
            self._drop()  # the next access creates a new sandbox with the last recorded folder
            self.journal = []
            return "\n<warning>The folder could not be read after this command; its previous state was restored.</warning>"
        return ""

    def save(self) -> Saved:
        mine, shared = cast("Saved", super().save())
        return {**mine, "folder": None if self.folder is None else zlib.compress(self.folder, 6)}, shared

    def load(self, payload: object) -> None:
        mine, shared = cast("Saved", payload)
        folder = cast("bytes | None", mine["folder"])
        super().load(({**mine, "folder": None if folder is None else zlib.decompress(folder)}, shared))

    # Files

    def _at(self, path: str) -> str:
        return str(PurePosixPath(self.root) / path)

    def _content(self, path: str) -> bytes:
        content = self.read(self._at(path))
        if len(content) > views.LARGEST:
            raise OSError(errno.EFBIG, f"is larger than {views.LARGEST >> 20} MiB: use bash", path)
        return content

    def _folder(self, path: str) -> str | Outcome:
        look = "find . -maxdepth 2 -mindepth 1 -not -path '*/.*' | LC_ALL=C sort"
        result = self._twice(lambda: self.sandbox.run(f"cd -- {shlex.quote(self._at(path))} && {look}"))
        paths = [line.removeprefix("./") for line in result.text.splitlines()]
        more = [f"({len(paths) - 200} more)"] if len(paths) > 200 else []
        return "\n".join([f"[Folder: {_short(path)}, two levels deep]", *paths[:200], *more])

    def _written(self, path: str, text: str, line: int) -> str | Outcome:
        try:
            self.write(self._at(path), text.encode())
        except (OSError, BadPath) as error:
            return self.invalid(
                f"{_short(path)} cannot be written: {_plain(error)}.{self.keep()}"
            )  # it may have created folders
        note = self.keep()
        begin = max(line - 5, 1)
        shows = views.window(_short(path), text, begin, begin + 24)
        return f"The file was written. The lines around the change:\n{shows}{note}"

    def _unreadable(self, path: str, error: Exception) -> str:
        if isinstance(error, FileNotFoundError):
            return f"there is no file {_short(path)!r}. Paths are relative to {self.place}; view[.] lists it."
        return f"{_short(path)!r} cannot be read: {_plain(error)}."


def _submits(result: Result) -> bool:
    first = result.text.lstrip().partition("\n")[0]
    return result.ok and first.strip() == views.SUBMITTED


def _range(lines: str) -> tuple[int, int] | None:
    """Return the first and last line that `40-80`, `40-`, `40`, `40,80` or an empty string selects; None if malformed."""
    words = lines.replace(":", "-").replace(",", "-").replace("[", "").replace("]", "").split("-")
    if not lines.strip():
        return 1, views.WINDOW
    if len(words) > 2 or not all(word.strip().isdecimal() and len(word) < 9 for word in words if word.strip()):
        return None
    if not words[0].strip():
        return None
    first = max(int(words[0]), 1)
    last = int(words[1]) if len(words) > 1 and words[1].strip() else first + (views.WINDOW - 1 if len(words) > 1 else 0)
    return (first, last) if last >= first else None


def _short(path: str) -> str:
    path = path.encode("utf-8", "backslashreplace").decode()  # a file name may not be UTF-8
    return path if len(path) <= 120 else f"{path[:117]}..."


def _plain(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error))[:200]
