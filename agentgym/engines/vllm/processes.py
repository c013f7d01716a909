"""The processes of a vLLM engine: engine cores, which are children of this process, and their workers."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psutil

SECONDS = 30


def of_engine(llm: Any) -> list[psutil.Process]:
    """Return the processes of an `AsyncLLM`: its engine cores and their descendants."""
    resources = getattr(llm.engine_core, "resources", None)
    processes: list[psutil.Process] = []
    for core in getattr(getattr(resources, "engine_manager", None), "processes", ()):
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(core.pid)
            processes += [process, *process.children(recursive=True)]
    return processes


def end(processes: Sequence[psutil.Process], seconds: float = SECONDS) -> None:
    """Wait up to `seconds` until processes have ended, then kill the rest."""
    deadline = time.monotonic() + seconds
    left = [process for process in processes if goes_on(process)]
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [process for process in left if goes_on(process)]
    for process in left:
        with suppress(psutil.Error):
            process.kill()


def goes_on(process: psutil.Process) -> bool:
    """Return True if a process is running and not a zombie."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
