"""Environments, worker processes and browsers that live as long as a run, and the episodes played in them."""

import asyncio
import contextlib
import importlib.util
import itertools
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from heapq import heappop, heappush
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
from agentgym.rollout.limits import CONTAINED, ends_more
from agentgym.rollout.play import Job, Lockstep, Start, attempt
from agentgym.rollout.replay import consulted, starts
from agentgym.rollout.workers import StartWorker, Workers

Factory = Callable[[], TextEnv]
T = TypeVar("T")
Replay = Callable[[HostedEnv, float], Awaitable[T]]
"""Goes through an episode again in an environment, each step within so many seconds."""


WorkerBackend = Literal["process", "ray"]
WORKER_BACKENDS = get_args(WorkerBackend)


@dataclass(frozen=True)
class RolloutConfig:
    """How episodes are played."""

    concurrency: int = 128
    """Episodes in flight."""
    workers: int = 0
    """Workers (of each process) for environments whose steps may wait for something external, such as a browser; 0 is
    one per core, from 2 to 16."""
    step_seconds: float = 60.0
    """Seconds that one step or reset of the environment may take."""
    worker_backend: WorkerBackend = "process"
    """Where workers are: processes of this machine, or actors of the Ray cluster that RAY_ADDRESS names (or of one that is
    started here), which then hold every environment."""
    worker_options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Options of a Ray actor, such as num_cpus (1) or resources."""

    def check_workers(self) -> None:
        """Raise BadConfig, UnknownName or MissingExtra if workers of this kind are not available."""
        if self.worker_backend not in WORKER_BACKENDS:
            raise UnknownName(no_such("worker_backend", str(self.worker_backend), WORKER_BACKENDS))
        if self.worker_options and self.worker_backend == "process":
            raise BadConfig(
                f"worker_options ({', '.join(self.worker_options)}) are those of a Ray actor: give worker_backend 'ray' too"
            )
        if self.worker_backend == "ray" and not importlib.util.find_spec("ray"):
            raise MissingExtra(f"workers on Ray need the ray package: {how_to_install('ray')}")

    def worker_count(self) -> int:
        """Return how many workers an environment has, never more than episodes in flight."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
        share = cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # of a process that trains beside others
        return min(self.workers or min(max(share, 2), 16), self.concurrency)


@dataclass(slots=True)
class _Source:
    """One environment of a pool: how it is made, where it runs, and those that wait for their next episode."""

    make: Factory
    probe: TextEnv
    timings: dict[str, float]
    workers: Workers | None
    kind: int
    """What the workers know it by."""
    step_seconds: float
    waiting: list[RetryingEnv]

    def fresh(self) -> HostedEnv:
        """Return a new environment: in this process, or in one of the workers."""
        return self.workers.hosted(self.kind) if self.workers else LocalEnv(self.make(), self.timings)

    def alone(self) -> AbstractAsyncContextManager[HostedEnv]:
        """Give an environment to judge a fault in, out of reach of all others."""
        return self.workers.alone(self.kind) if self.workers else nullcontext(LocalEnv(self.make(), self.timings))

    def single(self) -> HostedEnv:
        """Return an environment out of reach of all others."""
        return self.workers.single(self.kind) if self.workers else self.fresh()

    def take(self) -> RetryingEnv:
        """Return an environment for the next episode: one that waits, or a new one."""
        return self.waiting.pop() if self.waiting else RetryingEnv(self.fresh, self.alone)

    def apart(self) -> RetryingEnv:
        """Return an environment for an episode that is played again, in a worker of its own if it has workers."""
        return RetryingEnv(self.single, self.alone)

    def close(self) -> None:
        """Free all that waits."""
        for env in self.waiting:
            env.close()
        self.waiting.clear()


@dataclass(slots=True)
class _Round:
    """What the episodes of one `collect` share."""

    agents: Mapping[str, Agent]
    queue: Iterator[tuple[int, Job]]
    lockstep: Lockstep | None
    file: IO[str] | None
    progress: Callable[[Episode], None] | None
    rank: int
    done: list[tuple[int, Episode]] = field(default_factory=list[tuple[int, Episode]])


