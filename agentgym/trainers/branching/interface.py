"""The branching stage: it chooses which episodes of a group begin inside another episode of the group, and where."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from agentgym.agents.spec import AGENTS
from agentgym.core.env import TextEnv
from agentgym.episodes.episode import Episode, Turn
from agentgym.errors import BadConfig
from agentgym.rollout.branched import Branch, GroupInProgress
from agentgym.trainers.run import trial
from agentgym.trainers.seam import Seam, Stage, Target, parameters

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig
    from agentgym.trainers.run.stages import FreshRun

BRANCHINGS = Seam(
    "branching",
    {
        "turns": "agentgym.trainers.branching.turns:turns",
        "arpo": "agentgym.trainers.branching.entropy:arpo",
        "aepo": "agentgym.trainers.branching.entropy:aepo",
        "treerl": "agentgym.trainers.branching.treerl:treerl",
        "pairs": "agentgym.trainers.branching.pairs:pairs",
    },
)


def branching(name: str) -> Callable[[Target], Target]:
    """Declare a function `(growth, *, options) -> [Branch, ...]` and give it a short name.

    The function returns the next branches of a group (see `GroupInProgress`). It is called again with the resulting
    episodes until the group is complete or it returns no branch; the rest of the group then starts at the beginning of
    the task. Branches beyond `growth.left` are ignored. It may take `step`, but neither `run` nor `state`, because
    steps may be played before earlier updates have finished.
    """
    return BRANCHINGS.declare(name)


def resolve_branching(config: "TrainConfig") -> Stage | None:
    """Return the branching stage of a run; None if the run does not branch.

    Raises:
        UnknownName: there is no such branching.
        BadConfig: an option is unknown, invalid or without effect, or the function has a parameter `state` or `run`.
    """
    if not config.branching:
        if config.branching_options:
            raise BadConfig(f"branching.{next(iter(config.branching_options))} has no effect without --branching NAME")
        if config.shared_turns != "once":
            raise BadConfig(f"shared_turns is {config.shared_turns!r} and has no effect without --branching NAME")
        return None
    stage = BRANCHINGS.resolve(config.branching, config.branching_options)
    for name in {"state", "run"} & parameters(stage.target).keys():
        raise BadConfig(
            f"branching {stage.name!r} has a parameter {name!r}; expected a function of `growth`, `step` and options"
        )
    return stage


def unbranchable(config: "TrainConfig", env: TextEnv, name: str) -> str:
    """Return the reason why episodes of an environment cannot continue from the middle; empty if they can."""
    plain: Any = env.unwrapped
    if config.agent not in AGENTS:
        return f"agent {config.agent!r} brings its own environment and plays it from the beginning"
    if len(plain.roles) > 1:
        return f"{name} has the roles {', '.join(plain.roles)}, and an episode is played on for one role only"
    if plain.declared.nondeterministic:
        return f"{name} cannot be repeated ({plain.declared.nondeterministic})"
    return ""


def check(run: "FreshRun") -> None:
    """Check that the episodes of a run can branch, and that branching works with the other stages.

    Raises:
        BadConfig: they cannot branch, or the combination is not supported.
    """
    config, stage = run.config, run.stages.branching
    if stage is None:
        return
    if config.generation != type(config).generation:
        raise BadConfig(
            f"branching {config.branching!r} with generation {config.generation!r}: a group that branches is played round "
            "by round, in the plain way; leave out one of the two"
        )
    for spec, env in run.envs:
        if reason := unbranchable(config, env, spec.name):
            raise BadConfig(f"branching {config.branching!r}: {reason}. Leave it out")
    if config.steps:
        trial.attempt(run, stage, lambda stage, _, group: _try(stage, group.episodes))
    for other in (run.stages.sampler, run.stages.selection) if config.steps else ():
        both = f"{other.kind} {other.name!r} with branching {config.branching!r}"
        if "expert" in other.attributes["requires"] and other.kind == "sampler":
            raise BadConfig(
                f"{both}: its episodes begin inside a demonstration, and branches are found by going through an episode "
                "from the beginning of its task; leave out one of the two"
            )
        if {"hint", "proposals"} & set(other.attributes["requires"]):
            raise BadConfig(f"{both}: this combination was never tested; remove one of the two")


def _try(stage: Stage, episodes: Sequence[Episode]) -> None:
    """Call the stage for the first round, and again after a round of two episodes.

    Raises:
        BadConfig: the stage does not return a list of branches.
    """
    for rounds, played in enumerate(([], list(episodes))):
        growth = GroupInProgress(4, 4 - len(played), played, played, rounds, np.random.default_rng(0))
        branches = stage(growth, step=0)
        if not isinstance(branches, Sequence) or not all(isinstance(b, Branch) for b in cast("Sequence[object]", branches)):
            raise BadConfig(f"branching {stage.name!r} returned {branches!r:.80}; expected a list of Branch")


def surprise(turn: Turn, tokens: int = 0) -> float:
    """Return the mean of -log p over a turn's first `tokens` sampled tokens (0: all): an estimate of entropy in nats."""
    logprobs = turn.logprobs[: tokens or None]
    return -sum(logprobs) / len(logprobs) if logprobs else 0.0
