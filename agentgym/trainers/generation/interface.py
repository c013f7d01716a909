"""The generation stage: how the drawn episodes are played, if not each by itself."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from agentgym.agents.base import Agent
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.rollout.play import Job
from agentgym.trainers.learners.interface import check_embeds
from agentgym.trainers.run import requirements
from agentgym.trainers.seam import Seam, Stateful, Target, required, unwritten

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig
    from agentgym.trainers.run.assemble import Run
    from agentgym.trainers.run.stages import FreshRun

GENERATIONS = Seam(
    "generation",
    {
        "plain": "agentgym.trainers.generation.interface:Generation",
        "spec": "agentgym.trainers.generation.spec:Spec",
        "prune": "agentgym.trainers.generation.prune:Prune",
    },
    {"requires": (), "check": None, "embeds": False},
)
Check = Callable[["TrainConfig"], None]
"""Raises BadConfig where a run cannot be played so."""


class Play(Protocol):
    """Plays jobs in the environments of the run, and returns their episodes in order."""

    def __call__(self, agents: Mapping[str, Agent], jobs: Sequence[Job]) -> Awaitable[list[Episode]]:
        """`agents`: by environment."""
        ...


def generation(
    name: str, requires: Sequence[str] = (), check: Check | None = None, *, embeds: bool = False
) -> Callable[[Target], Target]:
    """Register a class that plays the drawn episodes (see `Generation`) by name; keyword-only parameters are options.

    `requires`: `repeats`, where it does something only with tasks that come again. `check` is called with the run's settings
    before anything is loaded. `embeds`: it asks the learner for hidden states.
    """
    return GENERATIONS.declare(name, requires=required(requires), check=check, embeds=embeds)


@generation("plain")
class Generation(Stateful):
    """Plays every episode by itself, to its end; a subclass may override `play` and `update`.

    Made as `CLASS(run, **options)`, one in each process. Evaluations are never played by it.
    """

    def __init__(self, run: "Run | None" = None) -> None:
        self.run: Any = run

    async def play(self, agents: Mapping[str, Agent], jobs: Sequence[Job], play: Play, step: int) -> list[Episode]:
        """Return this process's episodes of a step; one that is left out is neither trained on nor counted."""
        return await play(agents, jobs)

    def update(self, episodes: Sequence[Episode], step: int) -> Mapping[str, float]:
        """Receive this process's episodes of a step; return numbers to log, which are added up over the processes.

        All processes call it once a step, also without episodes.
        """
        return {}


def check(run: "FreshRun") -> None:
    """Raise BadConfig where a run cannot be played by its generation."""
    stage = run.stages.generation
    if lacks := unwritten(stage.target, Generation):
        raise BadConfig(f"generation {stage.name!r} lacks {lacks}; let its class inherit from agentgym.trainers.Generation")
    if stage.attributes["embeds"]:
        check_embeds(run.config, f"{stage.kind} {stage.name!r}")
    if stage.attributes["check"] and run.config.steps:
        stage.attributes["check"](run.config)
    requirements.check(stage, run)
