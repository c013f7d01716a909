"""A pool of environments, worker processes and browsers that lives as long as a run, and plays episodes in them."""

import asyncio
import contextlib
import importlib.util
import os
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import IO, Literal, TypeVar, get_args

from agentgym.agents.base import Agent
from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.core.wrapper import forwarded
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig, EngineDead, MissingExtra, UnknownName, how_to_install, no_such
from agentgym.rollout.faults import RetryingEnv
from agentgym.rollout.hosted import HostedEnv, LocalEnv, close
from agentgym.rollout.interrupts import interrupts_watched
from agentgym.rollout.limits import ends_more, one_alarm
from agentgym.rollout.play import Job, Lockstep, Start, attempt
from agentgym.rollout.replay import consulted, starts
from agentgym.rollout.slots import Slots
from agentgym.rollout.together import together
from agentgym.rollout.workers import StartWorker, Workers

Factory = Callable[[], TextEnv]
T = TypeVar("T")
Replay = Callable[[HostedEnv, float], Awaitable[T]]
"""Replays an episode in an environment, with a time limit in seconds per step, and returns a result."""


WorkerBackend = Literal["process", "ray"]
WORKER_BACKENDS = get_args(WorkerBackend)


@dataclass(frozen=True)
class RolloutConfig:
    """Settings for playing episodes."""

    concurrency: int = 128
    """Maximum number of episodes in flight."""
    workers: int = 0
    """Number of worker processes for environments whose steps may wait for something external, such as a browser. 0
    means one per core of this process's share, from 2 to 16; at most `concurrency` are started."""
    step_seconds: float = 60.0
    """Maximum seconds for a step or a reset of an environment, unless the environment sets a higher limit."""
    worker_backend: WorkerBackend = "process"
    """Where workers run: in processes on this machine, or as actors of the Ray cluster at RAY_ADDRESS (if unset, of
    a local cluster, started if needed). With Ray, every environment runs in a worker."""
    worker_options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Options for each Ray actor, such as num_cpus (default 1) or resources."""

    def check_workers(self) -> None:
        """Check that `worker_backend` is available and `worker_options` fit it.

        Raises:
            UnknownName: the backend does not exist.
            BadConfig: `worker_options` have no effect with this backend.
            MissingExtra: ray is not installed.
        """
        if self.worker_backend not in WORKER_BACKENDS:
            raise UnknownName(no_such("worker_backend", str(self.worker_backend), WORKER_BACKENDS))
        if self.worker_options and self.worker_backend == "process":
            raise BadConfig(
                f"worker_options ({', '.join(self.worker_options)}) are those of a Ray actor: give worker_backend 'ray' too"
            )
        if self.worker_backend == "ray" and not importlib.util.find_spec("ray"):
            raise MissingExtra(f"workers on Ray need the ray package: {how_to_install('ray')}")

    def worker_count(self) -> int:
        """Return the number of workers, which is at most the number of episodes in flight."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
        share = cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # other training processes share the cores
        return min(self.workers or min(max(share, 2), 16), self.concurrency)


@dataclass(slots=True)
class _Source:
    """One of the pool's environments: how to make an instance, where instances run, and idle instances."""

    make: Factory
    probe: TextEnv
    timings: dict[str, float]
    workers: Workers | None
    kind: int
    """Index of the environment's factory in the workers."""
    step_seconds: float
    waiting: list[RetryingEnv]

    def fresh(self) -> HostedEnv:
        """Make an environment: in this process, or in one of the workers."""
        return self.workers.hosted(self.kind) if self.workers else LocalEnv(self.make(), self.timings)

    def alone(self) -> AbstractAsyncContextManager[HostedEnv]:
        """Make an isolated environment, to judge the cause of a fault."""
        return self.workers.alone(self.kind) if self.workers else nullcontext(LocalEnv(self.make(), self.timings))

    def single(self) -> HostedEnv:
        return self.workers.single(self.kind) if self.workers else self.fresh()

    def take(self) -> RetryingEnv:
        return self.waiting.pop() if self.waiting else RetryingEnv(self.fresh, self.alone)

    def isolated(self) -> RetryingEnv:
        """Return an environment for a repeated episode; if the environment runs in workers, it gets its own worker."""
        return RetryingEnv(self.single, self.alone)

    def close(self) -> None:
        """Close all idle environments."""
        for env in self.waiting:
            env.close()
        self.waiting.clear()


