"""The parts of a run that `kills_parts.py` kills: what runs, who is killed, and how it is brought back."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import kills

ROOT = Path(__file__).resolve().parents[1]


class Part:
    """A run and one part of it. `kill` returns who was killed, or nothing where there is nobody yet."""

    name = "client"
    exact = True
    """Whether the run has to end with the tokens and weights of the untouched one."""
    ends = True
    """Whether the run ends with the part, and goes on with --resume."""
    one_sentence = False
    """Whether the run has to end with one sentence, not with a signal."""
    fleet = False
    """Whether the metrics tell of servers."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.environment: dict[str, str] = {}

    def recipe(self, out: Path) -> None:
        """Write the recipe of a run."""
        kills.recipe(out.parent, out.name, processes=1)

    def command(self, out: Path) -> list[str]:
        return ["train", f"{out}.toml"]

    def kill(self, run: kills.Started) -> str:
        run.process.kill()
        return "the training process"

    def back(self) -> None:
        """Bring the part back."""

    def ready(self) -> None:
        """Wait until everything stands as at the beginning."""

    def close(self) -> None:
        """End what was started."""


class Written(Part):
    """A run whose recipe is the one of `kills.py` with more lines."""

    more = ""

    def recipe(self, out: Path) -> None:
        super().recipe(out)
        path = Path(f"{out}.toml")
        path.write_text(path.read_text() + self.more)


class Small(Part):
    """A run of adapters or weights over servers, from a tiny policy that was made before."""

    changes: dict[str, Any] = {}  # noqa: RUF012 (never changed)

    def __init__(self, folder: Path, rng: random.Random) -> None:
        super().__init__(folder, rng)
        from agentgym.trainers.model.policy import PolicySize, init_policy

        size = PolicySize(width=64, layers=2, heads=2, feed_forward=128, vocabulary=400, context=512)
        self.policy = init_policy("rlvr/GuessNumber-v0", folder / "policy", size=size, episodes=100)

    def recipe(self, out: Path) -> None:
        from agentgym.trainers import TrainConfig
        from agentgym.trainers.config.recipe_files import to_toml

        options: dict[str, Any] = {
            "env": "rlvr/GuessNumber-v0", "model": str(self.policy), "out": str(out), "steps": 6, "tasks_per_step": 2,
            "group_size": 4, "select": "keep", "threads": 1, "eval_every": 0, "test_tasks": 0, "checkpoint_every": 1,
            "lr": 1e-3, "keep_episodes": 1000, "sft_muon": False, "horizon": (4,),
        }  # fmt: skip
        Path(f"{out}.toml").write_text(to_toml(TrainConfig(**{**options, **self.changes})))


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Program:
    """A server in a session of its own, so that all of it can be killed at once."""

    def __init__(self, command: list[str], health: str, **environment: str) -> None:
        self.command, self.health = command, health
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        self.start()

    def start(self) -> None:
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(self.command, env=self.environment, start_new_session=True, **quiet)

    def ready(self) -> None:
        deadline = time.monotonic() + 900
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(self.health, timeout=30):
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"a server did not start: {' '.join(self.command)}")
            time.sleep(0.2)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Server(Small):
    """A Tinker server of our own: API, learner and sampler in one process."""

    name, one_sentence = "server", True

    def __init__(self, folder: Path, rng: random.Random) -> None:
        super().__init__(folder, rng)
        self.port = port()
        script = ROOT / "tests" / "fakes" / "tinker_fake.py"
        state = folder / "state"
        self.url = f"http://127.0.0.1:{self.port}"
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.program = Program(
            [sys.executable, str(script), str(self.policy), str(state), str(self.port)],
            f"{self.url}/api/v1/healthz",
            PYTHONPATH=path,
        )
        self.changes = {
            "learner": f"tinker:{self.url}", "lora_rank": 4, "lr": 1e-2, "minibatches": 1,
            "learner_options": {"patience": 5.0},
        }  # fmt: skip
        self.ready()

    def kill(self, run: kills.Started) -> str:
        self.program.kill()
        return "the Tinker server"

    def back(self) -> None:
        self.program.start()
        self.program.ready()

    def ready(self) -> None:
        self.program.ready()

    def close(self) -> None:
        self.program.kill()


