"""Starts programs as children of a process that has imported the trainers and does nothing else.

A Python of its own spends some seconds on importing torch and transformers each time; what is forked here has them. Like
a Python of its own, it shares nothing with the test: neither threads, nor what was registered, nor the state of torch.
"""

import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(["agentgym.trainers.run.assemble", "torch.distributed.fsdp"])


class Program:
    """A running program: `script` is a file or, if it has more lines than one, code; its output goes to a file."""

    def __init__(self, script: str | Path, *arguments: object, env: Mapping[str, str] | None = None) -> None:
        self.file = tempfile.NamedTemporaryFile("w+", errors="replace")  # noqa: SIM115 - gone with this object
        words = [str(script), *map(str, arguments)]
        self.process = FORKING.Process(target=run, args=(words, {**os.environ, **(env or {})}, self.file.name))
        self.process.start()

    def wait(self, seconds: float = 400) -> int:
        """Return its exit status: negative for the signal that ended it. It is killed when its time is over."""
        self.process.join(seconds)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
            raise TimeoutError(f"the program did not end within {seconds} s:\n{self.output()}")
        return self.process.exitcode

    def output(self) -> str:
        """Return what it printed."""
        self.file.seek(0)
        return self.file.read()


def run(words: list[str], env: dict[str, str], output: str) -> None:
    """Run a program in this process, which was forked for it."""
    os.environ.clear()
    os.environ.update(env)
    written = os.open(output, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(written, stream)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path[:0] = [str(HERE), *env.get("PYTHONPATH", "").split(os.pathsep)]
    script, sys.argv = words[0], words
    if "\n" not in script:
        runpy.run_path(script, run_name="__main__")
    else:
        sys.argv = ["-c", *words[1:]]
        exec(compile(script, "<program>", "exec"), sys.modules["__main__"].__dict__)
