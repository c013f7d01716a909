"""Choose tasks that none of an environment's own shortcut policies solves."""

from collections.abc import Iterator

from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig
from agentgym.rollout.session import Session

SPARE = 4
"""Tasks looked at for each one wanted; an environment that is guessed more often is refused."""


def guessed(env: TextEnv, task: Task, seed: int) -> str | None:
    """Return the name of a shortcut policy that solves the task, or None.

    The policies are those of `env.shortcuts()`, each played from its own reset with that seed.
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
    """Yield the first tasks of the environment's list that no shortcut policy solves.

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
