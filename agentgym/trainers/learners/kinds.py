"""What is known of a learner before anything heavy is imported: each kind answers for itself, and nobody asks its name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.engines.kinds import TINKER as TINKER_ENGINE
from agentgym.engines.kinds import EngineKind
from agentgym.errors import BadConfig, MissingExtra, how_to_install
from agentgym.trainers.model import lora

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig
    from agentgym.trainers.seam import Stage


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
    embeds: bool = True
    """It gives the hidden states of tokens."""
    scores_again: bool = False
    """It scores the tokens of an update once more before it, for a loss that compares them as they are now."""
    shards: bool = False
    """It can hold a part of the weights in each of several processes (`sharding`)."""
    engine: EngineKind | None = None
    """What samples unless the run names an engine; None for what `engine` says."""
    lacks: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of what a need may ask of it (see `needs`), what it does not tell: `{need}` and `{learner}` are filled in."""
    in_recipes: Mapping[str, object] = field(default_factory=dict[str, object])
    """Fields that a recipe sets for other learners, by the value that they have with this one."""

    def check(self, config: "TrainConfig") -> None:
        """Raise BadConfig for what a run asks of it and it cannot do, with the reason."""
        if config.sharded and not self.shards:
            raise BadConfig(
                f"sharding {config.sharding!r} has no effect with learner {config.learner!r}: it is for the local learner; "
                "remove it"
            )

    def check_needs(self, needed: "Sequence[Stage]", config: "TrainConfig") -> None:
        """Raise BadConfig for what credit or loss needs of it and it does not tell."""
        for stage in needed:
            if reason := self.lacks.get(stage.attributes["asks"]):
                raise BadConfig(reason.format(need=stage.name, learner=config.learner))

    def check_installed(self, config: "TrainConfig") -> None:
        """Raise MissingExtra where a package is missing that it imports for this run."""
        if config.lora_rank and find_spec("peft") is None:
            raise MissingExtra(f"lora_rank needs peft: {how_to_install('train')}")


SERVERS_OWN: dict[str, Any] = {
    "muon": False,
    "optimizer": "adamw",
    "attention": "auto",
    "precision": "auto",
    "gradient_checkpointing": False,
    "compile": False,
    "lora_alpha": lora.ALPHA,
    "lora_targets": lora.TARGETS,
    "weight_transport": "auto",
}
"""Fields that the server decides, by the value that leaves it the decision."""


@dataclass(frozen=True)
class TinkerKind(LearnerKind):
    """An adapter that a server trains and samples from."""

    def check(self, config: "TrainConfig") -> None:
        """Raise BadConfig for what a server cannot do for a run, with the reason."""
        learner = f"learner {config.learner!r}"
        super().check(config)
        for name, free in SERVERS_OWN.items():
            if getattr(config, name) != free and not (name == "precision" and config.precision in ("fp32", "bf16")):
                raise BadConfig(
                    f"{name} is {getattr(config, name)!r} and has no effect with {learner}: the server decides it"
                )
        own = config.engine == type(config).engine
        if not own and not config.engine_kind.sent_weights:
            raise BadConfig(
                f"engine {config.engine!r} with {learner}: the server trains an adapter, which only vLLM is brought "
                "(vllm, or vllm:URL,URL). Remove engine: the server samples from the weights it trains"
            )
        if own and config.engine_options:
            raise BadConfig(f"engine.{next(iter(config.engine_options))} has no effect with {learner}: the server samples")
        if config.processes != 1:
            raise BadConfig(
                f"processes is {config.processes} with {learner}: one process plays, and the server has the GPUs"
            )
        if not config.lora_rank:
            raise BadConfig(f"lora_rank is 0 with {learner}: such servers train adapters: give --lora-rank 16")
        if config.model == "init" or (Path(config.model).is_absolute() and not Path(config.model).is_dir()):
            raise BadConfig(
                f"model is {config.model!r} with {learner}: name the folder or hub name of the model that it serves"
            )
        if config.entropy_bonus:
            raise BadConfig(
                f"entropy_bonus is {config.entropy_bonus:g} with {learner}: servers report only log-probabilities"
            )
        if config.temperature != 1.0:
            raise BadConfig(
                f"temperature is {config.temperature:g} with {learner}: servers compute log-probabilities at 1 only"
            )

    def check_installed(self, config: "TrainConfig") -> None:
        """Raise MissingExtra without the client's package."""
        if find_spec("tinker") is None:
            raise MissingExtra(f"learner {config.learner!r} needs the client package: {how_to_install('tinker')}")


LOCAL = LearnerKind("local", "agentgym.trainers.learners.sharded:local", overlaps=True, scores_again=True, shards=True)
OWN = LearnerKind()
"""That of a class of one's own."""
TINKER = TinkerKind(
    "tinker",
    "agentgym.trainers.learners.tinker.learner:RemoteLearner",
    addressed=True,
    in_memory=False,
    embeds=False,
    engine=TINKER_ENGINE,
    lacks={
        "critic": "a critic with learner {learner!r}: servers give no hidden states to learn values from",
        "distribution": "needs {need!r} with learner {learner!r}: servers report only log-probabilities",
    },
    # servers compute log-probabilities at temperature 1 and no entropies, and train adapters, which Muon is not for
    in_recipes={
        **SERVERS_OWN,
        "engine": "hf",
        "engine_options": {},
        "processes": 1,
        "temperature": 1.0,
        "entropy_bonus": 0.0,
        "sft_muon": False,
    },
)
