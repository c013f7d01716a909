"""LoRA: which adapters a run may ask for, and putting them into a model."""

# transformers and peft are typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.engines.adapters import is_adapter
from agentgym.errors import BadConfig, MissingExtra, how_to_install

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from agentgym.trainers.config.train_config import TrainConfig

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
TARGETS = (*ATTENTION, "gate_proj", "up_proj", "down_proj")
ALPHA = 32
_NOT_LINEAR = re.compile(r"embed|lm_head|norm|wte|wpe|bias|^router$|^gate$")
"""What an engine cannot serve an adapter of: it is tied to other weights, is no matrix, or picks experts."""


def check(config: "TrainConfig") -> None:
    """Raise BadConfig where a run's adapters cannot be trained or served, or their settings do nothing."""
    if not config.lora_rank:
        for name, default in (("lora_alpha", ALPHA), ("lora_targets", TARGETS)):
            if getattr(config, name) != default:
                raise BadConfig(f"{name} has no effect without adapters; set lora_rank, for example to 16, or leave it out")
        _check_start(config)
        return
    if config.lora_alpha < 1:
        raise BadConfig(f"lora_alpha is {config.lora_alpha}; expected at least 1")
    most = config.engine_kind.most_lora_rank
    if most is not None and config.lora_rank > most:
        raise BadConfig(f"lora_rank is {config.lora_rank}; engine {config.engine!r} serves adapters up to rank {most}")
    _check_combination(config)
    _check_start(config)
    _check_targets(config.lora_targets)
    _check_folder(Path(config.model), config.lora_targets)


def _check_combination(config: "TrainConfig") -> None:
    if config.model == "init":
        raise BadConfig(
            f"lora_rank is {config.lora_rank} with model 'init': adapters would be all that is trained of random weights. "
            "Name a trained model, or leave lora_rank at 0"
        )
    if config.weight_transport != "auto":
        raise BadConfig(
            f"weight_transport is {config.weight_transport!r}, but adapters (lora_rank {config.lora_rank}) go as a "
            f"folder: leave it out"
        )
    for name, used in (("muon", config.steps), ("sft_muon", config.sft_episodes)):
        if getattr(config, name) and used:
            raise BadConfig(
                f"{name} is on with lora_rank {config.lora_rank}: Muon moves every direction of a matrix alike, and is not "
                f"meant for the thin factors of an adapter. Set {name} to false: adapters train with AdamW"
            )
    if config.kl and config.sft_episodes:
        raise BadConfig(
            f"kl is {config.kl} with lora_rank {config.lora_rank} and {config.sft_episodes} sft_episodes: the reference "
            "is the model without adapters, so the penalty would undo the SFT warm start. Leave out one of kl and "
            "sft_episodes"
        )


def _check_start(config: "TrainConfig") -> None:
    if is_adapter(config.model):
        raise BadConfig(
            f"model {config.model} is an adapter; a run starts from a model. Continue the run that made it (--resume), or "
            "merge it first: peft's AutoPeftModelForCausalLM.from_pretrained(…).merge_and_unload().save_pretrained(…)"
        )


def _check_targets(targets: Sequence[str]) -> None:
    if not targets:
        raise BadConfig(f"lora_targets is empty; expected names of linear layers, for example {' '.join(ATTENTION)}")
    for name in targets:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise BadConfig(f"lora_targets holds {name!r}; expected names of modules, for example q_proj")
        if _NOT_LINEAR.search(name):
            raise BadConfig(
                f"lora_targets holds {name!r}, which engines cannot serve an adapter of; expected linear layers of "
                f"attention and feed-forward: {' '.join(TARGETS)}"
            )


def _check_folder(folder: Path, targets: Sequence[str]) -> None:
    """Hold the names to the matrices in a model's folder; a hub name, or a folder of another form, is held when loaded."""
    names = _matrices(folder)
    layers = {name.split(".")[-2] for name in names if not _NOT_LINEAR.search(name.split(".")[-2])}
    for target in targets if names else ():
        missing = [name for name in names if name.split(".")[-2] == target]
        if not missing:
            raise BadConfig(
                f"lora_targets holds {target!r}, but {folder} has no such layer; it has {' '.join(sorted(layers))}"
            )
        if any(".experts." in name for name in missing):
            plain = {name.split(".")[-2] for name in names if ".experts." not in name} & layers
            raise BadConfig(
                f"lora_targets holds {target!r}, which are experts of a mixture in {folder}: they are stacked, and no "
                f"adapter of them is served. Set lora_targets to {' '.join(sorted(plain))}"
            )


def _matrices(folder: Path) -> list[str]:
    """Return the names of the two-dimensional weights in a folder of safetensors; none where it has none or is damaged."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:  # whoever trains is told by the command what to install
        return []
    names: list[str] = []
    for file in sorted(folder.glob("*.safetensors")) if (folder / "config.json").is_file() else ():
        try:
            with safe_open(file, framework="np") as tensors:
                keys: list[str] = list(tensors.keys())
                names += [key for key in keys if len(tensors.get_slice(key).get_shape()) == 2 and key.endswith(".weight")]
        except (OSError, SafetensorError):  # what is wrong with the file is said when it is loaded
            return []
    return [name for name in names if re.fullmatch(r"\w+(\.\w+){2,}", name)]  # no other name is that of a layer


def add_adapters(model: "PreTrainedModel", config: "TrainConfig") -> None:
    """Put fresh adapters into a model, which changes nothing of what it computes, and freeze all else.

    BadConfig where a name is that of no linear layer: peft itself passes over names that match nothing.
    """
    try:
        import torch
        from peft import LoraConfig
    except ImportError as error:
        raise MissingExtra(f"lora_rank needs peft: {how_to_install('train')}") from error
    targets, rank = config.lora_targets, config.lora_rank
    wanted = [(name, module) for name, module in model.named_modules() if name.rpartition(".")[2] in targets]
    missing = sorted(set(targets) - {name.rpartition(".")[2] for name, _ in wanted})
    if missing:
        raise BadConfig(f"lora_targets holds {missing[0]!r}, but {config.model} has no such module")
    options = LoraConfig(r=rank, lora_alpha=config.lora_alpha, target_modules=list(targets), task_type="CAUSAL_LM")
    for name, module in wanted:
        if type(module) is not torch.nn.Linear:
            raise BadConfig(f"lora_targets: {name} of {config.model} is {type(module).__name__}; expected a linear layer")
    model.add_adapter(options)
    base = Path(config.model)
    if base.is_dir():  # so that the adapter is found from any working directory
        model.peft_config["default"].base_model_name_or_path = str(base.resolve())