class RemoteClient(Server):
    """The training process of a run whose learner is a Tinker server."""

    name, one_sentence = "client-tinker", False

    def kill(self, run: kills.Started) -> str:
        return Part.kill(self, run)

    def back(self) -> None:
        """Nothing: the server goes on."""


class Sampler(Small):
    """One of two real vLLM servers."""

    name, exact, ends, fleet = "sampler", False, False, True
    flags = ("--weight-transfer-config", '{"backend": "shared_memory"}')
    flags = ("--worker-extension-cls", "agentgym.engines.vllm.worker.WorkerExtension", *flags)

    def __init__(self, folder: Path, rng: random.Random) -> None:
        super().__init__(folder, rng)
        self.servers = [self.server(port()) for _ in range(2)]
        self.ready()
        urls = ",".join(server.health.removesuffix("/health") for server in self.servers)
        self.changes = {"engine": f"vllm:{urls}", "turn_tokens": 24, "context_tokens": 384, **self.changes}

    def server(self, at: int) -> Program:
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(self.policy)]
        command += ["--host", "127.0.0.1", "--port", str(at), "--dtype", "float32", "--enforce-eager"]
        command += ["--max-num-seqs", "16", "--kv-cache-memory-bytes", str(32 << 20), "--generation-config", "vllm"]
        command += ["--enable-scale-out", "--enable-prompt-tokens-details", "--logprobs-mode", "processed_logprobs"]
        environment = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
        environment |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
        return Program([*command, *self.flags], f"http://127.0.0.1:{at}/health", **environment)

    def kill(self, run: kills.Started) -> str:
        self.victim = self.rng.randrange(len(self.servers))
        self.servers[self.victim].kill()
        return f"vLLM server {self.victim + 1} of {len(self.servers)}"

    def back(self) -> None:
        self.servers[self.victim].start()

    def ready(self) -> None:
        for server in self.servers:
            server.ready()

    def close(self) -> None:
        for server in self.servers:
            server.kill()


class AdapterSampler(Sampler):
    """The same where an adapter is trained."""

    name = "sampler-lora"
    flags = ("--enable-lora", "--max-lora-rank", "8")
    changes = {"lora_rank": 4, "lr": 1e-2}  # noqa: RUF012


def add_node(cluster: Any) -> None:
    """Add a node. Ray gives up on one whose agents do not start within 15 s, as on a busy machine; it is started again."""
    for _ in range(2):
        with contextlib.suppress(Exception):  # Ray has no narrower name for it
            cluster.add_node(num_cpus=1)
            return
    cluster.add_node(num_cpus=1)


class Worker(Written):
    """An actor of a Ray cluster of two nodes, in which environments run."""

    name, ends, more = "worker", False, 'worker_backend = "ray"\nworkers = 2\n'

    def __init__(self, folder: Path, rng: random.Random) -> None:
        super().__init__(folder, rng)
        self.mark = uuid.uuid4().hex
        os.environ.update({"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "AGENTGYM_KILLS": self.mark})
        from ray.cluster_utils import Cluster

        self.cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        add_node(self.cluster)
        self.environment = {"RAY_ADDRESS": self.cluster.address}

    def recipe(self, out: Path) -> None:
        """Write the recipe; the untouched run plays in its own process."""
        if out.name == "whole":
            Part.recipe(self, out)
        else:
            super().recipe(out)

    def actors(self) -> list[int]:
        """Return the actors' processes."""
        found: list[int] = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                ours = self.mark.encode() in (path / "environ").read_bytes()
                if ours and b"_Actor" in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
        return sorted(found)

    def kill(self, run: kills.Started) -> str:
        if not (actors := self.actors()):
            return ""
        os.kill(self.rng.choice(actors), signal.SIGKILL)
        return f"one of {len(actors)} Ray workers"

    def close(self) -> None:
        self.cluster.shutdown()


class Node(Worker):
    """A node of that cluster; the other is the head. Another joins."""

    name = "node"

    def kill(self, run: kills.Started) -> str:
        if not self.actors():
            return ""
        self.cluster.remove_node(next(iter(self.cluster.worker_nodes)), allow_graceful=False)
        return "one of 2 Ray nodes"

    def back(self) -> None:
        add_node(self.cluster)


PARTS: dict[str, type[Part]] = {
    part.name: part for part in (Part, RemoteClient, Server, Sampler, AdapterSampler, Worker, Node)
}
