"""The cost of a harness's `state_key`: milliseconds per call against changed files, their bytes, and the image.

python benchmarks/state_key.py --daemon URL IMAGE...
"""

import argparse
import statistics
import time

from agentgym.sandbox.docker.changes import Changes
from agentgym.sandbox.docker.sandbox import Docker
from agentgym.sandbox.protocol import Limits

CASES = [(0, 0), (100, 1_000), (1_000, 1_000), (10_000, 1_000), (10, 1_000_000), (100, 1_000_000)]
"""Number of files, and bytes of each."""
CALLS = 9
WRITE = """
import os
for n in range({number}):
    folder = f"{work}/d{{n % 100}}"
    os.makedirs(folder, exist_ok=True)
    with open(f"{{folder}}/{{n}}", "wb") as file:
        file.write(os.urandom({size}))
"""


def measured(options, number, size):
    """Return the milliseconds of a call, and the milliseconds of an empty program in the same container."""
    limits = Limits(disk=512 << 20, files=50_000, memory=1 << 30, timeout=300.0)
    with Docker(limits, **options) as sandbox:
        changes = Changes(sandbox, [])
        changes.key()
        written = sandbox.python(WRITE.format(number=number, size=size, work=sandbox.work))
        assert written.ok, written.text
        times, empty = [], []
        for _ in range(CALLS):
            begun = time.perf_counter()
            assert changes.key() is not None
            middle = time.perf_counter()
            sandbox.looked("", b"", 20.0)
            times.append(1000 * (middle - begun))
            empty.append(1000 * (time.perf_counter() - middle))
        return statistics.median(times), statistics.median(empty)


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image", nargs="+")
    parser.add_argument("--daemon", default="")
    arguments = parser.parse_args()
    print("| image | container | changed files | bytes | state key, ms | empty program, ms |\n" + "|---" * 6 + "|")
    for image in arguments.image:
        for kind, more in (("in memory", {}), ("writable", {"writable": True, "user": "root", "work": "/work"})):
            for number, size in CASES:
                options = {"image": image, "daemon": arguments.daemon, **more}
                key, empty = measured({name: value for name, value in options.items() if value}, number, size)
                print(f"| {image} | {kind} | {number:,} | {number * size:,} | {key:.0f} | {empty:.0f} |", flush=True)


if __name__ == "__main__":
    main()
