"""Instances of published SWE data sets as an environment, each in the container image published for it."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from agentgym.core.actions import spell
from agentgym.core.env import Task
from agentgym.core.hints import guidance
from agentgym.envs.swe import hints, views
from agentgym.envs.swe.bench.evaluation import TIMEOUT, apply, break_, evaluate
from agentgym.envs.swe.bench.row import Row, must
from agentgym.envs.swe.bench.rows import read_rows
from agentgym.envs.swe.library import Library
from agentgym.envs.swe.repository import RepositoryEnv
from agentgym.envs.swe.verdict import Verdict
from agentgym.errors import BadConfig
from agentgym.sandbox.protocol import MEGABYTE, Limits, Sandbox, sandbox
from agentgym.tasks.reading import reading

BESIDE_TESTS = 600.0
"""Extra seconds for `submit`: creating a container and applying patches."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""`PATH` in images that do not set it."""
BASE = "refs/agentgym/base"
"""Git reference of the repository's initial state."""
_PREPARE = f"""
rm -rf .git && git -c init.defaultBranch=main init -q && printf '%s\\n' {{untracked}} >> .git/info/exclude && git add -A &&
    git -c user.name=agent -c user.email=agent@localhost -c gc.auto=0 commit -q --allow-empty -m "The repository" &&
    git update-ref {BASE} HEAD
"""
_CHANGED = f"""
export GIT_INDEX_FILE=/tmp/agentgym-index
rm -f "$GIT_INDEX_FILE"; git read-tree {BASE} && git add -A && git diff --cached --binary --no-color --no-ext-diff {BASE}
code=$?; rm -f "$GIT_INDEX_FILE"; exit $code
"""


