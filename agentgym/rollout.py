"""The only place where worlds meet agents: many episodes at once, each stepping as soon as its own reply is ready."""

import asyncio
import time
import traceback
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from agentgym import registry
from agentgym.actions import Tool
from agentgym.agents.base import Agent, Conversation
from agentgym.core import Task, TextEnv
from agentgym.episode import FAULTS, Episode, append_episodes
from agentgym.errors import BadConfig, EngineDead, Fault
from agentgym.faults import Asked, Repeating, taken
from agentgym.seeding import derive
from agentgym.workers import LocalWorld, Workers, World

Factory = Callable[[], TextEnv]
ENDS = {"context": "context", "silent": "failure", "refused": "failure"}
"""Why generation ended, and the reason that is of an episode which cannot go on after it."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt at one task, with everything that decides its course."""

    task: Task
    attempt: int
    seed: int
    group_id: str

    @property
    def env_seed(self) -> int:
        """The seed of the world's chance: a function of run seed, task and attempt."""
        return derive("world", self.seed, self.task.id, self.attempt)

    def turn_seed(self, turn: int) -> int:
        """The seed of one reply."""
        return derive("reply", self.seed, self.task.id, self.attempt, turn)


@dataclass(slots=True)
class _Run:
    """What the episodes of one `collect` share."""

    agent: Agent
    env_id: str
    make: Factory
    horizon: int | None
    step_seconds: float
    progress: Callable[[Episode], None] | None
    gate: "_Gate | None"
    workers: Workers | None
    timings: dict[str, float]
    file: IO[str] | None = None
    done: list[tuple[int, Episode]] = field(default_factory=list[tuple[int, Episode]])

    def fresh(self) -> World:
        """Return a fresh environment: in this process, or in one of the workers."""
        return self.workers.world() if self.workers else LocalWorld(self.make(), self.timings)

    def alone(self) -> AbstractAsyncContextManager[World]:
        """Give an environment to judge a fault in, out of reach of all others."""
        return self.workers.alone() if self.workers else nullcontext(LocalWorld(self.make(), self.timings))


def collect(agent: Agent, env: str | Factory, **options: Any) -> list[Episode]:
    """Play episodes and return them in the order of tasks and attempts; see `acollect` for the options."""
    return _finished(acollect(agent, env, **options))


async def acollect(
    agent: Agent,
    env: str | Factory,
    *,
    split: str | None = None,
    tasks: int | Sequence[Task | str] = 1,
    attempts: int = 1,
    seed: int = 0,
    concurrency: int = 64,
    horizon: int | None = None,
    out: str | Path | None = None,
    env_options: dict[str, Any] | None = None,
    group_prefix: str = "",
    skip: Collection[tuple[str, int]] = (),
    progress: Callable[[Episode], None] | None = None,
    step_seconds: float = 60.0,
    workers: int = 2,
    lockstep: bool = False,
    timings: dict[str, float] | None = None,
    repeats: Sequence[int] = (),
) -> list[Episode]:
    """Play `attempts` episodes of every task, `concurrency` at a time, and return them in order.

    `env` is a registered id or a function that makes a world; `tasks` a number (the first so many of the split's
    fixed list), or tasks or their ids. Each finished episode is appended to `out` as a JSON line at once; `skip` holds
    (task id, attempt) pairs that need not be played. A fault is retried once; BadConfig and EngineDead, which no episode
    would escape, end the rollout. Worlds that block run in `workers`
    processes. `lockstep` makes all episodes wait for one another at every turn: for comparison only.
    `timings["world"]` grows by the seconds spent in worlds of this process. A task that comes again is played with other
    seeds, in a group of its own; `repeats` says of each task how often it came before, where that was elsewhere.
    """
    if concurrency < 1 or attempts < 1:
        raise BadConfig(f"concurrency is {concurrency} and attempts is {attempts}; both must be at least 1")
    make, env_id = _factory(env, {**(env_options or {}), **({"split": split} if split else {})})
    probe = make()
    jobs = _jobs(probe, tasks, attempts, seed, group_prefix, skip, repeats)
    gate, pool = _Gate() if lockstep else None, Workers(make, workers) if probe.blocking else None
    step_seconds = max(step_seconds, probe.step_seconds)
    run = _Run(agent, env_id, make, horizon, step_seconds, progress, gate, pool, {} if timings is None else timings)
    await _play_all(run, jobs, probe, concurrency, out)
    return [episode for _, episode in sorted(run.done, key=lambda pair: pair[0])]


