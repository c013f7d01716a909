"""Rollouts: concurrent episodes, each of which steps as soon as its own reply is ready."""

import asyncio
import functools
from collections.abc import Callable, Collection, Coroutine, Generator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, ParamSpec, TypeVar

from agentgym import registry
from agentgym.agents.base import Agent, Conversation
from agentgym.core.env import Task, TextEnv
from agentgym.core.loops import own_loop
from agentgym.core.seeding import derive
from agentgym.episodes.episode import Episode, append_episodes
from agentgym.errors import BadConfig
from agentgym.rollout.hosted import LocalEnv
from agentgym.rollout.interrupts import interrupts_watched
from agentgym.rollout.loop_runner import result_of
from agentgym.rollout.play import Job, blank, play
from agentgym.rollout.pool import Factory, RolloutConfig, RolloutPool

P = ParamSpec("P")
T = TypeVar("T")


async def acollect(
    agent: Agent,
    env: str | Factory,
    *,
    tasks: int | Sequence[Task | str] = 1,
    attempts: int = 1,
    seed: int = 0,
    split: str | None = None,
    env_options: dict[str, object] | None = None,
    horizon: int | None = None,
    out: str | Path | None = None,
    skip: Collection[tuple[str, int]] = (),
    progress: Callable[[Episode], None] | None = None,
    config: RolloutConfig | None = None,
) -> list[Episode]:
    """Play `attempts` episodes of every task and return them in order.

    `env` is a registered id or a function that makes an environment. `tasks` is a number (that many tasks from the
    start of the split's fixed list), or a sequence of tasks or their ids. If a task occurs several times, each
    occurrence has its own seed and group. Each finished episode is appended to `out` at once, as a JSON line. `skip`
    contains (task id, attempt) pairs to leave out. An episode that ends in an infrastructure error is played again once.
    `split` and `horizon` default to the environment's. `config` sets the number of episodes in flight and where blocking
    environments run.

    Raises:
        BadConfig: an argument is invalid, or no episode could be played with this configuration.
        EngineDead: the engine is permanently unavailable.
    """
    if attempts < 1:
        raise BadConfig(f"attempts is {attempts}; expected at least 1")
    make, name = _factory(env, {**(env_options or {}), **({"split": split} if split else {})})
    config = config or RolloutConfig()
    episodes = max(1, attempts * (tasks if isinstance(tasks, int) else len(tasks)))
    config = replace(config, workers=min(config.worker_count(), episodes))  # no worker starts that plays nothing
    with closing(RolloutPool({name: make}, config)) as pool:
        probe = pool.probe(name)
        played = (
            probe.tasks(tasks) if isinstance(tasks, int) else [probe.find(t) if isinstance(t, str) else t for t in tasks]
        )
        jobs = [job for job in jobs_of(name, played, attempts, seed, horizon) if (job.task.id, job.attempt) not in skip]
        with _appended(out) if out else nullcontext() as file:
            return await pool.collect(agent, jobs, file=file, progress=progress)


def blocking(function: Callable[P, Coroutine[object, object, T]]) -> Callable[P, T]:
    """Return a blocking version of a coroutine function with the same signature; it also works in notebooks."""

    @functools.wraps(function)
    def run(*arguments: P.args, **options: P.kwargs) -> T:
        return finished(function(*arguments, **options))

    return run


def jobs_of(
    env: str,
    tasks: Sequence[Task],
    attempts: int,
    seed: int,
    horizon: int | None = None,
    prefix: str = "",
    repeats: Sequence[int] = (),
) -> list[Job]:
    """Return one job per task and attempt, ordered by task, then attempt.

    `prefix` begins every group id. `repeats` is, for each task, the number of its earlier occurrences (default: counted
    within `tasks`).
    """
    ids = [task.id for task in tasks]
    again = repeats or [ids[:place].count(name) if len(set(ids)) < len(ids) else 0 for place, name in enumerate(ids)]
    return [
        Job(task, n, derive("again", seed, k) if k else seed, group_of(prefix, task, k), env, horizon)
        for task, k in zip(tasks, again, strict=True)
        for n in range(attempts)
    ]


def group_of(prefix: str, task: Task, again: int) -> str:
    """Return the group id for a task's attempts; `again` is the number of the task's earlier occurrences."""
    return f"{prefix}{task.id}~{again}" if again else prefix + task.id


def play_out(env: TextEnv, agent: Agent, conversation: Conversation | None = None, *, seed: int = 0) -> Episode:
    """Play an environment from its current state to the end of its episode, for example from a branch point.

    `conversation` is the agent's conversation so far; None starts a new one.
    """
    job = Job(env.task, 0, seed, env.task.id, env.spec.id if env.spec else type(env).__name__)
    episode = blank(job, env.limit)
    talks = {} if conversation is None else {env.role: conversation}
    finished(play(LocalEnv(env), agent, talks, job, episode, (env.observation, env.info()), 60.0, None))
    return episode


@contextmanager
def runner() -> Generator[asyncio.Runner]:
    """Provide an event loop in which a second Ctrl-C is not reported as the failure of the task that it interrupts."""

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        if not isinstance(context.get("exception"), KeyboardInterrupt):
            loop.default_exception_handler(context)

    with asyncio.Runner() as asyncio_runner:
        asyncio_runner.get_loop().set_exception_handler(report)
        yield asyncio_runner


@own_loop()
def finished(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine to completion and return its result, even in a notebook, where an event loop is already running."""

    async def watched() -> T:
        with interrupts_watched():  # in the loop, after the runner has set its own Ctrl-C handler
            return await coroutine

    with runner() as loop:
        return result_of(loop, watched())


collect = blocking(acollect)
"""Blocking version of `acollect`, for callers without an event loop."""


@contextmanager
def _appended(out: str | Path) -> Generator[IO[str]]:
    file = append_episodes(out)
    try:
        yield file
    finally:
        with suppress(OSError):  # every line was flushed; a failure to do so is already being raised
            file.close()


def _factory(env: str | Factory, options: dict[str, object]) -> tuple[Factory, str]:
    if isinstance(env, str):
        return registry.Maker(env, options), registry.full_id(env)
    if options:
        raise BadConfig(
            f"split and env_options ({', '.join(options)}) go with a registered id, not with a function that makes an "
            "environment"
        )
    return env, getattr(env, "__name__", type(env).__name__)