class SWEBench(RepositoryEnv):
    """Resolve an issue of SWE-bench or a similar data set in the published container of the instance.

    `data` is a JSON Lines file of SWE-bench, Lite or Verified (in the form of swebench 5), SWE-smith, SWE-Gym,
    SWE-rebench-V2, R2E-Gym, SWE-bench Pro or Multi-SWE-bench; `bench.rows.FORMATS` has the rules of each data set. The
    instance's image must already exist. The agent works in the image's repository. Its history is replaced by one commit,
    so later commits cannot be looked up, and the image's hidden tests and solutions are removed. Reward: 1 if the data
    set's own rule calls the instance resolved, else 0. Tests, their data and their configuration are restored before
    grading, unless the gold patch changes them, too. A snapshot excludes the files that git ignores.
    """

    task_settings: ClassVar[tuple[str, ...]] = ("grading_timeout", "strict", "ignore")
    caller_settings: ClassVar[tuple[str, ...]] = ("data", "checkout")
    settings: ClassVar[tuple[str, ...]] = (*RepositoryEnv.settings, *caller_settings, *task_settings)
    data: str | None = None
    """Path of a JSON Lines file of instances; required."""
    checkout: str | None = None
    """Clone of the data set's repository, whose code parses test logs; for SWE-Gym, SWE-rebench-V2 and SWE-bench Pro."""
    strict: bool = False
    """Refuse a file with a bad row; by default bad rows are skipped, and a warning counts them."""
    ignore: Sequence[str] = ()
    """Columns to ignore; a file with text in any other unknown column is refused."""
    grading_timeout: float = TIMEOUT
    """Time limit of the tests in seconds."""
    backend = "docker"
    horizon = 250
    timeout = 60.0
    root = "."
    limits = Limits(timeout=60.0, memory=8192 * MEGABYTE, processes=1024, open_files=4096, output=64 * MEGABYTE)

    def setup(self) -> None:
        super().setup()
        self.step_seconds = self.grading_timeout + BESIDE_TESTS  # or a rollout would treat slow tests as a fault

    def load_library(self) -> Library[Row]:
        if self.data is None:
            raise BadConfig("SWEBench needs a file of instances: data='verified.jsonl' (see docs/environments/swe.md)")
        rows = read_rows(self.data, reading(self.strict, self.ignore), self.checkout)
        for rules in {row.rules.name: row.rules for row in rows.items}.values():
            rules.requires()
        return rows

    def data_of(self, item: Row) -> dict[str, object]:
        return {"instance": item.id, "repo": item.repo, "fix": [item.row["patch"]]}

    def split_key(self, task: Task) -> object:
        """Return the instance id, which does not decide the split: the split comes from the row."""
        return task.data["instance"]

    @property
    def place(self) -> str:
        return self._row().work

    def _row(self) -> Row:
        assert isinstance(self.item, Row)
        return self.item

    # The sandbox

    def images(self, tasks: Sequence[Task]) -> list[str]:
        """Return the image of each task's instance."""
        return [self.library.find(task.id).image for task in tasks]

    def _take(self) -> Sandbox:  # not from the warm pool, which would need a container per image
        options: dict[str, Any] = {"image": self._row().image, "user": "root", "work": self.place, "writable": True}
        return sandbox(self.backend, limits=self.limits, **(options | dict(self.backend_options)))

    def prepare(self, sandbox: Sandbox) -> None:
        row = self._row()
        row.rules.hide(sandbox, row)
        break_(sandbox, row)
        script = _PREPARE.format(untracked=" ".join(map(shlex.quote, row.rules.untracked)) or "''")
        must(sandbox, script, f"the repository in {row.image} could not be prepared")

    def pack_folder(self, sandbox: Sandbox) -> bytes:
        result = sandbox.run(_CHANGED, timeout=300.0)
        if not result.ok:
            raise OSError(f"git cannot tell what changed: {result.text[-500:]}")
        return result.stdout

    def unpack_folder(self, sandbox: Sandbox, folder: bytes) -> None:
        self.prepare(sandbox)
        if folder:
            apply(sandbox, folder.decode("utf-8", "surrogateescape"))

    def variables(self) -> dict[str, str]:
        quiet = {"PAGER": "cat", "MANPAGER": "cat", "LESS": "-R", "PIP_PROGRESS_BAR": "off", "TQDM_DISABLE": "1"}
        own = {"BASH_ENV": "$HOME/.bashrc"}  # expanded by bash
        if programs := self._row().rules.programs:
            own["PATH"] = f"{programs}:{getattr(self.sandbox, 'variables', {}).get('PATH') or PATH}"
        return quiet | own

    def shell(self, command: str) -> str:
        programs = self._row().rules.programs
        path = f"export PATH={programs}:$PATH; " if programs else ""
        return (
            f"exec 2>&1; cd {shlex.quote(self.place)}; {path}export PAGER=cat MANPAGER=cat LESS=-R PIP_PROGRESS_BAR=off "
            f"TQDM_DISABLE=1 BASH_ENV=$HOME/.bashrc; exec bash -c {shlex.quote(command)}"
        )

    def state(self) -> object:
        return self.folder or b""

    def patch(self) -> str:
        return (self.folder or b"").decode("utf-8", "surrogateescape")

    # The end

    def judge(self) -> Verdict:
        if not self.folder:
            return Verdict(False, 0.0, 0.0, "Nothing was changed.")
        row, patch = self._row(), self.patch()
        return evaluate(row, patch, self.elsewhere, restore=True, timeout=self.grading_timeout)[0]

    # Policies

    def oracle(self) -> Iterator[str]:
        """Reset all changes, apply the gold patch, and submit."""
        row = self._row()
        gold = row.row["patch"]
        while True:
            if changed_lines(self.patch(), back=False) != changed_lines(gold, back=bool(row.bug)):
                yield spell("bash", f"git reset -q --hard {BASE} && git clean -qfd && {self.solution_commands()[0]}")
            else:
                yield spell("submit") if self.toolset == "files" else spell("bash", f"echo {views.SUBMITTED}")

    def solution_commands(self) -> Sequence[str]:
        row = self._row()
        gold = row.row["patch"]
        return [f"git apply{' -R' if row.bug else ''} --whitespace=nowarn - <<'END_OF_PATCH'\n{gold}\nEND_OF_PATCH"]

    def hint(self, level: float) -> str:
        """Return hints that grow with `level` (0 to 1): the file, the function, a failing test; at 1, the gold patch."""
        row = self._row()
        patch, heading = row.row["patch"], "Take back this patch" if row.bug else "The repair"
        steps = hints.steps_of_patch(patch, row.tests("FAIL_TO_PASS")[0])
        return guidance(steps, level, lambda: f"{heading}:\n{patch}", self.task.data["fix"])


def changed_lines(patch: str, *, back: bool) -> list[tuple[str, str]]:
    """Return the sorted (file, signed line) pairs that a patch adds or removes; `back` swaps the signs `+` and `-`."""
    changes: list[tuple[str, str]] = []
    file, inside = "", False
    for line in patch.splitlines():
        if line.startswith("diff --git "):
            file, inside = line.rpartition(" b/")[2], False
        elif line.startswith("@@ "):
            inside = True
        elif inside and line[:1] in ("+", "-"):
            sign = {"+": "-", "-": "+"}[line[0]] if back else line[0]
            changes.append((file, sign + line[1:]))
    return sorted(changes)
