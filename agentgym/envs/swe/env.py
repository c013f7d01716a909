"""The environment: a repository with a bug in a sandbox, an issue, a shell, and hidden tests."""

import base64
import difflib
import gzip
import hashlib
import io
import json
import shlex
import sys
import tarfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar, TypeVar

from agentgym.core.actions import spell
from agentgym.core.env import Task
from agentgym.core.hints import guidance
from agentgym.envs.swe import hints, views
from agentgym.envs.swe.grading.grading import grade
from agentgym.envs.swe.library import Library, library
from agentgym.envs.swe.predictions import LONGEST
from agentgym.envs.swe.repository import RepositoryEnv
from agentgym.envs.swe.similarity import similarity
from agentgym.envs.swe.tasks import EMBEDDED, Instance, read
from agentgym.envs.swe.tasks.instance import diff
from agentgym.envs.swe.tasks.pytest_run import FOLDER, PACKAGES
from agentgym.envs.swe.tasks.source import pack, unpack
from agentgym.envs.swe.tasks.suite import importable, is_protected, roots
from agentgym.envs.swe.verdict import Verdict
from agentgym.errors import BadConfig, MissingExtra
from agentgym.sandbox.bubblewrap.sandbox import package_paths
from agentgym.sandbox.protocol import CONTAINERS, NO_KERNEL, Sandbox, SandboxFault, missing
from agentgym.sandbox.warm_pool import take
from agentgym.tasks.reading import reading

REMEMBERED = 256
"""Maximum number of initial folders cached for later episodes of the same tasks."""
T = TypeVar("T")
GRADING = tuple(dict.fromkeys((*PACKAGES, "py")))
"""Modules preloaded in a grading sandbox."""
GRADINGS = ("tests", "one-process", "patch")
MOST_EDITS = 8
"""Maximum edits per file by the oracle; it rewrites files that need more."""
HOME = "/home/agent"
PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DATE = "2024-01-01T00:00:00Z"
"""Date of the repository's single commit."""


