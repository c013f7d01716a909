"""The cells in turn, each in a process group of its own that ends with its time; called by `benchmarks/gpu.sh`.

Nothing here imports torch: the first line is there at once, and a cell that hangs or dies takes nothing else along.
"""

import argparse
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpu.results import NAME, append, read

CELLS: dict[str, tuple[str, float, float]] = {  # question, most seconds, seconds below which it is not begun
    "a": ("Does it compute right?", 60, 30),
    "b": ("What does the published setting cost?", 150, 60),
    "c": ("How far from the limit?", 120, 40),
    "d": ("Does the plan hold?", 30, 20),
    "e": ("Does it learn?", 120, 40),
}
GRACE = 6.0  # seconds between the request to stop and the end of a cell's whole process group
AGAIN = 3  # exit status of a cell whose process cannot go on, as after a fault of the GPU, and which has more to measure
REHEARSAL = 3.0  # a rehearsal on a busy CPU gets so many times the seconds of a GPU


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/gpu.sh")
    parser.add_argument("cells", nargs="+", choices=["all", *CELLS], metavar="CELL")
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=8.0, help="of the whole call")
    parser.add_argument("--also", type=Path, help="a folder that gets a copy of the results whenever a cell ends")
    parser.add_argument("--rehearse", action="store_true", help="the same code on a CPU, at tiny sizes")
    options = parser.parse_args()
    run = Run(options.out, options.minutes * 60, options.also, options.rehearse)
    names = list(CELLS) if "all" in options.cells else list(dict.fromkeys(options.cells))
    bad = [name for name in names if not run.cell(name)]
    rest = f"; not {', '.join(bad)}" if bad else ""
    run.say(f"{len(names) - len(bad)} of {len(names)} cells are finished after {run.spent():.0f} s{rest}")
    run.copy()
    return int(bool(bad))


class Run:
    """One call: its folder, its clock, its log."""

    def __init__(self, out: Path, seconds: float, also: Path | None, rehearse: bool) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.out, self.seconds, self.also, self.rehearse = out, seconds, also, rehearse
        self.began, self.call = time.monotonic(), f"{time.time():.0f}"
        self.log = (out / "log.txt").open("a", encoding="utf-8")

    def spent(self) -> float:
        return time.monotonic() - self.began

    def say(self, text: str) -> None:
        """Print a line, and keep it in the log at once."""
        print(text, flush=True)
        self.log.write(text + "\n")
        self.log.flush()

    def finished(self, name: str) -> bool:
        return any(line["cell"] == name and line["part"] == "end" for line in read(self.out))

    def cell(self, name: str) -> bool:
        """Measure a cell, unless it was, or there is no time for it; return whether it is finished."""
        question, most, least = CELLS[name]
        if self.finished(name):
            self.say(f"{name}: measured before")
            return True
        if self.rehearse:
            most, least = most * REHEARSAL, 0.0
        end = self.began + self.seconds - GRACE - 1  # of the whole call
        deadline = min(time.monotonic() + most, end)
        while True:
            left = deadline - time.monotonic()
            if left < least or left <= 1:
                self.say(f"{name}: left to the next call; {max(left, 0.0):.0f} s are left, it takes at least {least:.0f}")
                break
            self.say(f"{name}: {question} at most {left:.0f} s, {self.spent():.0f} s after the start")
            status = self.run(name, left)
            if status == 0:
                break
            reason = "it was stopped at its limit" if status is None else f"its process ended with {status}"
            self.say(f"{name}: not finished: {reason}")
            append(self.out, {"call": self.call, "cell": name, "part": "stopped", "error": reason})
            if status != AGAIN:
                break
            least = 10.0
        self.copy()
        return self.finished(name)

    def run(self, name: str, seconds: float) -> int | None:
        """Run a cell's process and return its status; None where its time was up and its group was ended."""
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        words = self.command(name, seconds)
        process = subprocess.Popen(words, **streams, text=True, errors="replace", start_new_session=True)
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_drain, args=(process.stdout, lines), daemon=True).start()
        end, stop_sent = time.monotonic() + seconds, False
        try:
            while True:
                try:
                    line = lines.get(timeout=max(min(end - time.monotonic(), 1.0), 0.05))
                    if line is None:
                        break
                    self.say(line)
                except queue.Empty:
                    pass
                if time.monotonic() < end:
                    if process.poll() is not None and lines.empty():  # what it started may still hold its output open
                        break
                elif stop_sent:
                    break
                else:
                    os.killpg(process.pid, signal.SIGTERM)
                    stop_sent, end = True, time.monotonic() + GRACE
        except ProcessLookupError:
            pass
        finally:
            _end(process)
        return None if stop_sent else process.returncode

    def command(self, name: str, seconds: float) -> list[str]:
        words = [sys.executable, "-m", "gpu.cell", name, str(self.out), "--call", self.call, "--seconds", f"{seconds:.0f}"]
        return words + (["--rehearse"] if self.rehearse else [])

    def copy(self) -> None:
        """Leave the results where they are fetched from."""
        if self.also:
            self.also.mkdir(parents=True, exist_ok=True)
            for name in (NAME, "log.txt"):
                if (self.out / name).exists():
                    shutil.copy(self.out / name, self.also / name)


def _drain(stream: Any, lines: "queue.Queue[str | None]") -> None:
    for line in stream:
        lines.put(line.rstrip("\n"))
    lines.put(None)


def _end(process: "subprocess.Popen[str]") -> None:
    """End a process and all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    sys.exit(main())