@dataclass(slots=True)
class _Round:
    """State that the episodes of one `collect` share."""

    agents: Mapping[str, Agent]
    queue: Iterator[tuple[int, Job]]
    lockstep: Lockstep | None
    file: IO[str] | None
    progress: Callable[[Episode], None] | None
    rank: int
    done: list[tuple[int, Episode]] = field(default_factory=list[tuple[int, Episode]])


class RolloutPool:
    """Plays episodes in one or several environments. Instances are made when needed and then reused.

    `envs` maps names to picklable factories. Instances and workers live until `close`, but an instance is not reused
    after a fault or an interrupted episode.
    """

    def __init__(self, envs: Mapping[str, Factory], config: RolloutConfig | None = None) -> None:
        from agentgym.rollout.spawning import check_not_importing  # late, as all that only a rollout needs

        check_not_importing()
        self.config = config or RolloutConfig()
        if self.config.concurrency < 1:
            raise BadConfig(f"concurrency is {self.config.concurrency}; expected at least 1")
        self.config.check_workers()
        self._timings: dict[str, float] = {}
        self._slots = Slots(self.config.concurrency)
        self._makers = dict(envs)
        self._sources: dict[str, _Source] = {}
        self._probes: dict[str, TextEnv] = {}
        self._workers: Workers | None = None

    @property
    def seconds(self) -> float:
        """Seconds spent so far in environments of this process."""
        return self._timings.get("env", 0.0)

    async def collect(
        self,
        agents: Agent | Mapping[str, Agent],
        jobs: Sequence[Job],
        *,
        lockstep: bool = False,
        file: IO[str] | None = None,
        progress: Callable[[Episode], None] | None = None,
        rank: int = -1,
    ) -> list[Episode]:
        """Play the jobs concurrently and return their episodes in order.

        `agents` is one agent for all environments, or one per environment by name. Finished episodes are written to
        `file` at once. Among concurrent calls, a lower `rank` gets free slots first. An episode
        that ends in an infrastructure error is played again once.

        Raises:
            BadConfig: no episode could be played with this configuration.
            EngineDead: the engine is permanently unavailable.
            RuntimeError: an episode was cancelled from inside.
        """
        policies = agents if isinstance(agents, Mapping) else dict.fromkeys(self._makers, agents)
        shared = _Round(policies, iter(enumerate(jobs)), Lockstep() if lockstep else None, file, progress, rank)
        try:
            with interrupts_watched(), one_alarm():
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self.config.concurrency, len(jobs))):
                        group.create_task(self._serve(shared))
        except BaseExceptionGroup as failure:
            raise failure.exceptions[0] from failure
        if len(shared.done) < len(jobs):  # a task group treats a CancelledError from inside as a normal end
            raise RuntimeError(f"{len(jobs) - len(shared.done)} of {len(jobs)} episodes were cancelled from inside")
        return [episode for _, episode in sorted(shared.done, key=lambda pair: pair[0])]

    async def starts(
        self, agent: Agent, env: str, queries: Sequence[tuple[Task, Episode, Collection[int]]]
    ) -> list[dict[int, Start]]:
        """Return branch points inside episodes: for each query (task, episode, turns), a start by turn (from 0).

        Each episode is replayed in an environment of the pool. Turns that the replay does not reach are left out.
        """

        def replay(task: Task, episode: Episode, turns: Collection[int]) -> Replay[dict[int, Start]]:
            return lambda hosted, seconds: starts(hosted, agent, task, episode, turns, seconds)

        points = await self._replayed(env, [replay(*question) for question in queries])
        return [of_episode or {} for of_episode in points]

    async def consult(self, env: str, queries: Sequence[tuple[Task, Episode]], ask: Callable[[TextEnv], T]) -> list[list[T]]:
        """Return the results of `ask(env)` before each turn of replayed episodes, one list per episode.

        `ask` is called in the process where the environment runs, so it must pickle. A list ends where the replay can
        no longer reach the episode's next turn.
        """

        def replay(task: Task, episode: Episode) -> Replay[list[T]]:
            return lambda hosted, seconds: consulted(hosted, task, episode, ask, seconds)

        answers = await self._replayed(env, [replay(*question) for question in queries])
        return [of_episode or [] for of_episode in answers]

    async def _replayed(self, env: str, replays: Sequence[Replay[T]]) -> list[T | None]:
        """Return the results of replays in environments of the pool; None for failures except BadConfig and EngineDead."""
        slots = asyncio.Semaphore(self.config.concurrency)

        async def run(replay: Replay[T]) -> T | None:
            async with slots:
                source = self._source(env)
                hosted, whole = source.take(), False
                try:
                    answer = await replay(hosted, source.step_seconds)
                    whole = True
                except (BadConfig, EngineDead):
                    raise
                except BaseException as error:
                    if ends_more(error):
                        raise
                    return None  # the rollout boundary: the replay failed, so there is nothing to continue from
                finally:
                    source.waiting.append(hosted) if whole else hosted.close()
                return answer

        with interrupts_watched():
            return await together(run(replay) for replay in replays)

    def close(self) -> None:
        """Close all environments and end all worker processes."""
        with interrupts_watched():
            for source in self._sources.values():
                source.close()
            for name, probe in self._probes.items():
                if name not in self._sources or self._sources[name].workers:  # else it is among those already closed
                    close(probe)
        if self._workers:
            self._workers.close()
        self._sources, self._probes, self._workers = {}, {}, None

    def probe(self, name: str) -> TextEnv:
        """Return an environment for task queries; unless episodes run in workers, it also plays the first one."""
        return self._source(name).probe

    def _source(self, name: str) -> _Source:
        """Return the named environment's source; its first instance determines if the environment needs workers."""
        if name not in self._sources:
            make, probe = self._makers[name], self._probed(name)
            isolated = [other for other in self._makers if self._needs_worker(self._probed(other))]
            workers = self._shared_workers(isolated) if name in isolated else None
            kind = isolated.index(name) if workers else 0
            step_seconds = max(self.config.step_seconds, probe.step_seconds)
            source = _Source(make, probe, self._timings, workers, kind, step_seconds, [])
            if not workers:
                source.waiting.append(RetryingEnv(source.fresh, source.alone, LocalEnv(probe, self._timings)))
            self._sources[name] = source
        return self._sources[name]

    def _probed(self, name: str) -> TextEnv:
        if name not in self._probes:
            self._probes[name] = forwarded(self._makers[name]())
        return self._probes[name]

    def _needs_worker(self, probe: TextEnv) -> bool:
        return probe.blocking or self.config.worker_backend != "process"

    def _shared_workers(self, names: Sequence[str]) -> Workers:
        """Return the workers, which are shared by all environments that need workers."""
        if self._workers is None:
            makes = [self._makers[name] for name in names]
            self._workers = Workers(makes, self.config.worker_count(), self._start_worker())
        return self._workers

    def _start_worker(self) -> StartWorker:
        if self.config.worker_backend == "process":
            from agentgym.rollout.processes import ProcessWorker

            return ProcessWorker
        from agentgym.rollout import ray_workers

        return ray_workers.start_with(self.config.worker_options)

    async def _serve(self, shared: _Round) -> None:
        """Play jobs one after another until none are left."""
        if shared.lockstep:
            shared.lockstep.join()
        try:
            more = True
            while more:
                async with self._slots.acquired(shared.rank):
                    more = await self._serve_on(shared)
        finally:
            if shared.lockstep:
                shared.lockstep.leave()

    async def _serve_on(self, shared: _Round) -> bool:
        """Play jobs one after another in one slot; return True if a collection of lower rank waits for the slot."""
        for index, job in shared.queue:
            episode = await self._played(shared, job)
            if shared.file:
                _write(shared.file, episode)
            shared.done.append((index, episode))
            if shared.progress:
                shared.progress(episode)
            await asyncio.sleep(0)  # environments' policies never wait: else Ctrl-C arrives at the end
            if self._slots.contended(shared.rank):
                return True
        return False

    async def _played(self, shared: _Round, job: Job) -> Episode:
        """Play a job; if it ends in a fault, play it once more."""
        source, agent = self._source(job.env), shared.agents[job.env]
        env, whole = source.take(), False
        try:
            episode = await attempt(env, agent, job, source.step_seconds, shared.lockstep)
            whole = not episode.fault  # not reused after a fault
        finally:
            if whole:
                source.waiting.append(env)
            else:
                env.close()
        return episode if whole else await self._again(shared, source, agent, job)

    async def _again(self, shared: _Round, source: _Source, agent: Agent, job: Job) -> Episode:
        """Play a job again in isolation; in lockstep, the others do not wait for it."""
        if shared.lockstep:
            shared.lockstep.leave()
        try:
            async with source.workers.retries if source.workers else nullcontext():
                with contextlib.closing(source.isolated()) as env:
                    return await attempt(env, agent, job, source.step_seconds, None)
        finally:
            if shared.lockstep:
                shared.lockstep.join()


def _write(file: IO[str], episode: Episode) -> None:
    try:
        file.write(episode.to_json() + "\n")
        file.flush()
    except OSError as error:
        error.filename = file.name  # the system does not name the file if the disk is full
        raise
