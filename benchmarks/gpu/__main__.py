"""One phase of the measurements on a GPU: `python -m gpu PHASE OUT [--before FOLDER] [--rehearse]`, by benchmarks/gpu.sh."""

import argparse
import importlib
import sys
from pathlib import Path

import torch

from gpu.machine import Cells, Lacking

PHASES = ("runs", "sampling", "step", "published", "learning", "vllm")


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/gpu.sh")
    parser.add_argument("phase", choices=PHASES)
    parser.add_argument("out", type=Path)
    parser.add_argument("--before", type=Path, help="results of an earlier call, whose cells are not measured again")
    parser.add_argument("--rehearse", action="store_true", help="the same code on a CPU, at tiny sizes")
    given = parser.parse_args()
    if not (torch.cuda.is_available() or given.rehearse):
        print(f"{given.phase}: not run, as torch sees no GPU here; --rehearse runs it on the CPU at tiny sizes")
        return 1
    cells = Cells.of(given.phase, given.out, given.before, given.rehearse)
    try:
        importlib.import_module(f"gpu.{given.phase}").measure(cells, given.out, given.before)
    except Lacking as lack:
        print(f"{given.phase}: not run: {lack}")
        cells.results["lacking"] = {"error": str(lack)}
        cells.write()
        return int(not given.rehearse)
    print(f"{given.phase}: {len(cells.results) - 1} cells measured, {cells.failed} failed now")
    return int(cells.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