class SWE(RepositoryEnv):
    """Repair a repository with a bug; hidden tests decide.

    By default, tasks are bugs in small packages that come with agentgym; `data` is a file of tasks written by `agentgym swe
    make`. `split_key` is the package. `difficulty=d` selects tasks up to that difficulty (see
    `agentgym.envs.swe.tasks.Instance`); by default all.

    The agent gets the broken repository without the tests that reveal the bug; if git is installed, it is a git repository
    with a single commit. Reward: 1 if after `submit` every fail-to-pass and every pass-to-pass test passes, else 0. Before
    grading, tests and configuration are restored; tests and code run in two sandboxes (`grading.py`). Metrics, all
    0 until `submit`: `fail_to_pass` and `pass_to_pass`, the shares of tests that passed, and `similarity` of the repair to
    the known repair (SWE-RL). `grading` selects other ways of grading.
    """

    task_settings: ClassVar[tuple[str, ...]] = ("strict", "ignore")
    caller_settings: ClassVar[tuple[str, ...]] = ("data", "grading")
    settings: ClassVar[tuple[str, ...]] = (*RepositoryEnv.settings, *caller_settings, *task_settings)
    data: str | None = None
    """A file of tasks; None: the built-in tasks."""
    strict: bool = False
    """Refuse a file with a bad row; by default bad rows are skipped, and a warning counts them."""
    ignore: Sequence[str] = ()
    """Columns to ignore; a file with text in any other unknown column is refused."""
    grading: str = "tests"
    """`tests`: hidden tests decide. `one-process`: they share a process with the code under test, which can then cheat.

    `patch`: no test runs, the repair must equal the known repair, and `similarity` is the only metric (SWE-RL). Backends
    without a persistent interpreter (`NO_KERNEL`) do not support `tests`.
    """
    packages = ("tarfile", *(name for name in PACKAGES if name not in ("pytest", "py")))
    """Modules preloaded in the agent's sandbox: `tarfile` for snapshots, and pytest's dependencies.

    `pytest` and `py` are files instead (`_pytest_itself`), since importing them loads all of pytest.
    """
    root = FOLDER
    step_seconds = 900.0
    """Time limit of a step in seconds. Grading has tighter limits that distinguish a slow repair from a busy machine."""

    def requires(self) -> None:
        """Check that the sandbox can run pytest.

        Raises:
            MissingExtra: the sandbox or pytest is missing.
        """
        super().requires()
        problem = missing(self.backend, GRADING, self.backend_options)
        if problem:
            raise MissingExtra(f"SWE cannot run tests here: {problem}")

    def check_options(self) -> None:
        if self.grading not in GRADINGS:
            raise BadConfig(f"grading of SWE is {self.grading!r}; expected {', '.join(map(repr, GRADINGS))}")
        if self.grading == "tests" and self.backend in NO_KERNEL:
            raise BadConfig(
                "SWE runs hidden tests and the code they test in two processes that talk to each other, which the "
                f"{self.backend} backend does not have: pass grading='one-process', in which both share a process "
                "(docs/environments/swe.md says what that lets through), or take backend='docker'"
            )
        super().check_options()

    def load_library(self) -> Library[Instance]:
        if self.data is None:
            return _embedded()
        return library(self.data, read(self.data, reading(self.strict, self.ignore)))

    def data_of(self, item: Instance) -> dict[str, object]:
        fix = [edit.new.strip() for edit in item.gold]
        return {"instance": item.id, "package": item.package, "kind": item.kind, "fix": fix}

    def split_key(self, task: Task) -> object:
        """Return the package, whose tasks all share one split."""
        return task.data["package"]

    def content_key(self, task: Task) -> object:
        """Return the package and the repaired lines, which identify the bug."""
        return task.data["package"], task.data["fix"]

    def begin(self, task: Task) -> str:
        self.changed: tuple[object, ...] = ()
        """(name, digest) of each entry that differs from the initial folder; digest None if the entry was removed."""
        self.fresh: dict[str, str] = {}
        """Digests of the initial folder's entries by name; empty until the sandbox is prepared."""
        self.alike = 0.0
        """Similarity of the submitted repair to the known repair, from 0 to 1; 0 until `submit`."""
        observation = super().begin(task)
        self._instance().base()  # raises for a missing or changed repository
        if self.data is not None:
            self._refuse_copies()
        return observation

    def _instance(self) -> Instance:
        assert isinstance(self.item, Instance)
        return self.item

    # The sandbox

    def prepare(self, sandbox: Sandbox) -> None:
        instance = self._instance()
        key = f"{instance.repository.digest} {instance.id} {self._python()}"
        folder = _prepared.pop(key, None)  # another thread may remove it meanwhile
        if folder is None:
            self._make(sandbox)
            folder = sandbox.snapshot()
        else:
            sandbox.restore(folder)
        _prepared[key] = folder
        while len(_prepared) > REMEMBERED:
            _prepared.popitem(last=False)
        self.fresh = _digests(folder)

    def _make(self, sandbox: Sandbox) -> None:
        tree = {f"{FOLDER}/{path}": content for path, content in self._instance().broken().items()}
        python = shlex.quote(self._python())
        if "/" not in python:  # the image's own, which these programs hide in PATH
            python = f'"$(PATH="${{PATH#*/.local/bin:}}"; command -v {python})"'
        programs = {name: f'#!/bin/sh\nexec {python} "$@"\n' for name in ("python", "python3")}
        programs["pytest"] = f'#!/bin/sh\nexec {python} -m pytest "$@"\n'
        files = {f".local/bin/{name}": text.encode() for name, text in programs.items()}
        files[".local/lib/pluggy-0.dist-info/METADATA"] = b"Name: pluggy\nVersion: 0\n"  # pytest's header looks it up
        if self.backend not in CONTAINERS:
            files |= {f".local/lib/{name}": content for name, content in _pytest_itself().items()}
        sandbox.restore(pack(tree | files))
        result = sandbox.run(_PREPARE.format(folder=FOLDER, date=DATE))
        if not result.ok:
            raise SandboxFault(f"the repository could not be prepared: {result.text[-500:]}")

    def _path(self, home: str) -> str:
        """Return the value of PYTHONPATH, for the home folder `home`."""
        places = [f"{home}/{FOLDER}/{part}".rstrip("/") for part in roots(self._instance().base())]
        return ":".join([*places, f"{home}/.local/lib", "/opt/packages"])

    def variables(self) -> dict[str, str]:
        return {"PATH": f"{HOME}/.local/bin:{PROGRAMS}", "PYTHONPATH": self._path(HOME), "PAGER": "cat"}

    def shell(self, command: str) -> str:
        return (
            f'export PATH="$HOME/.local/bin:$PATH" PYTHONPATH="{self._path("$HOME")}" PAGER=cat; '
            f'exec 2>&1; cd "$HOME/{FOLDER}" 2>/dev/null || cd; exec bash -c {shlex.quote(command)}'
        )

    def keep(self) -> str:
        note = super().keep()
        if self.folder is not None:
            now = _digests(self.folder)
            self.changed = tuple(
                (name, now.get(name)) for name in sorted({*now, *self.fresh}) if now.get(name) != self.fresh.get(name)
            )
        return note

    def state(self) -> object:
        return self.changed

    def _python(self) -> str:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        known = {"bubblewrap": str(Path(sys.base_prefix) / "bin" / version), "process": sys.executable}
        return known.get(self.backend, "python3")

    def _refuse_copies(self) -> None:
        """Check that the sandbox has no installed copy of the repository's package, which would lack the bug.

        Raises:
            BadConfig: the sandbox can import the package without the repository.
        """
        for name in importable(self._instance().base()):
            if (self.backend, name) in _absent:
                continue
            look = f"import importlib.util as u; print(u.find_spec({name!r}) is not None)"
            pythons = {self._python(), "/usr/bin/python3"}
            commands = "; ".join(f"{shlex.quote(python)} -c {shlex.quote(look)} 2>/dev/null" for python in sorted(pythons))
            if "True" in self.elsewhere(lambda sandbox, commands=commands: sandbox.run(commands)).text:
                raise BadConfig(
                    f"{name} can be imported in the sandbox without the repository: an agent could copy the repair from "
                    "there. Uninstall it from this machine's Python, or use backend='docker' with an image without it"
                )
            _absent.add((self.backend, name))

    # The end

    def tree(self) -> dict[str, bytes]:
        """Return the repository's current regular files, except those in `.git`: path -> content."""
        if self.folder is None:
            return self._instance().broken()
        return {path: content for path, content in unpack(self.folder, FOLDER).items() if not path.startswith(".git/")}

    def patch(self) -> str | None:
        before, after = self._instance().broken(), self.tree()
        new = {path: content for path, content in after.items() if content != before.get(path) and _is_text(content)}
        least = sum(max(len(content) - len(before.get(path, b"")), len(path)) for path, content in new.items())
        return None if least > 4 * LONGEST else diff(before, after)  # a character has at most four bytes

    def elsewhere(self, work: Callable[[Sandbox], T]) -> T:
        """Call `work` with a fresh sandbox that has pytest preloaded, and return the result."""

        def once() -> T:
            sandbox = take(self.backend, limits=self.limits, packages=GRADING, options=self.backend_options)
            try:
                return work(sandbox)
            finally:
                sandbox.close()

        return self._twice(once)

    def judge(self) -> Verdict:
        instance, patch = self._instance(), self.patch()
        short = patch is not None and len(patch) <= LONGEST
        self.alike = similarity(instance.broken(), self.tree(), instance.base()) if short else 0.0
        if self.grading == "patch":
            summary = "The patch is the known repair." if self.alike == 1.0 else "The patch is not the known repair."
            return Verdict(self.alike == 1.0, 0.0, 0.0, summary)
        return grade(self._instance(), self.tree(), self.elsewhere, one_process=self.grading == "one-process")

    def measures(self) -> dict[str, float]:
        """Return the repair's similarity to the known repair and, if tests run, the shares of passed tests."""
        return {**(super().measures() if self.grading != "patch" else {}), "similarity": self.alike}

    # Policies

    def oracle(self) -> Iterator[str]:
        """Undo the bug by edits, restore all other changes, and submit."""
        while True:
            yield next(
                self._repairs(), spell("submit") if self.toolset == "files" else spell("bash", f"echo {views.SUBMITTED}")
            )

    def solution_commands(self) -> Sequence[str]:
        return [f"git apply --whitespace=nowarn - <<'END_OF_PATCH'\n{self._instance().patch()}\nEND_OF_PATCH"]

    def hint(self, level: float) -> str:
        """Return hints that grow with `level` (0 to 1): the file, the function, a failing test; at 1, the repair."""
        instance = self._instance()
        return guidance(hints.steps_of(instance), level, lambda: f"The repair:\n{instance.patch()}", self.task.data["fix"])

    def _repairs(self) -> Iterator[str]:
        instance = self._instance()
        clean = {path: content for path, content in instance.base().items() if not is_protected(path)}
        tree = self.tree()
        for path, content in clean.items():
            if tree.get(path) == content:
                continue
            change = first_change(tree.get(path, b""), content) if self.toolset == "files" else None
            if change is None:
                yield spell("bash", _rewriting(path, content))
            else:
                arguments = {"path": path, "old": change[0], "new": change[1]}
                yield json.dumps({"name": "edit", "arguments": arguments})
        for path in sorted(tree):
            if path not in clean and not is_protected(path) and path.endswith(".py") and not path.startswith("."):
                yield spell("bash", f"rm -f -- {shlex.quote('./' + path)}")


