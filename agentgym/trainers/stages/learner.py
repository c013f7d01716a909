"""Choosing what holds the weights: the protocol, the table of names and the decorator."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from agentgym.episodes.episode import Episode, Group
from agentgym.trainers.segments import Segment
from agentgym.trainers.settings import REMOTE, LearnerConfig
from agentgym.trainers.stages.credit import Credit
from agentgym.trainers.stages.needs import Values
from agentgym.trainers.stages.seams import Seam, Stage, Target

LEARNERS = Seam(
    "learner",
    {"local": "agentgym.trainers.sharded:local", REMOTE: "agentgym.trainers.remote.learner:RemoteLearner"},
)


class Learner(Protocol):
    """The policy that is trained. Of several processes each has one, and all call the same methods in the same order."""

    tokenizer: Any
    engine: Any
    """What samples from the policy."""

    def about(self) -> dict[str, Any]:
        """Return what a reader of the log wants to know: parameters, how many are trained, precision, attention."""
        ...

    def begin(self, phase: str, folder: Path) -> None:
        """Prepare for `sft` or `rl`; `folder` is the run's, for what has to be remembered of the policy at that point."""
        ...

    def imitate(self, episodes: Sequence[Episode], lr: float) -> dict[str, float]:
        """Update the policy on demonstrations and return metrics over all processes."""
        ...

    def update(self, groups: Sequence[Group], credit: Credit, loss: Stage, step: int) -> dict[str, float]:
        """Update the policy on groups of episodes and return metrics over all processes."""
        ...

    def score(self, rows: list[Segment]) -> Values:
        """Return `logprobs` and `entropy` of the trained tokens under the weights as they are, [tokens] per row."""
        ...

    async def publish(self, version: int) -> None:
        """Make the engine sample from the present weights, as policy version `version`."""
        ...

    def save(self, folder: Path) -> None:
        """Write the policy as a model folder."""
        ...

    def state_dict(self) -> dict[str, object]:
        """Return what, beside the model folder, a later sitting needs to go on to the last digit."""
        ...

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on from what `state_dict` returned."""
        ...

    def close(self) -> None:
        """Let go of the engine and of what connects it to the weights."""
        ...


@runtime_checkable
class Parts(Protocol):
    """A learner of which each process holds a part: all processes call `save`, not the first alone, and then this."""

    def save_parts(self, folder: Path) -> None:
        """Begin to write to a checkpoint what only the processes together have, as it is now."""
        ...

    def parts_written(self, *, wait: bool = False) -> bool:
        """Return whether this process has written its part; the checkpoint counts when all have."""
        ...


def learner(name: str) -> Callable[[Target], Target]:
    """Declare a class as a learner and name it: made as `CLASS(accelerator, config, folder, **options)`.

    `overlaps = True` in the class says that `update` may run in a thread while its engine samples (`async_level`).
    """
    return LEARNERS.declare(name)


def resolve_learner(config: LearnerConfig) -> Stage:
    """Return the learner of a run with its options; of `tinker:URL` the address is one of them."""
    name, colon, address = config.learner.partition(":")
    if name == REMOTE and colon:
        return LEARNERS.resolve(name, {**config.learner_options, "url": address})
    return LEARNERS.resolve(config.learner, config.learner_options)
