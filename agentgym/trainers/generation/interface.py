"""The generation stage: it plays the drawn episodes."""

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
        "opponents": "agentgym.trainers.generation.opponents:Opponents",
        "stored": "agentgym.trainers.generation.stored:Stored",
    },
    {"requires": (), "check": None, "embeds": False},
)
Check = Callable[["TrainConfig"], None]
"""Check of a run's settings; raises BadConfig if they do not allow the method."""


class Play(Protocol):
    """Plays jobs in the environments of the run and returns their episodes in order."""

    def __call__(self, agents: Mapping[str, Agent], jobs: Sequence[Job]) -> Awaitable[list[Episode]]:
        """Play jobs; `agents` maps environment names to agents."""
        ...


def generation(
    name: str, requires: Sequence[str] = (), check: Check | None = None, *, embeds: bool = False
) -> Callable[[Target], Target]:
    """Register a class that plays the drawn episodes (see `Generation`); keyword-only parameters are options.

    `requires`: `repeats` if the method has an effect only when tasks repeat. `check` is called with the run's settings
    before anything is loaded. `embeds`: the method asks the learner for hidden states.
    """
    return GENERATIONS.declare(name, requires=required(requires), check=check, embeds=embeds)


@generation("plain")
class Generation(Stateful):
    """Plays every episode independently to its end; subclasses may override `play` and `update`.

    Made as `CLASS(run, **options)`, once per process. Evaluations never use it.
    """

    def __init__(self, run: "Run | None" = None) -> None:
        self.run: Any = run

    async def play(self, agents: Mapping[str, Agent], jobs: Sequence[Job], play: Play, step: int) -> list[Episode]:
        """Return this process's episodes of a step; episodes missing from the list are neither trained on nor counted."""
        return await play(agents, jobs)

    def update(self, episodes: Sequence[Episode], step: int) -> Mapping[str, float]:
        """Receive this process's episodes of a step and return numbers to log, which are summed over the processes.

        All processes call it once a step, even without episodes.
        """
        return {}


def check(run: "FreshRun") -> None:
    """Check that the generation can play this run.

    Raises:
        BadConfig: the generation class is incomplete, its check fails, the run lacks one of its requirements, or it needs
            hidden states and the learner has none.
    """
    stage = run.stages.generation
    if lacks := unwritten(stage.target, Generation):
        raise BadConfig(f"generation {stage.name!r} lacks {lacks}; let its class inherit from agentgym.trainers.Generation")
    if stage.attributes["embeds"]:
        check_embeds(run.config, f"{stage.kind} {stage.name!r}")
    if stage.attributes["check"] and run.config.steps:
        stage.attributes["check"](run.config)
    requirements.check(stage, run)
