"""Requirements of runs with hints: environments that have hints and agents that can show them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentgym.agents.table import AGENTS
from agentgym.core.env import TextEnv
from agentgym.errors import BadConfig

if TYPE_CHECKING:
    from agentgym.trainers.config.settings import EnvSpec
    from agentgym.trainers.config.train_config import TrainConfig

TRIED = 3
"""Number of tasks to try for a hint before a run is refused."""


def check(config: "TrainConfig", what: str, level: float, envs: "Sequence[tuple[EnvSpec, TextEnv]]") -> None:
    """Check that the environments have hints at this level and that the agent can show them; `what` names the stage.

    `level`: share of a task's solution that a hint shows, 0 to 1.

    Raises:
        BadConfig: an environment has no hint, or the agent cannot show hints.
    """
    if config.agent not in AGENTS:
        raise BadConfig(f"{what} plays with hints, and agent {config.agent!r} writes its own prompts: use agent 'chat'")
    for spec, env in envs:
        reason = _lacking(env, level)
        if reason:
            raise BadConfig(f"{what} plays with hints, and {spec.name} gives none: {reason}")


def _lacking(env: TextEnv, level: float) -> str:
    """Return the reason why an environment has no hint, or an empty string if one of its first tasks has one."""
    plain: Any = env.unwrapped
    if len(plain.roles) > 1:
        return f"it has the roles {', '.join(plain.roles)}, and a solution is one role's"
    reason = ""
    for seed in range(TRIED):
        env.reset(seed=seed)
        try:
            if env.hint(level):
                return ""
            reason = f"at level {level:g} it says nothing (the first share of a short solution): raise the level"
        except NotImplementedError as error:
            reason = f"a hint comes from an oracle or an expert, and {error}. Define one of them, or hint(level)"
    return reason
