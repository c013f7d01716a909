"""The branching stage: which episodes of a group begin inside another one of it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from agentgym.agents.spec import AGENTS
from agentgym.core.env import TextEnv
from agentgym.episodes.episode import Episode, Turn
from agentgym.errors import BadConfig
from agentgym.rollout.branched import Branch, Growth
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

    It says what is played next of a group (see `Growth`), and is called again with what that brought, until the group is
    complete or it asks for nothing more; what is left of the group is then played from the beginning of the task. What it
    asks for beyond `growth.left` is not played. `step` is handed in; it has no `state`, since steps are played ahead.
    """
    return BRANCHINGS.declare(name)


def resolve_branching(config: "TrainConfig") -> Stage | None:
    """Return the branching stage of a run; None where no episode branches off."""
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
    """Return why no episode can be played on from its middle in an environment; empty where it can."""
    plain: Any = env.unwrapped
    if config.agent not in AGENTS:
        return f"agent {config.agent!r} plays in an environment of its own, from its beginning"
    if len(plain.roles) > 1:
        return f"{name} has the roles {', '.join(plain.roles)}, and an episode is played on for one role only"
    if plain.declared.nondeterministic:
        return f"{name} cannot be repeated ({plain.declared.nondeterministic})"
    return ""


def check(run: "FreshRun") -> None:
    """Raise BadConfig where episodes of a run cannot branch off, or a stage goes with no branches."""
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
    """Ask what is played first, and what after a round of two episodes; BadConfig for what is no list of branches."""
    for rounds, played in enumerate(([], list(episodes))):
        growth = Growth(4, 4 - len(played), played, played, rounds, np.random.default_rng(0))
        asked = stage(growth, step=0)
        if not isinstance(asked, Sequence) or not all(isinstance(one, Branch) for one in cast("Sequence[object]", asked)):
            raise BadConfig(f"branching {stage.name!r} returned {asked!r:.80}; expected a list of Branch")


def surprise(turn: Turn, tokens: int = 0) -> float:
    """Return the mean of -log p over a turn's sampled tokens, or the first so many: an estimate of their entropy in nats."""
    logprobs = turn.logprobs[: tokens or None]
    return -sum(logprobs) / len(logprobs) if logprobs else 0.0
