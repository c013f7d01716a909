"""One episode on the caller's event loop, for trainers and harnesses that run their own loop."""

from contextlib import closing
from typing import Any

from agentgym import registry
from agentgym.agents.base import Agent
from agentgym.core.env import TextEnv
from agentgym.core.seeding import generator
from agentgym.core.tasks import Task
from agentgym.core.wrapper import forwarded
from agentgym.episodes.episode import Episode
from agentgym.rollout.caller_env import host_caller_env
from agentgym.rollout.play import Job
from agentgym.rollout.play import attempt as play_attempt
from agentgym.rollout.pool import RolloutConfig, RolloutPool


async def play(
    env: TextEnv | str,
    agent: Agent,
    *,
    task: Task | str | int | None = None,
    seed: int = 0,
    attempt: int = 0,
    group_id: str | None = None,
    horizon: int | None = None,
    step_seconds: float = 60.0,
) -> Episode:
    """Play one episode on the running event loop and return it. `collect` gives an equal episode for equal arguments.

    `task` is a Task, its id, or its number in the environment's split; None draws a task by `seed`. Attempts to be
    compared share `group_id` (default: the task's id), `seed` and `task`. If `env` is an environment, its steps run in
    the caller's thread, so a step that waits blocks the loop; the environment stays open. If `env` is an id, the
    environment is made for this call, in a worker process if it blocks, and closed afterwards. Failures are recorded in
    the episode (`reason`, `error`).

    Raises:
        BadConfig: no episode could be played with this configuration.
        EngineDead: the engine is permanently unavailable.
    """
    if isinstance(env, str):
        return await _of_id(env, agent, task, seed, attempt, group_id, horizon, step_seconds)
    env = forwarded(env)
    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    job = _job(env, name, task, seed, attempt, group_id, horizon)
    with closing(host_caller_env(env)) as hosted:
        return await play_attempt(hosted, agent, job, max(step_seconds, env.step_seconds), None)


async def _of_id(id: str, agent: Agent, *how: Any) -> Episode:
    *what, step_seconds = how
    name, config = registry.full_id(id), RolloutConfig(concurrency=1, workers=1, step_seconds=step_seconds)
    with closing(RolloutPool({name: registry.Maker(id, {})}, config)) as pool:
        return (await pool.collect(agent, [_job(pool.probe(name), name, *what)]))[0]


def _job(
    env: TextEnv,
    name: str,
    task: Task | str | int | None,
    seed: int,
    attempt: int,
    group_id: str | None,
    horizon: int | None,
) -> Job:
    named = env.named_task(task, generator("reset", seed))
    return Job(named, attempt, seed, named.id if group_id is None else group_id, name, horizon)
