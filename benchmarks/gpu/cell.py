"""One cell in a process of its own: its parts in turn, each result written to the file as soon as it is known."""

import argparse
import importlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu.results import append, read

MODULES = {"a": "right", "b": "published", "c": "speed", "d": "planned", "e": "learning"}


class TimeUp(BaseException):
    """The cell's time is over."""


class Parts:
    """The parts of a cell: those in the file are not measured again, none is begun that would end late."""

    def __init__(self, name: str, out: Path, call: str, seconds: float, rehearse: bool) -> None:
        self.name, self.out, self.call, self.rehearse = name, out, call, rehearse
        self.end = time.monotonic() + seconds
        self.left_over = self.failed = 0
        self.known: dict[str, dict[str, Any]] = {}
        self.tried: set[str] = set()
        for line in read(out):
            if line["cell"] == name and "error" not in line:
                self.known[line["part"]] = line
            elif line["cell"] == name and line["call"] == call:
                self.tried.add(line["part"])

    def left(self) -> float:
        """Return the seconds until the cell is stopped."""
        return self.end - time.monotonic()

    def run(self, part: str, work: Callable[[], dict[str, Any]], seconds: float = 3.0) -> None:
        """Measure a part that takes about so many seconds; a failure is written too, with its traceback in the log."""
        if part in self.known:
            print(f"{self.name} {part}: measured before")
            return
        if part in self.tried:
            print(f"{self.name} {part}: failed before in this call")
            self.failed += 1
            return
        if not self.rehearse and self.left() < seconds:
            print(f"{self.name} {part}: left to the next call; {self.left():.0f} s are left, it takes about {seconds:.0f}")
            self.left_over += 1
            return
        print(f"{self.name} {part}: begins, {self.left():.0f} s are left")
        began, broken = time.monotonic(), False
        try:
            found = work()
        except TimeUp:
            self.write(part, {"error": "its time was over", "seconds_of_the_part": time.monotonic() - began})
            raise
        except Exception as error:
            traceback.print_exc(file=sys.stdout)
            found, self.failed = {"error": f"{type(error).__name__}: {error}"[:2000]}, self.failed + 1
            broken = "CUDA error" in str(error) or "device-side assert" in str(error)
        self.write(part, {**found, "seconds_of_the_part": time.monotonic() - began})
        if broken:  # every later call of CUDA in this process would fail too
            print(f"{self.name} {part}: the process cannot go on after this error")
            sys.stdout.flush()
            os._exit(3)
        from gpu.machine import free

        free()

    def write(self, part: str, found: dict[str, Any]) -> None:
        """Append a line to the results, at once and for good."""
        line = {"call": self.call, "cell": self.name, "part": part, **{key: _short(value) for key, value in found.items()}}
        append(self.out, line)
        self.known[part] = line
        measures = {key: value for key, value in line.items() if key not in ("call", "cell", "part")}
        print(f"{self.name} {part}: " + ", ".join(f"{key} {value}" for key, value in measures.items()))


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _stop(*_: object) -> None:
    raise TimeUp


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=MODULES)
    parser.add_argument("out", type=Path)
    parser.add_argument("--call", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    parts = Parts(options.name, options.out, options.call, options.seconds, options.rehearse)
    print(f"{options.name}: loading torch and transformers")
    try:
        import torch

        if not (torch.cuda.is_available() or options.rehearse):
            print(f"{options.name}: not run, as torch sees no GPU here; --rehearse runs it on the CPU at tiny sizes")
            return 1
        importlib.import_module(f"gpu.{MODULES[options.name]}").measure(parts)
    except TimeUp:
        print(f"{options.name}: its time is over")
        return 1
    if parts.failed or parts.left_over:
        print(f"{options.name}: {parts.failed} parts failed, {parts.left_over} are left to the next call")
        return 1
    parts.write("end", {"parts": len(parts.known)})
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # torch would wait for its compilers to end, up to five minutes
