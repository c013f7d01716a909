"""Select tasks that none of the environment's own shortcut policies solves."""

from collections.abc import Iterator

from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig
from agentgym.rollout.session import Session

SPARE = 4
"""Number of tasks tried for each exported task; if shortcut policies solve too many of these, the export is refused."""


def guessed(env: TextEnv, task: Task, seed: int) -> str | None:
    """Return the name of the first shortcut policy that solves the task; None if no policy does.

    Each policy of `env.shortcuts()` plays one episode of the task with `seed`.
    """
    for name in env.shortcuts():
        session = Session(env)
        observations = [session.reset(task, seed=seed)]
        policy = env.shortcuts()[name]
        while not session.done:
            observations.append(session.act(policy(observations)))
        if session.success:
            return name
    return None


def unguessed(env: TextEnv, number: int, seed: int) -> Iterator[Task]:
    """Yield the first `number` tasks of the environment's list that no shortcut policy solves.

    Raises:
        BadConfig: the environment names no shortcut policies, or they solve too many tasks.
    """
    if not env.shortcuts():
        raise BadConfig(
            f"{type(env).__name__} names no shortcut policies, so there is nothing to skip; leave out --skip-guessed"
        )
    found = 0
    for task in env.up_to(number * SPARE):
        if guessed(env, task, seed) is None:
            found += 1
            yield task
            if found == number:
                return
    raise BadConfig(
        f"{found} tasks of {type(env).__name__} are not solved by a shortcut policy; {number} were asked for. Write fewer "
        "with --tasks, or leave out --skip-guessed"
    )
