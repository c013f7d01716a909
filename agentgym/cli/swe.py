"""Make software engineering tasks from a repository; `predictions` and `score` have their own --help.

agentgym swe make ./my-package --out tasks.jsonl                         from a folder that has tests
agentgym swe make toolz-0.12.1.tar.gz --out tasks.jsonl --count 100      from an sdist that has tests
agentgym swe make new.tar.gz --older old.tar.gz --out tasks.jsonl        undo changes that the newer version made
agentgym swe predictions runs/eval-a --out preds.jsonl                   submitted patches, in SWE-bench's format
agentgym swe score preds.jsonl --data tasks.jsonl                        do these patches resolve their tasks?

Tasks of other repositories in the file are kept. After Ctrl-C the same command continues where it stopped.
"""

import gzip
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentgym.cli import swe_bench
from agentgym.cli.flags import read_flags
from agentgym.core.screen import announce, printable
from agentgym.errors import BadConfig, BadData, UnknownName, no_such
from agentgym.options import Positional

if TYPE_CHECKING:
    from agentgym.envs.swe.maker.maker import MakerResult
    from agentgym.sandbox import Sandbox

ACTIONS = ("make", *swe_bench.ACTIONS)
MEMORY = 1 << 30  # memory limit of a repository's tests, in bytes


