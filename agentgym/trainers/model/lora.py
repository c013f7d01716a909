"""LoRA: checks of a run's adapter settings, and insertion of adapters into a model."""

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
"""Pattern of modules for which engines cannot serve adapters: tied to other weights, not a matrix, or an expert router."""


def check(config: "TrainConfig") -> None:
    """Check that a run's adapters can be trained and served, and that every adapter setting has an effect.

    Raises:
        BadConfig: adapters cannot be trained or served, or a setting has no effect.
    """
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
    """Check `targets` against the matrices in a model's folder; hub names and other formats are checked at loading.

    Raises:
        BadConfig: a layer does not exist or belongs to a mixture of experts.
    """
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
    """Return the names of the layers' matrices in a folder of safetensors; [] if there are none or a file is damaged."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:  # the command reports what to install
        return []
    names: list[str] = []
    for file in sorted(folder.glob("*.safetensors")) if (folder / "config.json").is_file() else ():
        try:
            with safe_open(file, framework="np") as tensors:
                keys: list[str] = list(tensors.keys())
                names += [key for key in keys if len(tensors.get_slice(key).get_shape()) == 2 and key.endswith(".weight")]
        except (OSError, SafetensorError):  # loading reports the file's problem
            return []
    return [name for name in names if re.fullmatch(r"\w+(\.\w+){2,}", name)]  # names of layers only


def add_adapters(model: "PreTrainedModel", config: "TrainConfig") -> None:
    """Insert new adapters into a model, which do not change its output yet, and freeze all other weights.

    Raises:
        BadConfig: no module has the name of a target (peft itself ignores such names), or one is not a linear layer.
        MissingExtra: peft is not installed.
    """
    try:
        import torch
        from peft import LoraConfig
    except ImportError as error:
        raise MissingExtra(f"lora_rank needs peft: {how_to_install('train')}") from error
    targets, rank = config.lora_targets, config.lora_rank
    modules = [(name, module) for name, module in model.named_modules() if name.rpartition(".")[2] in targets]
    missing = sorted(set(targets) - {name.rpartition(".")[2] for name, _ in modules})
    if missing:
        raise BadConfig(f"lora_targets holds {missing[0]!r}, but {config.model} has no such module")
    options = LoraConfig(r=rank, lora_alpha=config.lora_alpha, target_modules=list(targets), task_type="CAUSAL_LM")
    for name, module in modules:
        if type(module) is not torch.nn.Linear:
            raise BadConfig(f"lora_targets: {name} of {config.model} is {type(module).__name__}; expected a linear layer")
    model.add_adapter(options)
    base = Path(config.model)
    if base.is_dir():  # so that the adapter is found from any working directory
        model.peft_config["default"].base_model_name_or_path = str(base.resolve())
