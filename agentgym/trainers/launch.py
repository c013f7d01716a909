"""Starting the processes of a run on this machine, and stopping them together."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence


def launched() -> bool:
    """Whether this process is one of several started by a launcher."""
    return "WORLD_SIZE" in os.environ


def main_process() -> bool:
    """Whether this process is the one that writes and prints."""
    return os.environ.get("RANK", "0") == "0"


def launch(arguments: Sequence[str], processes: int) -> int:
    """Run `python -m agentgym ARGUMENTS` in so many processes and return the exit code of the first that failed, or 0.

    Ctrl-C reaches each process once; they agree on a checkpoint and leave with 130. When one fails, all are ended.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1"}
    shared |= {"MASTER_PORT": str(port), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    running: list[subprocess.Popen[bytes]] = []
    before = signal.signal(signal.SIGTERM, _terminated)  # so that no process is orphaned
    with tempfile.TemporaryFile() as words:  # what the processes without the screen have to say, if they fail
        try:
            for rank in range(processes):
                environment = {**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                quiet = None if rank == 0 else words
                command = [sys.executable, "-m", "agentgym", *arguments]
                process = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet, start_new_session=True)
                running.append(process)
            code = _wait(running)
            if code not in (0, 128 + signal.SIGINT) and not running[0].returncode:
                words.seek(0)
                sys.stderr.write(words.read().decode(errors="replace")[-4000:])
            return code
        finally:
            signal.signal(signal.SIGTERM, before)
            for process in running:
                if process.poll() is None:
                    process.kill()
                    process.wait()


def _terminated(*_: object) -> None:
    sys.exit(128 + signal.SIGTERM)


def _wait(running: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait until all have ended well, or one has not."""
    interrupted = False
    while True:
        try:
            for process in running:
                try:
                    code = process.wait(timeout=0.2)
                except subprocess.TimeoutExpired:
                    continue
                if code:
                    return code if code > 0 else 128 - code
            if all(process.poll() == 0 for process in running):
                return 0
        except KeyboardInterrupt:
            if interrupted:
                return 128 + signal.SIGINT  # a second Ctrl-C does not wait for the checkpoint
            interrupted = True
            for process in running:
                process.send_signal(signal.SIGINT)
