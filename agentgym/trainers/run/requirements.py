"""Checks of the requirements that samplers, selections and generations declare (`seam.REQUIRED`), before loading."""

from typing import TYPE_CHECKING, Any

from agentgym.agents.table import AGENTS
from agentgym.core.env import TextEnv
from agentgym.errors import BadConfig
from agentgym.trainers.run import hints
from agentgym.trainers.seam import Stage

if TYPE_CHECKING:
    from agentgym.trainers.run.stages import FreshRun


def check(stage: Stage, run: "FreshRun") -> None:
    """Check that a run meets all requirements of a stage.

    Raises:
        BadConfig: the run does not meet a requirement.
    """
    what, requires = f"{stage.kind} {stage.name!r}", stage.attributes["requires"]
    if not run.config.steps:
        return
    if "expert" in requires:
        _check_demonstrable(run, what)
    if "replays" in requires:
        _check_repeatable(run, what)
    if "hint" in requires:
        hints.check(run.config, what, stage.option("level", 1.0), run.envs)
    if "repeats" in requires:
        _check_repeats(run, what)


def _check_repeats(run: "FreshRun", what: str) -> None:
    """Check that the run's tasks repeat, as the stage `what` needs.

    Raises:
        BadConfig: tasks do not repeat.
    """
    if not run.tasks_repeat:
        raise BadConfig(
            f"{what} has no effect: it needs tasks that repeat, and the generated tasks of "
            f"{', '.join(source.name for source in run.sources)} never do. Set --env.pool N to train on N of them"
        )


def _check_repeatable(run: "FreshRun", what: str) -> None:
    """Check that every environment allows a stage to replay episodes.

    Raises:
        BadConfig: an environment does not allow replay.
    """
    for spec, env in run.envs:
        plain: Any = env.unwrapped
        reason = ""
        if len(plain.roles) > 1:
            reason = f"has the roles {', '.join(plain.roles)}, and an episode is gone through again for one role only"
        elif plain.declared.nondeterministic:
            reason = f"cannot be repeated ({plain.declared.nondeterministic})"
        if reason:
            raise BadConfig(f"{what} goes through episodes again, and {spec.name} {reason}. Use another selection")


def _check_demonstrable(run: "FreshRun", what: str) -> None:
    """Check that the run's agent and environments allow a stage to play demonstrations.

    Raises:
        BadConfig: the agent or an environment does not allow demonstrations.
    """
    config = run.config
    for agent in dict.fromkeys((config.agent, *(str(env.agent.get("agent", config.agent)) for env in config.envs))):
        if agent not in AGENTS or not AGENTS[agent].load().demonstrable:
            raise BadConfig(f"{what} plays demonstrations, and no expert can play for agent {agent!r}: use agent 'chat'")
    for _, env in run.envs:
        check_expert(env, f"{what}, which plays demonstrations,", "Use another task sampler or selection")


def check_expert(env: TextEnv, asks: str, instead: str) -> None:
    """Check that an environment has an expert; `asks` names the feature that needs it, `instead` an alternative.

    Raises:
        BadConfig: the environment has no expert.
    """
    plain: Any = env.unwrapped
    reason = f"{env.spec.id if env.spec else type(plain).__name__} has none"
    if plain.expert.__func__ is not TextEnv.expert:
        env.reset(seed=0)
        try:
            next(iter(env.expert()), None)
            return
        except NotImplementedError as error:
            reason += f" with these options ({error})"
    raise BadConfig(f"{asks} needs an environment with an expert, and {reason}. {instead}")