@cache
def _embedded() -> Library[Instance]:
    return library("the tasks that come with agentgym", read(EMBEDDED))


_prepared: OrderedDict[str, bytes] = OrderedDict()
"""Archives of initial folders, cached because a task often has several episodes in a row."""
_absent: set[tuple[str, str]] = set()
"""(backend, package) pairs: packages known not to be installed in the backend's sandbox."""
_PREPARE = """
chmod +x .local/bin/*; cd {folder} || exit
command -v git >/dev/null || exit 0
export GIT_AUTHOR_DATE={date} GIT_COMMITTER_DATE={date}
git -c init.defaultBranch=main init -q --template= && git add -A &&
    git -c user.name=agent -c user.email=agent@localhost -c gc.auto=0 commit -q -m "The repository"
"""


@cache
def _pytest_itself() -> dict[str, bytes]:
    """Return the files of pytest's two small entry modules, `pytest` and `py`: path -> content."""
    contents: dict[str, bytes] = {}
    for name in ("pytest", "py"):
        path = package_paths(name)[0]
        files = sorted(path.glob("*.py")) if path.is_dir() else [path]
        contents |= {file.relative_to(path.parent).as_posix(): file.read_bytes() for file in files}
    return contents


def first_change(now: bytes, target: bytes) -> tuple[str, str] | None:
    """Return the first differing lines and their replacement, with enough context to be unique in `now`.

    None without a difference, with more than `MOST_EDITS` differences, without a unique context, or for text that is not
    UTF-8.
    """
    try:
        lines, others = (text.decode("utf-8").splitlines(keepends=True) for text in (now, target))
    except UnicodeDecodeError:
        return None
    matcher = difflib.SequenceMatcher(None, lines, others, autojunk=False)
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    if not changes or len(changes) > MOST_EDITS:
        return None
    _, begin, end, first, last = changes[0]
    above, below, text = begin, end, "".join(lines)
    while True:
        old = "".join(lines[above:below])
        if old and text.count(old) == 1:
            return old, "".join([*lines[above:begin], *others[first:last], *lines[end:below]])
        if (above, below) == (0, len(lines)):
            return None
        above, below = max(above - 1, 0), min(below + 1, len(lines))


