"""LoRA adapters on disk: a folder in peft's format, whose configuration names the base model."""

# transformers is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import importlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from agentgym.engines.model_files import check_files
from agentgym.errors import BadData, MissingExtra, how_to_install

ADAPTER = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def is_adapter(path: str | Path) -> bool:
    """Return True if a folder contains an adapter (`adapter_config.json`), rather than a whole model."""
    return (Path(path) / ADAPTER).is_file()


def describe(folder: str | Path) -> dict[str, Any]:
    """Return an adapter's configuration: the content of `adapter_config.json`.

    Raises:
        BadData: the configuration is damaged, or the folder is not a plain LoRA adapter in safetensors.
    """
    folder = Path(folder)
    try:
        config: object = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadData(f"{folder / ADAPTER}: cannot be read ({error}); expected the configuration of an adapter") from error
    if not isinstance(config, dict):
        raise BadData(f"{folder / ADAPTER}: holds {type(config).__name__}; expected the configuration of an adapter")
    table = cast("dict[str, object]", config)
    rank, kind = table.get("r"), table.get("peft_type")
    if kind != "LORA" or type(rank) is not int or rank < 1:
        raise BadData(f"{folder / ADAPTER}: peft_type is {kind!r} and r is {rank!r}; expected a LORA adapter with a rank")
    if not (folder / WEIGHTS).is_file():
        raise BadData(f"{folder} holds no {WEIGHTS}; an adapter is read from safetensors alone")
    return table


def base_of(folder: str | Path) -> str:
    """Return the folder of an adapter's base model.

    A base model given as a hub name has to be in the local hub cache: the adapter may come from a stranger, so it must
    not cause a download.

    Raises:
        BadData: the adapter is damaged or names no base model, or the base model is not complete on this machine.
    """
    name = describe(folder).get("base_model_name_or_path")
    advice = f"put the folder of the model it was trained on into base_model_name_or_path of {Path(folder) / ADAPTER}"
    if not isinstance(name, str) or not name:
        raise BadData(f"{folder}: its base model is {name!r}; {advice}")
    path = Path(name)
    if "\0" not in name and path.is_dir():
        if is_adapter(path) or not (path / "config.json").is_file():
            raise BadData(f"{folder}: its base {name!r} is not a complete model folder; {advice}")
        return name
    if path.is_absolute() or not _HUB_NAME.fullmatch(name):
        raise BadData(f"{folder}: its base model {name!r} is not there; {advice}")
    try:
        return str(importlib.import_module("huggingface_hub").snapshot_download(name, local_files_only=True))
    except Exception as error:  # the library raises many types for unknown names
        raise BadData(
            f"{folder}: its base model {name!r} was not downloaded to this machine, and nothing is fetched for an adapter. "
            f"Get it first, or {advice}"
        ) from error


def load_adapted(folder: str | Path, dtype: object, trainable: bool = False) -> object:
    """Load an adapter on top of its base model, without merging the two; `trainable` makes the adapter's weights trainable.

    Raises:
        BadData: the adapter or the base model cannot be loaded, or the two do not fit.
        MissingExtra: peft or transformers is not installed.
    """
    transformers = _libraries()
    base = base_of(folder)
    check_files(base)
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            base, dtype=dtype, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # transformers raises many types for absent or damaged files
        raise BadData(f"{folder}: its base model {base!r} cannot be loaded ({type(error).__name__}: {error})") from error
    try:
        report: Any = model.load_adapter(str(folder), is_trainable=trainable, adapter_kwargs={"local_files_only": True})
    except Exception as error:
        raise BadData(f"{folder}: the adapter cannot be put into {base!r} ({type(error).__name__}: {error})") from error
    wrong = sorted({*report.missing_keys, *report.unexpected_keys, *(key for key, *_ in report.mismatched_keys)})
    if wrong:
        raise BadData(f"{folder}: the adapter does not fit {base!r}: {wrong[0]!r} is missing, unknown or of another shape")
    return model


def _libraries() -> ModuleType:
    try:
        importlib.import_module("peft")
        return importlib.import_module("transformers")
    except ImportError as error:
        raise MissingExtra(f"adapters need peft: {how_to_install('train')}") from error