class _Slots:
    """Places for episodes in flight; of those who wait for one, the lowest rank goes first, then who came first."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._numbers = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def held(self, rank: int) -> AsyncGenerator[None]:
        """Hold a place."""
        if self._free:
            self._free -= 1
        else:
            await self._turn(rank)
        try:
            yield
        finally:
            self._give()

    async def _turn(self, rank: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (rank, next(self._numbers), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the place came at the same moment
                self._give()
            raise

    def _give(self) -> None:
        while self._waiting:
            turn = heappop(self._waiting)[2]
            if not turn.done():  # else who waited was cancelled
                turn.set_result(None)
                return
        self._free += 1

    def wanted(self, rank: int) -> bool:
        """Return whether somebody of a lower rank waits for a place."""
        return bool(self._waiting) and self._waiting[0][0] < rank


class RolloutPool:
    """Plays episodes of one or several environments, which are made when they are first needed and then kept.

    `envs`: by name, a picklable function that makes one. Everything lives until `close`; an environment that faulted, or
    whose episode was cut off, is not used again. `seconds`: time spent in environments of this process so far.
    """

    def __init__(self, envs: Mapping[str, Factory], config: RolloutConfig | None = None) -> None:
        from agentgym.rollout.spawning import check_not_importing  # late, as all that only a rollout needs

        check_not_importing()
        self.config = config or RolloutConfig()
        if self.config.concurrency < 1:
            raise BadConfig(f"concurrency is {self.config.concurrency}; expected at least 1")
        self.config.check_workers()
        self._timings: dict[str, float] = {}
        self._slots = _Slots(self.config.concurrency)
        self._makers = dict(envs)
        self._sources: dict[str, _Source] = {}
        self._probes: dict[str, TextEnv] = {}
        self._workers: Workers | None = None

    @property
    def seconds(self) -> float:
        """Seconds spent in environments of this process."""
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
        """Play the jobs, so many at a time, and return their episodes in order.

        `agents`: one for all, or one for each environment by name. Each finished episode is written to `file` at once.
        Where several collections go on beside one another, those of a lower `rank` get the free places first. A fault
        is retried once; BadConfig and EngineDead, which no episode would escape, end the collection.
        """
        policies = agents if isinstance(agents, Mapping) else dict.fromkeys(self._makers, agents)
        shared = _Round(policies, iter(enumerate(jobs)), Lockstep() if lockstep else None, file, progress, rank)
        try:
            with interrupts_watched():
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self.config.concurrency, len(jobs))):
                        group.create_task(self._serve(shared))
        except BaseExceptionGroup as failure:
            raise failure.exceptions[0] from failure
        if len(shared.done) < len(jobs):  # a task group takes a CancelledError that came from inside for an end
            raise RuntimeError(f"{len(jobs) - len(shared.done)} of {len(jobs)} episodes were cancelled from inside")
        return [episode for _, episode in sorted(shared.done, key=lambda pair: pair[0])]

    async def starts(
        self, agent: Agent, env: str, queries: Sequence[tuple[Task, Episode, Collection[int]]]
    ) -> list[dict[int, Start]]:
        """Return branch points before turns of episodes: of each task and episode by the turn, counted from 0.

        The episode is gone through again, in an environment of the pool. A turn that cannot be reached is left out.
        """

        def replay(task: Task, episode: Episode, turns: Collection[int]) -> Replay[dict[int, Start]]:
            return lambda hosted, seconds: starts(hosted, agent, task, episode, turns, seconds)

        points = await self._replayed(env, [replay(*question) for question in queries])
        return [of_episode or {} for of_episode in points]

    async def consult(self, env: str, queries: Sequence[tuple[Task, Episode]], ask: Callable[[TextEnv], T]) -> list[list[T]]:
        """Return what `ask` says of the environment before each turn of episodes, which are gone through again.

        It is called where the environment lives, so it must pickle. An episode's answers end with the last turn that can
        be reached.
        """

        def replay(task: Task, episode: Episode) -> Replay[list[T]]:
            return lambda hosted, seconds: consulted(hosted, task, episode, ask, seconds)

        answers = await self._replayed(env, [replay(*question) for question in queries])
        return [of_episode or [] for of_episode in answers]

    async def _replayed(self, env: str, replays: Sequence[Replay[T]]) -> list[T | None]:
        """Return what each replay returns, each in an environment of the pool; None where it fails."""
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
                except CONTAINED as error:
                    if ends_more(error):
                        raise
                    return None  # the rollout boundary: what failed now did not then, and leaves nothing to go on from
                finally:
                    source.waiting.append(hosted) if whole else hosted.close()
                return answer

        with interrupts_watched():
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(run(replay)) for replay in replays]
        return [task.result() for task in running]

    def close(self) -> None:
        """Free all environments and end all worker processes."""
        with interrupts_watched():
            for source in self._sources.values():
                source.close()
            for name, probe in self._probes.items():
                if name not in self._sources or self._sources[name].workers:  # else it was one of those
                    close(probe)
        if self._workers:
            self._workers.close()
        self._sources, self._probes, self._workers = {}, {}, None

    def probe(self, name: str) -> TextEnv:
        """Return an environment to ask for its tasks; where it does not block, it is the first to be played in."""
        return self._source(name).probe

    def _source(self, name: str) -> _Source:
        """Return an environment's source; the first of its environments says whether it blocks."""
        if name not in self._sources:
            make, probe = self._makers[name], self._probed(name)
            apart = [other for other in self._makers if self._is_apart(self._probed(other))]
            workers = self._shared_workers(apart) if name in apart else None
            kind = apart.index(name) if workers else 0
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

    def _is_apart(self, probe: TextEnv) -> bool:
        return probe.blocking or self.config.worker_backend != "process"

    def _shared_workers(self, names: Sequence[str]) -> Workers:
        """Return the workers, which all environments that have some share."""
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
        """Play one job after another."""
        if shared.lockstep:
            shared.lockstep.join()
        try:
            more = True
            while more:
                async with self._slots.held(shared.rank):
                    more = await self._serve_on(shared)
        finally:
            if shared.lockstep:
                shared.lockstep.leave()

    async def _serve_on(self, shared: _Round) -> bool:
        """Play one job after another, in one place; return whether some are left as another collection goes first."""
        for index, job in shared.queue:
            episode = await self._played(shared, job)
            if shared.file:
                _write(shared.file, episode)
            shared.done.append((index, episode))
            if shared.progress:
                shared.progress(episode)
            await asyncio.sleep(0)  # policies of the environment never wait: without this, Ctrl-C comes at the end
            if self._slots.wanted(shared.rank):
                return True
        return False

    async def _played(self, shared: _Round, job: Job) -> Episode:
        """Play a job, once more where it ends in a fault."""
        source, agent = self._source(job.env), shared.agents[job.env]
        env, whole = source.take(), False
        try:
            episode = await attempt(env, agent, job, source.step_seconds, shared.lockstep)
            whole = not episode.fault  # what faulted once is not trusted again
        finally:
            if whole:
                source.waiting.append(env)
            else:
                env.close()
        return episode if whole else await self._again(shared, source, agent, job)

    async def _again(self, shared: _Round, source: _Source, agent: Agent, job: Job) -> Episode:
        """Play a job again, out of reach of what happens to the others: they do not wait for it either."""
        if shared.lockstep:
            shared.lockstep.leave()
        try:
            async with source.workers.retries if source.workers else nullcontext():
                with contextlib.closing(source.apart()) as env:
                    return await attempt(env, agent, job, source.step_seconds, None)
        finally:
            if shared.lockstep:
                shared.lockstep.join()


def _write(file: IO[str], episode: Episode) -> None:
    try:
        file.write(episode.to_json() + "\n")
        file.flush()
    except OSError as error:
        error.filename = file.name  # the system does not say it of a full disk
        raise
