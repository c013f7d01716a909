"""What is known of a learner before anything heavy is imported: each kind answers for itself, and nobody asks its name."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from agentgym.engines.kinds import EngineKind
from agentgym.errors import BadConfig, MissingExtra, how_to_install

if TYPE_CHECKING:
    from agentgym.trainers.config import TrainConfig


@dataclass(frozen=True)
class LearnerKind:
    """A kind of learner, `NAME` or `NAME:ADDRESS`; as it stands, that of a class of one's own (MODULE:NAME)."""

    name: str = ""
    path: str = ""
    """Its class, as MODULE:NAME."""
    addressed: bool = False
    """Its address follows its name, and is its option `url`."""
    in_memory: bool = True
    """The weights lie in this machine's memory, so that `--plan` can count what a run takes."""
    overlaps: bool = False
    """It may update while its engine samples from weights of its own (`async_level`)."""
    shards: bool = False
    """It can hold a part of the weights in each of several processes (`sharding`)."""
    engine: EngineKind | None = None
    """What samples unless the run names an engine; None for what `engine` says."""

    def recipe(self, config: "TrainConfig") -> "TrainConfig":
        """Return a recipe without what it says to other learners."""
        return config

    def check(self, config: "TrainConfig") -> None:
        """Raise BadConfig for what a run asks of it and it cannot do, with the reason."""
        if config.sharded and not self.shards:
            raise BadConfig(
                f"sharding {config.sharding!r} does nothing with learner {config.learner!r}: it is for the local one; "
                "leave it out"
            )

    def check_needs(self, names: Sequence[str], config: "TrainConfig") -> None:
        """Raise BadConfig for what credit or loss needs of it and it does not tell."""

    def check_installed(self, config: "TrainConfig") -> None:
        """Raise MissingExtra where a package is missing that it imports for this run."""
        if config.lora_rank and find_spec("peft") is None:
            raise MissingExtra(f"lora_rank needs peft: {how_to_install('train')}")


LOCAL = LearnerKind("local", "agentgym.trainers.sharded:local", overlaps=True, shards=True)
OWN = LearnerKind()
"""That of a class of one's own."""
