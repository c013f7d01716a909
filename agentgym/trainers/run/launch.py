"""Start the processes of a run on this machine and stop them together."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import NoReturn

from agentgym.core.beside import python

LAUNCHER = "AGENTGYM_LAUNCHER"
"""Environment variable of processes that `launch` started: their standard input closes when the launcher ends."""
LOST = 75
"""Exit code of a process that ended because another process had ended; the cause is the other process's error."""


def launched() -> bool:
    """Return True if this process is one of several started by a launcher."""
    return "WORLD_SIZE" in os.environ


def main_process() -> bool:
    """Return True if this process is rank 0, which prints, and writes the run's files except parts of sharded weights."""
    return os.environ.get("RANK", "0") == "0"


def end_with_launcher() -> None:
    """Start a thread that ends this process as soon as the launcher ends, even if the launcher is killed.

    Do nothing in a process that `launch` did not start.
    """
    if LAUNCHER in os.environ:
        threading.Thread(target=_outlive, daemon=True).start()


def _outlive() -> None:
    while os.read(0, 4096):
        pass
    os._exit(128 + signal.SIGTERM)  # the main thread may be in a step or waiting for another process


def leave(code: int) -> NoReturn:
    """Flush the output and end this process immediately.

    Threads of a transport whose other end is gone may crash during interpreter shutdown, and the signal of that crash
    would hide the run's exit code.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def launch(arguments: Sequence[str], processes: int, folder: str) -> int:
    """Run `python -m agentgym ARGUMENTS` in `processes` processes; return the exit code of one that failed, or 0.

    The first Ctrl-C reaches each process once; they agree on a checkpoint and exit with 130. If a process fails, or at a
    second Ctrl-C, the processes still running are killed; if this process is killed, all exit by themselves. `folder`
    is the run's folder, which the error message names.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1"}
    shared |= {
        "MASTER_PORT": str(port),
        LAUNCHER: str(os.getpid()),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    running: list[subprocess.Popen[bytes]] = []
    before = signal.signal(signal.SIGTERM, _terminated)  # to leave no orphans
    with tempfile.TemporaryFile() as words:  # output of the processes without the screen, shown if they fail
        try:
            for rank in range(processes):
                environment = {**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                quiet = None if rank == 0 else words
                command = [*python(), "-m", "agentgym", *arguments]
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=quiet,
                    stderr=quiet,
                    start_new_session=True,
                )
                running.append(process)
            code = _wait(running)
            if code not in (0, 128 + signal.SIGINT):
                words.seek(0)
                sys.stderr.write(_explained(running, words.read().decode(errors="replace"), folder))
            return code
        finally:
            signal.signal(signal.SIGTERM, before)
            for process in running:
                if process.poll() is None:
                    process.kill()
                    process.wait()


def _first(running: Sequence[subprocess.Popen[bytes]]) -> int:
    """Return the exit code to report: 128 + s if signal s ended a process, else the first rank's code that is not `LOST`.

    It is `LOST` if no process has another code.
    """
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and not all(process.poll() for process in running):
        time.sleep(0.02)
    codes = [process.returncode for process in running if process.returncode]
    first = min(codes, key=lambda code: (code > 0, code == LOST))
    return first if first > 0 else 128 - first


def _explained(running: Sequence[subprocess.Popen[bytes]], words: str, folder: str) -> str:
    """Return the error message of a failure that rank 0 has not printed; an empty string if rank 0 has printed it.

    `words`: output of the other processes.
    """
    for rank, process in enumerate(running):
        if process.returncode and process.returncode < 0:
            return (
                f"error: process {rank + 1} of {len(running)} was ended by signal {-process.returncode}: by hand, or by the "
                f"system for want of memory. The others were stopped; continue with: agentgym train --resume {folder}\n"
            )
    return "" if running[0].returncode not in (None, 0, LOST) else words[-4000:]


def _terminated(*_: object) -> None:
    sys.exit(128 + signal.SIGTERM)


def _wait(running: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait until all processes have succeeded or one has failed, and return the exit code.

    The first Ctrl-C is sent to all processes; a second one ends the wait.
    """
    interrupted = False
    while True:
        try:
            for process in running:
                try:
                    code = process.wait(timeout=0.2)
                except subprocess.TimeoutExpired:
                    continue
                if code:
                    return _first(running)
            if all(process.poll() == 0 for process in running):
                return 0
        except KeyboardInterrupt:
            if interrupted:
                return 128 + signal.SIGINT  # a second Ctrl-C does not wait for the checkpoint
            interrupted = True
            for process in running:
                process.send_signal(signal.SIGINT)