def play_out(env: TextEnv, agent: Agent, conversation: Conversation | None = None, *, seed: int = 0) -> Episode:
    """Play a world on from where it stands to the end of its episode: one branch from a branch point."""
    job = Job(env.task, 0, seed, env.task.id)
    episode = _episode(job, env.spec.id if env.spec else type(env).__name__, env.limit)
    talks = {} if conversation is None else {env.role: conversation}
    world = LocalWorld(env)
    _finished(_play(world, agent, talks, job, episode, env.observation, env.info(), 60.0, None))
    return episode


@contextmanager
def runner() -> Generator[asyncio.Runner]:
    """Give an event loop in which a second Ctrl-C, which may strike any task, is not reported as that task's failure."""

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), KeyboardInterrupt):
            loop.default_exception_handler(context)

    with asyncio.Runner() as made:
        made.get_loop().set_exception_handler(report)
        yield made


def _finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also from a notebook, whose own event loop is running: there in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        return _in_thread(coroutine)
    with runner() as loop:
        return loop.run(coroutine)


def _in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def _jobs(
    probe: TextEnv,
    tasks: int | Sequence[Task | str],
    attempts: int,
    seed: int,
    group_prefix: str,
    skip: Collection[tuple[str, int]],
    repeats: Sequence[int],
) -> list[tuple[int, Job]]:
    """Return what is to be played, numbered in the order of tasks and attempts."""
    chosen = probe.tasks(tasks) if isinstance(tasks, int) else [probe.find(t) if isinstance(t, str) else t for t in tasks]
    ids = [task.id for task in chosen]
    repeats = repeats or [ids[:place].count(name) if len(set(ids)) < len(ids) else 0 for place, name in enumerate(ids)]
    triples = [(task, again, n) for task, again in zip(chosen, repeats, strict=True) for n in range(attempts)]
    return [
        (index, Job(task, n, derive("again", seed, again) if again else seed, group_of(group_prefix, task, again)))
        for index, (task, again, n) in enumerate(triples)
        if (task.id, n) not in skip
    ]


def group_of(prefix: str, task: Task, again: int) -> str:
    """Return the group of a task's attempts: one of its own each time that the task comes."""
    return f"{prefix}{task.id}~{again}" if again else prefix + task.id


async def _play_all(
    run: _Run, jobs: list[tuple[int, Job]], probe: TextEnv, concurrency: int, out: str | Path | None
) -> None:
    """Play the jobs, so many at a time, and free everything, however it ends."""
    queue = iter(jobs)
    worlds: list[World | None] = [None] * min(concurrency, len(jobs))
    if run.workers or not jobs:
        probe.close()
    else:
        worlds[0] = LocalWorld(probe, run.timings)
    run.file = append_episodes(out) if out else None
    try:
        async with asyncio.TaskGroup() as group:
            for world in worlds:
                group.create_task(_serve(run, queue, world))
    except BaseExceptionGroup as failure:
        raise failure.exceptions[0] from failure
    finally:
        if run.workers:
            run.workers.close()
        if run.file:
            with suppress(OSError):  # every line was flushed; where one could not be, that is on its way up already
                run.file.close()


async def _serve(run: _Run, queue: Iterator[tuple[int, Job]], world: World | None) -> None:
    """Play one job after another in one world of one's own."""
    if run.gate:
        run.gate.join()
    env = Repeating(run.fresh, run.alone, world)
    try:
        for index, job in queue:
            episode = await _attempt(run, env, job, run.gate)
            if episode.fault:  # what faulted once is not trusted again
                env.close()
                episode = await _retry(run, job)
            if run.file:
                _write(run.file, episode)
            run.done.append((index, episode))
            if run.progress:
                run.progress(episode)
            await asyncio.sleep(0)  # players never wait for anything: without this, Ctrl-C would be seen only at the end
    finally:
        if run.gate:
            run.gate.leave()
        env.close()


def _write(file: IO[str], episode: Episode) -> None:
    try:
        file.write(episode.to_json() + "\n")
        file.flush()
    except OSError as error:
        error.filename = file.name  # the system does not say it of a full disk
        raise


async def _retry(run: _Run, job: Job) -> Episode:
    """Play a job again in a fresh world, out of reach of what happens to the others: they do not wait for it either."""
    if run.gate:
        run.gate.leave()
    try:
        async with run.workers.retries if run.workers else nullcontext():
            env = Repeating(run.workers.single if run.workers else run.fresh, run.alone)
            try:
                return await _attempt(run, env, job, None)
            finally:
                env.close()
    finally:
        if run.gate:
            run.gate.join()


