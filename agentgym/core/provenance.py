"""Provenance of a result: the command line, versions, commit and hardware that produced it."""

import functools
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from agentgym.core.folders import write_whole

LIBRARIES = ("gymnasium", "numpy", "bm25s", "torch", "transformers", "tokenizers", "vllm")
SECRETS = ("key", "apikey", "token", "password", "secret", "authorization", "sig", "signature")
"""Last words of option names whose values must not be stored."""


def session(version: str) -> dict[str, object]:
    """Return the start time, command, versions, commit and hardware of this session.

    `version` is agentgym's version.
    """
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command_line(sys.argv),
        "agentgym": version,
        "commit": commit(),
        "python": platform.python_version(),
        "libraries": {name: installed for name in LIBRARIES if (installed := _version(name))},
        "hardware": hardware(),
    }


def command_line(arguments: Sequence[str]) -> list[str]:
    """Return a command as it was typed, with `***` for the values of secret flags (such as --engine.key) and headers.

    The program is named without its folder, and `agentgym` even if it was started by `python -m agentgym`.
    """
    words = [Path(arguments[0]).name, *arguments[1:]]
    if words[0] == "__main__.py":
        words[0] = "agentgym"
    for place, word in enumerate(words):
        flag, equals, _ = word.partition("=")
        if flag.startswith("--") and (is_secret(flag) or ".header." in flag):
            if equals:
                words[place] = f"{flag}=***"
            elif place + 1 < len(words):
                words[place + 1] = "***"
    return words


def is_secret(name: str) -> bool:
    """Return True if the last word of a name says that its value is secret, as in `engine.api_key`."""
    return name.lower().replace("-", ".").replace("_", ".").rpartition(".")[2] in SECRETS


@functools.cache
def commit() -> str | None:
    """Return the commit of agentgym's checkout, with `+changes` if files differ from it.

    None outside of a checkout, and in one without any commit.
    """
    package = Path(__file__).parents[1]
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:  # inside someone else's repository, or none
        return None
    status = _git(package, "status", "--porcelain=v2", "--branch", "--untracked-files=no", "--", ".") or ""
    head = re.search(r"^# branch\.oid ([0-9a-f]+)$", status, re.MULTILINE)
    changed = any(not line.startswith("#") for line in status.splitlines())
    return f"{head[1]}{'+changes' if changed else ''}" if head else None


def hardware() -> dict[str, object]:
    """Return `system`, `processor`, `cores` (usable), `memory_gib` (None if unknown) and `gpus` (list of names)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": cores,
        "memory_gib": _memory(),
        "gpus": _gpus(),
    }


def write_json(path: Path, value: object) -> None:
    """Write a JSON file so that a crash leaves either the old file or the complete new one."""
    write_whole(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def _version(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(folder: Path, *arguments: str) -> str | None:
    return _output("git", "-C", str(folder), *arguments)


def _output(*command: str) -> str | None:
    """Return a program's output; None if the program is missing, fails or runs longer than 10 seconds."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str:
    if sys.platform == "darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _gpus() -> list[str]:
    listing = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return listing.splitlines() if listing else []
