"""Loading of a model for the hf engine, and updates of its weights in place."""

# torch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import transformers
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn import Parameter

from agentgym.engines import adapters
from agentgym.engines.model_files import check_files
from agentgym.errors import BadConfig, BadData, no_such


def load_model(model: Any, tokenizer: object, device: str, dtype: str | None) -> tuple[Any, Any]:
    """Load (model, tokenizer) from a folder, a hub name or an adapter's folder; return model objects unchanged.

    The model's generation config is ignored.

    Raises:
        BadConfig: the model or its tokenizer cannot be loaded.
        BadData: a file names compiled code, or weights outside the folder.
    """
    if not isinstance(model, str | Path):
        return model, tokenizer
    check_files(model)
    try:
        if adapters.is_adapter(model):
            loaded = adapters.load_adapted(model, dtype or "auto")
        else:
            loaded = transformers.AutoModelForCausalLM.from_pretrained(
                str(model), dtype=dtype or "auto", trust_remote_code=False
            )
        tokenizer = tokenizer or transformers.AutoTokenizer.from_pretrained(str(model), trust_remote_code=False)
    except Exception as error:  # a damaged file raises types of safetensors and tokenizers
        raise BadConfig(
            f"hf:{model} cannot be loaded: {error}\nExpected a folder with a model, or the name of one."
        ) from error
    return loaded.to(device).eval(), tokenizer  # type: ignore[arg-type]


def update(model: Any, weights: str | Path | Iterable[tuple[str, "Tensor"]]) -> None:
    """Copy new values into a model in place; skip tensors that are the model's own.

    Raises:
        BadConfig: a name is unknown, a shape differs, or a folder lacks a parameter of the model.
        BadData: safetensors are missing or damaged.
    """
    own: dict[str, Tensor] = dict(model.named_parameters(remove_duplicate=False))
    own.update(model.named_buffers(remove_duplicate=False))
    for name, value in _of_folder(Path(weights), own, model.dtype) if isinstance(weights, str | Path) else weights:
        mine = own.get(name)
        if mine is None:
            raise BadConfig(no_such("weight of the model", name, own))
        if tuple(mine.shape) != tuple(value.shape):
            raise BadConfig(f"weight {name!r} has shape {tuple(value.shape)}; the model's has {tuple(mine.shape)}")
        if mine.data_ptr() != value.data_ptr() or mine.device != value.device:
            mine.copy_(value)


def _of_folder(folder: Path, own: dict[str, Tensor], dtype: Any) -> Iterable[tuple[str, Tensor]]:
    """Return the tensors of a folder under the model's names.

    Mixture-of-experts checkpoints store experts separately, while the model fuses them. Tied parameters need only one of
    their names.

    Raises:
        BadConfig: names are unknown or missing.
    """
    names = [name for tensors in _opened(folder) for name in tensors.keys()]  # noqa: SIM118 (not a mapping)
    strange = [name for name in names if name not in own]
    if not strange:
        in_folder = {id(own[name]) for name in names}
        _refuse_missing(
            folder, [n for n, value in own.items() if isinstance(value, Parameter) and id(value) not in in_folder]
        )
        return read_folder(folder)
    load: Any = transformers.AutoModelForCausalLM.from_pretrained
    try:
        model, info = load(str(folder), dtype=dtype, output_loading_info=True, trust_remote_code=False)
    except (OSError, ValueError, RuntimeError):  # no configuration in the folder, or one of another model
        raise BadConfig(no_such("weight of the model", strange[0], own)) from None
    for name in sorted(info["unexpected_keys"]):
        raise BadConfig(no_such("weight of the model", name, own))
    _refuse_missing(folder, info["missing_keys"])
    return model.named_parameters()


def _refuse_missing(folder: Path, missing: Collection[str]) -> None:
    """Check that no weight is missing.

    Raises:
        BadConfig: one is.
    """
    if missing:
        raise BadConfig(f"{folder} lacks the weight {min(missing)!r}; expected all of the model's")


def read_folder(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, tensor) for a model folder in safetensors, as one file or as several with an index.

    A tensor is [*shape], with the shape and dtype in the file.

    Raises:
        BadData: a file is missing or damaged.
    """
    for tensors in _opened(folder):
        for name in tensors.keys():  # noqa: SIM118 (not a mapping)
            yield name, tensors.get_tensor(name)


def _opened(folder: Path) -> Iterator[Any]:
    check_files(folder)
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        files = sorted({folder / name for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()})
    else:
        files = [folder / "model.safetensors"]
    for file in files:
        if not file.is_file():
            raise BadData(f"{file} does not exist; expected a model folder with safetensors in it")
        try:
            opened = safe_open(file, framework="pt")
        except SafetensorError as error:
            raise BadData(f"{file}: damaged ({error}); expected whole safetensors") from error
        with opened as tensors:
            yield tensors
