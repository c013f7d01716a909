"""Executions a second and memory of the sandbox, beside a fresh Python; writes a table.

Run `python benchmarks/sandbox.py` (about a minute), or with `--image NAME` for containers. The sandboxed and the fresh
executions alternate, so that what else the machine does falls on both.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from agentgym.sandbox import Limits, sandbox


def rate(run: Callable[[int], object], number: int, workers: int) -> float:
    """Return executions a second of `number` of them on so many threads."""
    started = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(run, range(number)))
    return number / (time.perf_counter() - started)


def leftovers() -> dict[str, int]:
    """Return what an execution of this process could leave behind, by kind."""
    groups = [path for root in Path("/sys/fs/cgroup").glob("*") for path in root.glob(f"**/agentgym-{os.getpid()}-*")]
    return {
        "processes": len(descendants()),
        "mounts": len([line for line in Path("/proc/self/mounts").read_text().splitlines() if "agent" in line]),
        "cgroups": len(groups),
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "folders": len(list(Path(tempfile.gettempdir()).iterdir())),
    }


def descendants() -> set[int]:
    """Return all processes below this one."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return set(found[1:])


def memory(pids: set[int]) -> float:
    """Return the proportional memory of processes in MB."""
    total = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def cold_starts(number: int) -> list[float]:
    """Return the seconds from `sandbox()` to the end of the first command, several times."""
    found: list[float] = []
    for _ in range(number):
        started = time.perf_counter()
        box = sandbox()
        box.run(["true"])
        found.append(time.perf_counter() - started)
        box.close()
    return found


def _readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def below(pid: int) -> set[int]:
    """Return a process and all its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {pid}.union(*(below(int(child)) for child in children))


def containers(image: str, daemon: str, number: int) -> None:
    """Measure the docker sandbox: start, executions, steps, memory, end."""
    starts, ends, many = [], [], []
    for _ in range(number):
        started = time.perf_counter()
        many.append(sandbox("docker", image=image, daemon=daemon, limits=Limits(memory=64 << 20)))
        starts.append(time.perf_counter() - started)
    box: Any = many[0]
    workers = os.cpu_count() or 2
    kernels = [each.kernel() for each in many]
    steps: list[float] = []
    for _ in range(3000):
        started = time.perf_counter()
        kernels[0].run("x = 1")
        steps.append(time.perf_counter() - started)
    seen = [below(each.daemon.client.api.inspect_container(each.container)["State"]["Pid"]) for each in many]
    commands = {int(path.parent.name): path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _readable(path)}
    watching = {pid for pid, command in commands.items() if any(each.container.encode() in command for each in many)}
    print("| what | value |\n|---|---|")
    print(f"| daemon, cores | {str(box.daemon).partition(' at ')[0]}, {workers} |")
    print(f"| a container, start until its first result | {1e3 * median(starts):.0f} ms |")
    plain = rate(lambda i: many[i % workers].run("true"), 400, workers)
    print(f"| `true` on {workers} threads, a container each | {plain:.0f} /s |")
    sandboxed = rate(lambda i: many[i % workers].python("print(1)"), 400, workers)
    print(f"| Python's `print(1)` likewise | {sandboxed:.0f} /s |")
    middle, slow = 1e3 * median(steps), 1e3 * sorted(steps)[int(0.99 * len(steps))]
    print(f"| step in a kernel, median and 99 % | {middle:.2f} ms, {slow:.2f} ms |")
    print(f"| process 1 and an idle kernel | {memory(set().union(*seen)) / number:.1f} MB each |")
    print(f"| what the daemon runs beside them | {memory(watching) / number:.1f} MB each |")
    for each in many:
        started = time.perf_counter()
        each.close()
        ends.append(time.perf_counter() - started)
    print(f"| end of a container | {1e3 * median(ends):.0f} ms |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="pairs of sandboxed and fresh executions")
    parser.add_argument("--executions", type=int, default=10_000, help="executions after which nothing may be left")
    parser.add_argument("--kernels", type=int, default=200, help="kernels at once")
    parser.add_argument("--image", default="", help="measure containers of this image instead")
    parser.add_argument("--daemon", default="", help="URL of their daemon")
    arguments = parser.parse_args()
    if arguments.image:
        containers(arguments.image, arguments.daemon, 20)
        return
    workers = os.cpu_count() or 2
    loads = [os.getloadavg()[0]]
    folder = tempfile.TemporaryDirectory()  # so that what others leave does not count
    tempfile.tempdir = folder.name
    before = leftovers()
    sandboxes = [sandbox(packages=["numpy"]) for _ in range(workers)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    fresh_command = [sys.executable, "-c", "import numpy; print(1)"]
    ours: list[float] = []
    fresh: list[float] = []
    starts = cold_starts(30)
    for _ in range(arguments.rounds):
        ours.append(rate(lambda i: sandboxes[i % workers].python("print(1)"), 200, workers))
        fresh.append(rate(lambda _: subprocess.run(fresh_command, env=environment, capture_output=True), 24, workers))
    ratios = [a / b for a, b in zip(ours, fresh, strict=True)]
    print("| what | value |\n|---|---|")
    print(f"| cores | {workers} |")
    print(f"| `sandbox()` to its first command's end | {1e3 * median(starts):.0f} ms (least {1e3 * min(starts):.0f} ms) |")
    print(f"| stateless `print(1)` in the sandbox, numpy loaded | {median(ours):.0f} /s |")
    print(f"| fresh `python -c 'import numpy; print(1)'` without a sandbox | {median(fresh):.1f} /s |")
    print(f"| ratio, pairs | {median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f}) |")
    rate(lambda i: sandboxes[i % workers].python("print(1)"), arguments.executions, workers)
    for box in sandboxes:
        box.close()
    time.sleep(0.5)
    after = leftovers()
    left = ", ".join(f"{kind} {after[kind] - before[kind]:+d}" for kind in after)
    print(f"| left after {arguments.executions:,} executions | {left} |")
    small = sandbox(limits=Limits(memory=64 << 20))
    kernel = small.kernel()
    steps: list[float] = []
    for _ in range(3000):
        started = time.perf_counter()
        kernel.run("x = 1")
        steps.append(time.perf_counter() - started)
    middle, slow = 1e3 * median(steps), 1e3 * sorted(steps)[int(0.99 * len(steps))]
    print(f"| step in a kernel, median and 99 % | {middle:.2f} ms, {slow:.2f} ms |")
    small.close()
    starts = []
    many, kernels = [], []
    for _ in range(arguments.kernels):
        started = time.perf_counter()
        many.append(sandbox(limits=Limits(memory=64 << 20)))
        kernels.append(many[-1].kernel())
        starts.append(time.perf_counter() - started)
    print(f"| a sandbox of its own and its kernel, start | {1e3 * median(starts):.0f} ms |")
    print(
        f"| {arguments.kernels} idle kernels at once, each in its sandbox "
        f"| {memory(descendants()) / arguments.kernels:.1f} MB each |"
    )
    for box in many:
        box.close()
    loads.append(os.getloadavg()[0])
    print(f"| load of the machine, before and after | {loads[0]:.1f}, {loads[1]:.1f} |")
    folder.cleanup()


if __name__ == "__main__":
    main()
