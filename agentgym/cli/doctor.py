"""Show which dependencies are installed or missing, the purpose of each, and how to get it.

agentgym doctor              a table
agentgym doctor --json       the same for a program
"""

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym import registry
from agentgym.browser.chromium import chromium
from agentgym.cli.rows import labelled
from agentgym.core.screen import printable
from agentgym.errors import how_to_install

SECONDS = 10.0  # time limit of a program that prints its version


@dataclass(frozen=True)
class Config:
    """Options of `agentgym doctor`."""

    json: bool = False
    """Print JSON: for each name its location or version (null if missing), its purpose, and how to get it."""


@dataclass(frozen=True, slots=True)
class Need:
    """Dependency of a part of the package."""

    name: str
    what_for: str
    how_to_get: str
    find: Callable[[], str | None]
    """Function that returns the location or version of the dependency, or None if it is missing."""


def library(name: str) -> Callable[[], str | None]:
    """Return a function that finds an installed library without importing it."""

    def find() -> str | None:
        try:
            return metadata.version(name)  # a folder of that name on the path is not an installed library
        except metadata.PackageNotFoundError:
            return None

    return find


def program(*names: str, variable: str = "") -> Callable[[], str | None]:
    """Return a function that finds a program at the location in the environment variable `variable`, else on the path."""

    def find() -> str | None:
        configured = os.environ.get(variable, "") if variable else ""
        paths = (shutil.which(name) for name in (configured, *names) if name)
        return next((path for path in paths if path), None)

    return find


def _gpu() -> str | None:
    path = shutil.which("nvidia-smi")
    if path is None:
        return None
    command = [path, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip().replace("\n", "; ") or None


def _sandbox() -> str | None:
    """Return bubblewrap's path and the result of a trial run, the only reliable test; None if it is not installed."""
    from agentgym.sandbox.bubblewrap.sandbox import Bubblewrap, missing
    from agentgym.sandbox.protocol import SandboxFault

    path = shutil.which("bwrap")
    if missing():
        return f"{path}, but {missing()}" if path else None
    try:
        with Bubblewrap() as sandbox:
            works, group = sandbox.python("print(1)").ok, sandbox.group
    except SandboxFault as fault:
        return f"{path}, but no sandbox works here: {fault}"
    memory = "a control group" if group.bounds_memory else "a supervisor that looks every 20 to 100 ms"
    processes = "a control group" if group.bounds_processes else "a resource limit"
    bounded = f"memory is bounded by {memory}, processes by {processes}"
    return f"{path}; {bounded}" if works else f"{path}, but nothing runs in its sandbox"


def _docker() -> str | None:
    """Return a description of the daemon, else the path of `docker` or `podman` and the problem; None without either."""
    from agentgym.errors import BadConfig, MissingExtra
    from agentgym.sandbox.docker.daemon import Daemon, usual

    try:
        return str(Daemon(usual(), SECONDS))
    except (BadConfig, MissingExtra) as problem:
        path = shutil.which("docker") or shutil.which("podman")
        return f"{path}, but {problem}" if path else None


NEEDS = (
    Need("torch", "training, the hf engine", how_to_install("train"), library("torch")),
    Need("transformers", "training, the hf engine", how_to_install("train"), library("transformers")),
    Need("trl", "TRL's trainer, the chat template chatml", how_to_install("train"), library("trl")),
    Need("vllm", "the fast engine", how_to_install("vllm"), library("vllm")),
    Need("GPU", "training models beyond a few million parameters", "an NVIDIA card and its driver", _gpu),
    Need(
        "chromium",
        "web environments, looking at reports",
        "Debian: apt install chromium-headless-shell; elsewhere: playwright install chromium",
        chromium,
    ),
    Need("bubblewrap", "the default sandbox for code that a model writes", "apt install bubblewrap", _sandbox),
    Need("docker", "environments in containers", f"Docker or Podman, and {how_to_install('docker')}", _docker),
    Need("java", "environments that run on the JVM", "apt install default-jre-headless", program("java")),
    Need("git", "the commit in a run's manifest", "apt install git", program("git")),
)


def run(config: Config) -> int:
    """Print the table; the exit code is always 0, because no one needs everything."""
    if config.json:
        rows = {need.name: {"here": need.find(), "for": need.what_for, "get": need.how_to_get} for need in NEEDS}
        print(json.dumps(rows, indent=2))
        return 0
    console = Console(highlight=False)
    console.print(Text(f"Python {platform.python_version()} on {platform.platform()}, {os.cpu_count()} cores"))
    data = os.environ.get("AGENTGYM_DATA")
    console.print(Text(printable(f"AGENTGYM_DATA {data or 'is not set: environments over genuine data need a path'}")))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "here", "for"):
        table.add_column(column, overflow="fold", no_wrap=column == "")
    details, missing = dict[str, str](), dict[str, str]()
    for need in NEEDS:
        place = need.find()
        first = re.split(r"[;,] ", place, maxsplit=1)[0] if place else "no"
        table.add_row(need.name, Text(printable(first), style="green" if place else "yellow"), Text(need.what_for))
        if not place:
            missing[need.name] = need.how_to_get
        elif place != first:
            details[need.name] = place.removeprefix(first)[2:].removeprefix("but ")
    console.print(table)
    for title, rows in (("notes", details), ("how to get what is missing", missing)):
        if rows:
            console.print(Text(f"\n{title}", style="bold"), labelled(rows, indent=0), sep="\n")
    if lines := without():
        console.print()
    for line in lines:
        console.print(Text(printable(line)))
    return 0


def without() -> list[str]:
    """Return lines on the environments that cannot be created here, with the reasons; [] if there are none."""
    problems = {id: registry.missing(id) for id in sorted(registry.DESCRIPTIONS)}
    lines = [f"{id}: {' '.join(sentence.split())}" for id, sentence in problems.items() if sentence]
    lines += registry.PROBLEMS
    return ["", "Environments that cannot be made here:", *lines] if lines else []
