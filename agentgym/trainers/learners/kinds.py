"""Properties of each kind of learner, known without importing it."""

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
    """A kind of learner, `NAME` or `NAME:ADDRESS`; the defaults describe a class of the user (MODULE:NAME)."""

    name: str = ""
    path: str = ""
    """MODULE:NAME of the learner's class."""
    addressed: bool = False
    """True if the learner's name is followed by an address, which becomes the option `url`."""
    in_memory: bool = True
    """True if the weights are in this machine's memory, so that `--plan` can estimate a run's memory."""
    overlaps: bool = False
    """True if the learner can update while its engine samples from separate weights (`async_level`)."""
    embeds: bool = True
    """True if the learner provides the hidden states of tokens."""
    scores_again: bool = False
    """True if the learner can score tokens again right before each update, for a loss that needs the current scores."""
    shards: bool = False
    """True if the learner can split the weights over several processes (`sharding`)."""
    engine: EngineKind | None = None
    """Engine of a run that does not set `engine`; None means the default of this setting."""
    lacks: Mapping[str, str] = field(default_factory=dict[str, str])
    """Error message for each input of a need that the learner cannot compute; `{need}` and `{learner}` are filled in."""
    in_recipes: Mapping[str, object] = field(default_factory=dict[str, object])
    """Values of this learner for fields that recipes set for other learners."""

    def check(self, config: "TrainConfig") -> None:
        """Check that the learner supports all settings of a run.

        Raises:
            BadConfig: the learner lacks something; the message has the reason.
        """
        if config.sharded and not self.shards:
            raise BadConfig(
                f"sharding {config.sharding!r} has no effect with learner {config.learner!r}: it is for the local learner; "
                "remove it"
            )

    def check_needs(self, needed: "Sequence[Stage]", config: "TrainConfig") -> None:
        """Check that the learner computes everything that credit and loss need.

        Raises:
            BadConfig: the learner lacks something that credit or loss needs.
        """
        for stage in needed:
            if reason := self.lacks.get(stage.attributes["asks"]):
                raise BadConfig(reason.format(need=stage.name, learner=config.learner))

    def check_installed(self, config: "TrainConfig") -> None:
        """Check that the packages that the learner imports for this run are installed.

        Raises:
            MissingExtra: a package is not installed.
        """
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
"""Fields that the server decides, each with the value that leaves the decision to the server."""


@dataclass(frozen=True)
class TinkerKind(LearnerKind):
    """The kind of learner whose adapter a server trains and samples from."""

    def check(self, config: "TrainConfig") -> None:
        """Check that a server supports all settings of a run.

        Raises:
            BadConfig: the server lacks something; the message has the reason.
        """
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
        """Check that the client's package is installed.

        Raises:
            MissingExtra: the package is not installed.
        """
        if find_spec("tinker") is None:
            raise MissingExtra(f"learner {config.learner!r} needs the client package: {how_to_install('tinker')}")


LOCAL = LearnerKind("local", "agentgym.trainers.learners.sharded:local", overlaps=True, scores_again=True, shards=True)
OWN = LearnerKind()
"""Kind of the learner classes that users write."""
TINKER = TinkerKind(
    "tinker",
    "agentgym.trainers.learners.tinker.learner:RemoteLearner",
    addressed=True,
    in_memory=False,
    embeds=False,
    engine=TINKER_ENGINE,
    lacks={
        "critic": "a critic with learner {learner!r}: servers give no hidden states to learn values from",
        "weights": "needs {need!r} with learner {learner!r}: the server has the weights, and the critic is a copy of them",
        "distribution": "needs {need!r} with learner {learner!r}: servers report only log-probabilities",
    },
    # servers compute log-probabilities only at temperature 1, no entropies, and train adapters, which Muon does not support
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
