"""CPU seconds of a command's start, in interleaved pairs with another checkout.

    python benchmarks/start.py OTHER [--pairs 5] [--cells import envs line update]

`OTHER` is the folder of another checkout. Cells: `import agentgym`; `agentgym envs`; `train household --steps 0` until its
first line; `train household` until its first update (the evaluation of the untrained policy included). CPU seconds decide;
wall seconds depend on what else runs, so the load is printed too. Both checkouts are compiled first: where Python
may not write bytecode (PYTHONDONTWRITEBYTECODE), a start would otherwise be the compilation of its modules.
"""

import argparse
import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAIN = "import sys; from agentgym.cli import main; sys.exit(main(sys.argv[1:]))"
FIRST_UPDATE = (
    "import os, sys; from torch.optim.optimizer import register_optimizer_step_pre_hook as hook; "
    "hook(lambda *_: os._exit(0)); from agentgym.cli import main; sys.exit(main(sys.argv[1:]))"
)
TRAIN = ["train", "household", "--processes", "1", "--out"]


def cpu(checkout: Path, cell: str) -> tuple[float, float]:
    """Return CPU and wall seconds of a cell's command in a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "run")
        commands = {
            "import": ["-c", "import agentgym"],
            "envs": ["-c", MAIN, "envs"],
            "line": ["-c", MAIN, *TRAIN, out, "--steps", "0"],
            "update": ["-c", FIRST_UPDATE, *TRAIN, out],
        }
        environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
        started = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, *commands[cell]],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert child.stdout is not None
        if cell == "line":
            output = child.stdout.readline()
            child.kill()
        else:
            output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - started
        child.returncode = status
        if status and cell != "line":
            raise SystemExit(f"{cell} in {checkout} failed: {output.decode()[-1000:]}")
        return usage.ru_utime + usage.ru_stime, seconds


def main() -> None:
    """Print the medians of both checkouts and their ratio, cell by cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--cells", nargs="+", default=["import", "envs", "line", "update"])
    arguments = parser.parse_args()
    for checkout in (arguments.other, ROOT):
        compileall.compile_dir(checkout / "agentgym", quiet=1)
    for cell in arguments.cells:
        pairs = [(cpu(arguments.other.resolve(), cell), cpu(ROOT, cell)) for _ in range(arguments.pairs)]
        ratios = [ours[0] / theirs[0] for theirs, ours in pairs]
        before, after = (statistics.median(pair[side][0] for pair in pairs) for side in (0, 1))
        walls = [statistics.median(pair[side][1] for pair in pairs) for side in (0, 1)]
        print(
            f"{cell}: CPU {before:.2f} -> {after:.2f} s, ratio {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}); wall {walls[0]:.2f} -> {walls[1]:.2f} s, "
            f"load {os.getloadavg()[0]:.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