@dataclass(frozen=True)
class Config:
    """Options of `agentgym swe make`."""

    source: Positional[str]
    """Folder or sdist (.tar.gz) of a pure Python package with tests; `package:NAME` is one that comes with agentgym."""
    out: str
    """File of tasks (JSON lines). The repository is stored next to it and referenced by it."""
    count: int = 50
    """Number of tasks to make."""
    name: str = ""
    """Name of the repository; by default the name of its folder or sdist."""
    older: str | None = None
    """Older version of the repository; the first bugs revert parts of the code to it."""
    mutate: bool = True
    """Make bugs by mutation; with --no-mutate they come only from --older."""
    combined: float = 0.2
    """Share of tasks with several bugs, from 0 to 1."""
    bugs: int = 2
    """Number of bugs in a task with several."""
    split: Literal["train", "valid", "test"] = "train"
    """Split of all tasks of this repository."""
    seed: int = 0
    """Seed of the choice of bugs."""
    workers: int = max(1, (os.cpu_count() or 2) // 2)
    """Number of bugs tried in parallel, each in its own sandboxes."""

    def __post_init__(self) -> None:
        for name, least in (("count", 1), ("bugs", 2), ("workers", 1)):
            if getattr(self, name) < least:
                raise BadConfig(f"--{name} is {getattr(self, name)}; expected at least {least}")
        if not 0 <= self.combined <= 1:
            raise BadConfig(f"--combined is {self.combined}; expected a share from 0 to 1")
        if not self.mutate and self.older is None:
            raise BadConfig("--no-mutate without --older leaves nothing to make bugs from: give an older version, or mutate")


def read(arguments: Sequence[str]) -> Config | swe_bench.AnyConfig:
    """Return the options of the action named by the first word.

    Raises:
        UnknownName: the action is unknown.
    """
    action, *rest = arguments or ["--help"]
    if action in ("-h", "--help"):
        rest = ["--help"]
    elif action not in ACTIONS:
        raise UnknownName(no_such("action of swe", action, ACTIONS))
    if action in swe_bench.ACTIONS:
        return swe_bench.read(action, rest)
    return read_flags(Config, rest, command="swe make", description=__doc__)


def run(config: Config | swe_bench.AnyConfig) -> int:
    """Make the tasks and print a summary, or run an action of `swe_bench`.

    Raises:
        BadConfig: the output is not a file in an existing folder, or the name is invalid.
        BadData: the repository cannot be used.
    """
    if not isinstance(config, Config):
        return swe_bench.run(config)
    from agentgym.envs.swe.maker.maker import Maker, MakerOptions, MakerResult
    from agentgym.envs.swe.tasks import read as read_tasks
    from agentgym.envs.swe.tasks import write
    from agentgym.envs.swe.tasks.source import pack, tree_of

    out = Path(config.out)
    if out.is_dir() or not out.parent.is_dir():
        raise BadConfig(f"--out is {config.out!r}; expected a file in a folder that exists")
    tree, older = tree_of(config.source), None if config.older is None else tree_of(config.older)
    name = _name(config)
    others = [task for task in (read_tasks(out) if out.exists() else []) if task.package != name]
    source = _stored_source(config.source, out, name)
    fresh = source != config.source and not Path(source).exists()
    if source != config.source:
        Path(source).write_bytes(gzip.compress(pack(tree), mtime=0))
    plan = MakerOptions(
        config.count, config.combined, config.bugs, seed=config.seed, split=config.split, mutate=config.mutate
    )
    announce(f"{name}: running its tests, then bugs, {config.workers} at a time")
    maker = Maker(
        (name, source, tree),
        plan,
        open_sandbox=_open,
        close_sandbox=_close,
        workers=config.workers,
        journal=out.with_name(f"{out.name}.{name}.partial"),
        say=_say,
    )
    try:
        result: MakerResult = maker.make(older)
    except BadData:
        if fresh:
            Path(source).unlink()
        raise
    write(out, [*others, *result.instances])
    _report(name, result, config)
    return 0


def _open() -> "Sandbox":
    from agentgym.envs.swe.tasks.pytest_run import PACKAGES
    from agentgym.sandbox import Limits, sandbox

    return sandbox(packages=PACKAGES, limits=Limits(timeout=60.0, memory=MEMORY, output=8 << 20))


def _close(sandbox: Any) -> None:
    sandbox.close()


def _name(config: Config) -> str:
    """Return the repository's name: --name, else NAME in `package:NAME` or `NAME-1.0.tar.gz`, or the name of a folder.

    Raises:
        BadConfig: the name has characters other than letters, digits and -._
    """
    from agentgym.envs.swe.tasks.source import EMBEDDED

    if config.source.startswith(EMBEDDED) and not config.name:
        return config.source.removeprefix(EMBEDDED)
    stem = re.sub(r"\.(tar(\.\w+)?|tgz|tbz2)$", "", Path(config.source).resolve().name)
    name = config.name or re.sub(r"-\d[\w.+!]*$", "", stem)
    if not re.fullmatch(r"[\w.-]+", name):
        raise BadConfig(f"{name!r} is not a name for a repository: give one with --name, of letters, digits and -._")
    return name


def _stored_source(source: str, out: Path, name: str) -> str:
    """Return the repository's path for the tasks: a copy next to the tasks' file, or `source` if it comes with agentgym."""
    from agentgym.envs.swe.tasks.source import EMBEDDED

    return source if source.startswith(EMBEDDED) else str(out.with_name(f"{out.stem}.{name}.tar.gz").resolve())


def _say(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{printable(line)}", end="", file=sys.stderr, flush=True)


def _report(name: str, result: "MakerResult", config: Config) -> None:
    if sys.stderr.isatty():
        print(file=sys.stderr)
    survey = result.survey
    dropped = f"{len(survey.flaky)} flaky and {survey.failing} that fail or are skipped left out"
    print(printable(f"{name}: {len(survey.tests)} tests pass in {survey.seconds:.2f} s; {dropped}"))
    print(
        f"{len(result.instances)} of {config.count} tasks made, from {len(result.instances) + result.rejected.total()} bugs"
    )
    for reason, count in result.rejected.most_common():
        print(printable(f"  {count:5} left out: {reason}"))
    kinds = Counter(kind for task in result.instances for kind in task.kind.split("+"))
    print("  bugs: " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    print(
        "  difficulty: "
        + ", ".join(f"{key}: {n}" for key, n in sorted(Counter(t.difficulty for t in result.instances).items()))
    )
    print(printable(f"{config.out}: play them with rlvr/SWE-v0, data={config.out!r}"))
