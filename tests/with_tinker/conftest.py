"""The real SkyRL server on the CPU, with its JAX backend, over the tiny policies of our own."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "fakes"))
PROJECT = """[project]
name = "skyrl-server"
version = "0"
requires-python = ">=3.11"
[project.optional-dependencies]
tinker = []
jax = []
"""
BACKEND = '{"max_lora_adapters":8,"max_lora_rank":8,"train_micro_batch_size":8,"sample_max_num_sequences":32}'


class SkyRL:
    """A server; it starts its engine as `uv run` started it, so it is started by that, of a project with empty extras."""

    def __init__(self, policy: str, folder: Path) -> None:
        self.policy, self.folder = policy, folder
        (folder / "state").mkdir(parents=True)
        (folder / "pyproject.toml").write_text(PROJECT)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        programs = Path(sys.executable).parent
        environment = {**os.environ, "VIRTUAL_ENV": str(programs.parent), "PATH": f"{programs}:{os.environ['PATH']}"}
        environment |= {"JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1"}
        environment |= {"JAX_COMPILATION_CACHE_DIR": f"{self.folder}/compiled"}  # started again, it compiles nothing again
        environment |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
        if sys.version_info < (3, 12):
            environment["PYTHONPATH"] = str(HERE / "python311")
        command = [
            str(programs / "uv"),
            "run",
            "--active",
            "--no-sync",
            "--project",
            str(self.folder),
            "-m",
            "skyrl.tinker.api",
        ]
        command += ["--base-model", self.policy, "--backend", "jax", "--backend-config", BACKEND]
        command += ["--checkpoints-base", str(self.folder / "state"), "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--database-url", f"sqlite:///{self.folder}/state/tinker.db"]
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"{self.url}/api/v1/healthz", timeout=5):
                    return
            except OSError:
                assert self.process.poll() is None, (self.folder / "log").read_text()[-3000:]
                time.sleep(0.5)
        raise AssertionError((self.folder / "log").read_text()[-3000:])

    def kill(self) -> None:
        """End it, its API and its engine at once."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@pytest.fixture(scope="session")
def tasks() -> dict[str, Any]:
    """Name GuessNumber with numbers up to 7 in three guesses."""
    return {"env": "small_envs:small/Generated-v0", "env_options": {"difficulty": 3}}


@pytest.fixture(scope="session")
def policy(tasks: dict[str, Any], tmp_path_factory: Any) -> str:
    """Imitate the expert for a while, so that a third of the tasks succeed."""
    from small_runs import small

    from agentgym.trainers import train
    from agentgym.trainers.model.policy import PolicySize, init_policy

    folder = tmp_path_factory.mktemp("policy")
    size = PolicySize(width=64, layers=1, heads=2, vocabulary=300, context=128)
    init_policy(**tasks, out=folder / "init", size=size, episodes=20)
    train(small(folder / "run", str(folder / "init"), **tasks, sft_episodes=96, sft_batch=8, steps=0))
    shutil.move(next((folder / "run/checkpoints").glob("step-*")), folder / "policy")
    return str(folder / "policy")


@pytest.fixture(scope="session")
def skyrl(policy: str, tmp_path_factory: Any) -> Iterator[SkyRL]:
    pytest.importorskip("skyrl", reason="no skyrl here: ./dev test-tinker makes an environment that has it")
    server = SkyRL(policy, tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()
