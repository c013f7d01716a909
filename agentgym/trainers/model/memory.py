"""Available memory: of this machine, of the control group that limits this process, or of the GPU."""

# psutil and torch are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingModuleSource=false

import re
from dataclasses import dataclass
from pathlib import Path

from agentgym.errors import BadConfig

FIRST_USE = 40 * 2**20
"""Bytes that libraries allocate at their first use, beyond those at import (results/benchmarks.md)."""

_GPUS = re.compile(r"(?:(\d{1,4}) ?x ?)?(\d{1,5}(?:\.\d)?) ?(?:GB|GiB|G)", re.IGNORECASE)
_GROUPS = (  # files of limit, usage and reclaimable usage, by version of Linux control groups
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)


@dataclass(frozen=True)
class Memory:
    """The memory that is available for a run's tensors."""

    device: str
    """Type of the device: `cpu` or `cuda`."""
    name: str
    free: int
    """Bytes that a run can use now; on a CPU, bytes that this process already uses count as free."""
    total: int
    devices: int = 1
    """Number of GPUs; processes are distributed over them."""
    elsewhere: bool = False
    """True if the GPU was named on the command line instead of being in this machine."""

    @property
    def limit(self) -> int:
        """Bytes above which a run is refused: `free` on a GPU, `total` on a CPU, where other programs may release some."""
        return self.total if self.device == "cpu" else self.free


def available() -> Memory:
    """Return the memory of the GPU that training would use or, without a GPU, of this machine or its control group."""
    import psutil
    import torch

    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        return Memory("cuda", torch.cuda.get_device_name(), free, total, torch.cuda.device_count())
    machine = psutil.virtual_memory()
    free, total, name = int(machine.available), int(machine.total), "this machine"
    for limit, use, details in _GROUPS:
        most = _number(limit)
        if most is not None and most < total:
            used = (_number(use) or 0) - _reclaimable(details)
            free, total, name = min(free, most - used), most, "the memory limit this process runs under"
    return Memory("cpu", name, free + process_bytes(), total)


def named(words: str) -> Memory:
    """Parse the memory of GPUs that are not in this machine, such as `80GB`, `24GB` or `2x80GB`.

    The size is in GiB per GPU. A 64th of it is subtracted for the driver, and half a GiB for a process's context.

    Raises:
        BadConfig: the text has another form.
    """
    match = _GPUS.fullmatch(words.strip())
    number, size = (int(match[1] or 1), float(match[2])) if match else (0, 0.0)
    if not (1 <= number <= 1024 and 1 <= size <= 10_000):
        raise BadConfig(f"--on is {words!r}; expected the size of a GPU, such as 80GB or 24GB, or of several: 2x80GB")
    total = int(size * 2**30 * (1 - 1 / 64))
    what = f"a GPU of {size:g} GB" if number == 1 else f"each of {number} GPUs of {size:g} GB"
    return Memory("cuda", what, total - 2**29, total, number, elsewhere=True)


def process_bytes() -> int:
    """Return the bytes that this process uses now: Python, torch and all imports."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):  # no such group, or "max"
        return None


def _reclaimable(path: str) -> int:
    try:
        lines = dict(line.split() for line in Path(path).read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return int(lines.get("inactive_file", 0))
