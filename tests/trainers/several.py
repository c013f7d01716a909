"""Starts a script of this folder in several real processes that join by gloo."""

import os
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def run_several(script, number, *arguments, seconds=400):
    """Run a script beside this file in so many processes; an error of any of them fails the test with what they said."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {
        "WORLD_SIZE": str(number),
        "LOCAL_WORLD_SIZE": str(number),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": "1",
    }
    running = [
        subprocess.Popen(
            [sys.executable, str(HERE / script), *map(str, arguments)],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(number)
    ]
    try:
        said = [process.communicate(timeout=seconds)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * number, "\n".join(said)


def run_two(script, out):
    """Run a script in two processes."""
    run_several(script, 2, out)
