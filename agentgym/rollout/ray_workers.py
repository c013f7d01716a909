"""A worker that is an actor of a Ray cluster: environments, their sandboxes and browsers run on other machines.

Ray never restarts these actors or repeats their calls: if a worker is lost, the rollout itself replays the episode and
counts it once. Ray: https://docs.ray.io
"""

import asyncio
import importlib
import os
import pickle
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from agentgym.errors import BadConfig, Fault
from agentgym.rollout.env_threads import EnvThreads, Key, Packed, Request, packed_reply, sendable
from agentgym.rollout.pending import Pending
from agentgym.rollout.workers import StartWorker, WorkerLost

OPTIONS: Mapping[str, object] = {"num_cpus": 1, "scheduling_strategy": "SPREAD", "max_concurrency": 10_000}
"""Default options of an actor."""
SECONDS = 10
"""Maximum seconds for a cluster to answer."""
OURS = ("max_restarts", "max_task_retries", "name", "namespace", "get_if_exists", "lifetime", "concurrency_groups")
"""Reserved options of an actor: with them an episode could be played twice, or outlive the rollout."""


class RayWorker(Pending):
    """One actor. Requests and replies are batched: a call sends all new requests, and an answer has all ready replies."""

    def __init__(self, actor: Any) -> None:
        super().__init__()
        self._actor, self._node = actor, ""
        self._outbox: list[Packed] = []
        self._hearing: asyncio.Task[None] | None = None

    def usable(self) -> bool:
        """Return True if new environments may be placed here."""
        return not self.condemned

    async def begun(self) -> None:
        """Wait until the actor runs.

        Raises:
            Fault: the actor failed to start.
        """
        if self._hearing:
            return
        try:
            self._node = await self._actor.begun.remote()
        except Exception as error:
            self.condemned = True
            raise await self._why(error) from error
        self._hearing = asyncio.create_task(self._hear())

    async def _hear(self) -> None:
        """Receive replies until the actor ends."""
        try:
            while True:
                for reply in await self._actor.answers.remote():
                    self._heard(reply)
        except Exception as error:  # after any error, it no longer answers
            self.condemned = True
            self._ended(await self._why(error))

    async def _why(self, error: Exception) -> Fault:
        """Return the fault for an actor that has ended; WorkerLost if its machine is gone."""
        from ray import exceptions

        message = f"the Ray actor is gone: {str(error).strip()}"
        died = isinstance(error, exceptions.RayActorError) and not error.actor_init_failed
        return Fault(message) if not died or await asyncio.to_thread(_stands, self._node) else WorkerLost(message)

    def _send(self, env: Key, request: Request) -> None:
        if self._loop.is_closed():  # at the end of a run, which also ends the actor
            return
        packed = env, sendable(str(request[0]), request, _pickled)
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(packed)

    def _flush(self) -> None:
        requests, self._outbox = self._outbox, []
        if self._end_reason is None:
            self._actor.take.remote(requests)

    def kill(self) -> None:
        """Kill the actor."""
        ray = importlib.import_module("ray")
        self._ended("the Ray actor was ended")
        if self._hearing and not self._loop.is_closed():
            self._hearing.cancel()
        if ray.is_initialized():
            ray.kill(self._actor)


class _Actor:
    """The actor's class: the part of a worker that runs in the cluster."""

    def __init__(self, makes: bytes, path: list[str]) -> None:
        sys.path.extend(folder for folder in path if folder not in sys.path)  # for the user's modules
        self._envs = EnvThreads(pickle.loads(makes))
        self._ready: deque[Packed] = deque()
        self._available = asyncio.Event()

    async def begun(self) -> str:
        """Return the id of the node on which the actor runs."""
        ray = importlib.import_module("ray")
        self._loop = asyncio.get_running_loop()
        return ray.get_runtime_context().get_node_id()

    async def take(self, requests: list[Packed]) -> None:
        """Accept requests; each reply is available from `answers` when it is ready."""
        for packed in requests:
            self._envs.ask(packed, partial(self._reply, packed[0]))

    def _reply(self, env: Key, ok: bool, value: object) -> None:
        self._ready.append(packed_reply(env, ok, value, _pickled))
        self._loop.call_soon_threadsafe(self._available.set)

    async def answers(self) -> list[Packed]:
        """Wait until replies are ready, and return them."""
        await self._available.wait()
        self._available.clear()
        return [self._ready.popleft() for _ in range(len(self._ready))]


def _pickled(value: object) -> bytes:
    """Pickle a value, including definitions in the script, since the actor does not import the script."""
    return importlib.import_module("ray.cloudpickle").dumps(value)


def _stands(node: str) -> bool:
    """Return True if a node is still alive; False if the cluster is gone, or for an actor that never ran (no node)."""
    ray = importlib.import_module("ray")
    try:
        return any(known["NodeID"] == node and known["Alive"] for known in ray.nodes())
    except Exception:  # the cluster itself is gone, which the waiters have to learn
        return False


def start_with(options: Mapping[str, object]) -> StartWorker:
    """Connect to the cluster at RAY_ADDRESS and return a function that starts actors.

    If RAY_ADDRESS is unset, connect to a local cluster, started if needed. If this process is connected already, use
    that connection. `options` are those of a Ray actor (`num_cpus`, `resources`, `runtime_env`, `label_selector` …). An
    actor for a single environment requests no CPU, so that it fits into a full cluster.

    Raises:
        BadConfig: an option is invalid or reserved, or no cluster answers.
    """
    ray = importlib.import_module("ray")
    for name in OURS:
        if name in options:
            raise BadConfig(f"worker_options: {name} is not for a rollout, which starts, names and ends its actors itself")
    if not ray.is_initialized():
        _connect(ray)
    try:
        actors = {alone: _options(ray, options, alone) for alone in (False, True)}
    except ValueError as error:
        raise BadConfig(f"worker_options: {error}") from error
    return lambda makes, alone: RayWorker(actors[alone].remote(sendable("the environment", makes, _pickled), sys.path))


def _options(ray: Any, options: Mapping[str, object], alone: bool) -> Any:
    return ray.remote(_Actor).options(**{**OPTIONS, **options, **({"num_cpus": 0} if alone else {})})


def _connect(ray: Any) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # reporting to Ray's makers is opt-in
    address = os.environ.get("RAY_ADDRESS", "")
    try:
        host, _, port = address.rpartition("://")[2].rpartition(":")
        if host and port.isdecimal():  # Ray itself retries for minutes
            socket.create_connection((host, int(port)), SECONDS).close()
        with _own_sigterm():  # without an address Ray looks for a cluster of this machine, then starts one
            ray.init(include_dashboard=None if address else False, log_to_driver=False, logging_level="ERROR")
    except OSError as error:  # ConnectionError of Ray among them
        raise BadConfig(f"no Ray cluster answers at {address or 'this machine'}: {error}") from error


@contextmanager
def _own_sigterm() -> Generator[None]:
    """Restore this program's SIGTERM handler after the block, because Ray's handler would exit at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