async def _attempt(run: _Run, world: World, job: Job, gate: "_Gate | None") -> Episode:
    """Play one episode; whatever fails on the way becomes its reason."""
    episode = _episode(job, run.env_id, run.horizon or 0)
    try:
        options: dict[str, Any] = {"task": job.task} | ({"horizon": run.horizon} if run.horizon else {})
        observation, info = await world.reset(job.env_seed, options, run.step_seconds)
        episode.horizon = world.limit
        await _play(world, run.agent, {}, job, episode, observation, info, run.step_seconds, gate)
    except (BadConfig, EngineDead):  # not this episode's: no other would fare better
        raise
    except Fault as fault:
        episode.reason, episode.error, episode.success = fault.reason, str(fault), None
    except Exception:  # the rollout boundary: a bug in a world or an agent ends that episode alone
        episode.reason, episode.error, episode.success = "crash", traceback.format_exc(limit=8), None
    finally:
        if run.agent.engine is not None:
            for role in dict.fromkeys(turn.role for turn in episode.turns):
                run.agent.engine.abort(_session(job, role))
    return episode


async def _play(
    world: World,
    agent: Agent,
    talks: dict[str, Conversation],
    job: Job,
    episode: Episode,
    observation: str,
    info: dict[str, Any],
    step_seconds: float,
    gate: "_Gate | None",
) -> None:
    over, opening = False, partial(_opening, agent, job.task, world.tools, observation, info)
    while not over:
        started = time.perf_counter()
        role = world.role
        talk = talks.get(role) or talks.setdefault(role, agent.begin(job.task, world.tools))
        seed, session = job.turn_seed(len(episode.turns)), _session(job, role)
        asked = Asked(observation, info, world.env, seed, session)
        turn, talks[role] = await taken(agent, talk, asked, opening, begun=bool(episode.turns))
        if turn.finish in ENDS:
            episode.reason, episode.success, episode.error = ENDS[turn.finish], False, turn.error
            break
        if gate:
            await gate.wait()
        turn.observation, turn.state_key, turn.role = observation, info["state_key"], role
        turn.admissible = None if info["admissible"] is None else len(info["admissible"])
        observation, turn.reward, terminated, truncated, info = await world.step(turn.action, step_seconds)
        turn.rewards, turn.valid, turn.error = info["rewards"], info["valid"], info["error"]
        turn.seconds = time.perf_counter() - started
        episode.add(turn)
        over = terminated or truncated
        if over:
            episode.reason, episode.success = info["reason"], info["success"]
            episode.error = info["error"] if info["reason"] in (*FAULTS, "failure") else None
        if gate:
            await gate.wait()
    _finish(episode, observation, info, world)


def _opening(agent: Agent, task: Task, tools: Mapping[str, Tool], observation: str, info: Mapping[str, Any]) -> Any:
    """Return the first prompt of an episode: tokens, or messages."""
    talk: Any = agent.begin(task, tools)
    return talk.prompt(observation, info)


def _session(job: Job, role: str) -> str:
    return f"{job.group_id}#{job.attempt}#{role}"


def _finish(episode: Episode, observation: str, info: dict[str, Any], world: World) -> None:
    episode.final_observation, episode.final_state_key = observation, info["state_key"]
    episode.metrics = info["metrics"]
    episode.final_rewards = dict(world.totals)
    episode.reward = sum((turn.reward for turn in episode.turns), 0.0)


def _episode(job: Job, env_id: str, horizon: int) -> Episode:
    task = job.task
    labels = {**({"type": str(task.data["type"])} if "type" in task.data else {}), "difficulty": str(task.difficulty)}
    return Episode(
        env=env_id,
        task_id=task.id,
        group_id=job.group_id,
        seed=job.env_seed,
        attempt=job.attempt,
        instruction=task.instruction,
        split=task.split,
        labels=labels,
        horizon=horizon,
    )


def _factory(env: str | Factory, options: dict[str, Any]) -> tuple[Factory, str]:
    if isinstance(env, str):
        return registry.Maker(env, options), registry.full_id(env)
    if options:
        raise BadConfig(
            f"split and env_options ({', '.join(options)}) go with a registered id, not with a function that makes worlds"
        )
    return env, getattr(env, "__name__", type(env).__name__)


class _Gate:
    """Makes all episodes wait for the slowest at every turn: the way lockstep trainers do it."""

    def __init__(self) -> None:
        self.members = 0
        self.waiting: list[asyncio.Future[None]] = []

    def join(self) -> None:
        self.members += 1

    def leave(self) -> None:
        self.members -= 1
        self._open_if_full()

    async def wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        self._open_if_full()
        await future

    def _open_if_full(self) -> None:
        if self.waiting and len(self.waiting) >= self.members:
            waiting, self.waiting = self.waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