def _is_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _rewriting(path: str, content: bytes) -> str:
    """Return a shell command that writes a file and replaces whatever is at its path."""
    packed = base64.b64encode(gzip.compress(content, mtime=0)).decode()
    file, folder = shlex.quote(path), shlex.quote(str(Path(path).parent))
    return f"rm -rf -- {file}; mkdir -p -- {folder}; base64 -d <<< {packed} | gunzip > {file}"


def _digests(archive: bytes) -> dict[str, str]:
    """Return a digest of each entry in a tar archive, except git's logs, without modification times: name -> digest."""
    digests: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            if f"/{FOLDER}/.git/logs" in f"/{member.name}":
                continue
            file = members.extractfile(member) if member.isreg() else None
            content = member.linkname.encode("utf-8", "surrogateescape") if file is None else file.read()
            if member.name == f"{FOLDER}/.git/index":
                content = _without_times(content)
            digest = hashlib.blake2b(content, digest_size=8).hexdigest()
            digests[member.name] = f"{member.type.decode()}{member.mode:o} {digest}"
    return digests


def _without_times(index: bytes) -> bytes:
    """Return the entries of a git index (version 2) without their files' `stat` data."""
    if index[:8] != b"DIRC\0\0\0\2":
        return index
    pieces, at = [index[:12]], 12
    for _ in range(int.from_bytes(index[8:12], "big")):
        name_end = index.find(b"\0", at + 62)
        if name_end < 0:  # not written by git
            return index
        pieces.append(index[at + 24 : at + 28] + index[at + 40 : name_end])
        at += (name_end - at + 8) // 8 * 8
    return b"\0".join(pieces)
