"""The server-trained adapter as a peft folder, extracted from the server's archive of sampler weights."""

# safetensors is typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import json
import shutil
import tarfile
import urllib.error
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from agentgym.engines.adapters import ADAPTER, WEIGHTS, describe
from agentgym.errors import BadConfig

if TYPE_CHECKING:
    from agentgym.trainers.learners.tinker.service import Service


def download(service: "Service", path: str, base: str, folder: Path) -> None:
    """Download the adapter saved at `path` (`tinker://RUN/…`) into a folder, as an adapter of the model `base`; blocks.

    Raises:
        BadConfig: the server has no such archives, or the archive has no adapter.
        EngineDead: the connection breaks off.
    """
    service.call("give its adapter", _unpack, service, archive_of(path), folder)
    _complete(service.url, folder, base)


def archive_of(path: str) -> str:
    """Return the URL path of the archive with the weights saved at `path` (`tinker://RUN/…`)."""
    run, _, name = path.removeprefix("tinker://").partition("/")
    return f"training_runs/{run}/checkpoints/{name}/archive"


def saved_at(path: str) -> str:
    """Return the URL path that deletes the sampler weights at `path`; `path` may lack the part `sampler_weights/`."""
    run, _, name = path.removeprefix("tinker://").partition("/")
    return f"training_runs/{run}/checkpoints/{name if '/' in name else f'sampler_weights/{name}'}"


def _unpack(service: "Service", where: str, folder: Path) -> None:
    try:
        with service.request(where) as answer, tarfile.open(fileobj=answer, mode="r|*") as archive:
            for member in archive:
                name, content = PurePosixPath(member.name).name, archive.extractfile(member)
                if name in (ADAPTER, WEIGHTS) and content is not None:  # ignore all other members and all folders
                    with (folder / name).open("wb") as file:
                        shutil.copyfileobj(content, file)
    except urllib.error.HTTPError as error:
        if error.code in (404, 405, 501):
            raise BadConfig(
                f"{service.url}/api/v1/{where} answered with status {error.code}: the server gives no archive of its "
                "adapter, so no other engine can sample. Remove engine: the server samples from the weights it trains"
            ) from error
        raise


def _complete(url: str, folder: Path, base: str) -> None:
    """Set the adapter's base model to `base`, and fill in its target layers if the server (SkyRL) left them out.

    Raises:
        BadConfig: the archive has no adapter.
    """
    if not (folder / WEIGHTS).is_file() or not (folder / ADAPTER).is_file():
        raise BadConfig(
            f"the archive of {url} holds no {ADAPTER} with {WEIGHTS}: it exports a whole model, which is not brought to "
            "another engine. Remove engine: the server samples from the weights it trains"
        )
    config: dict[str, object] = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = base
    config["target_modules"] = config.get("target_modules") or _layers(folder / WEIGHTS)
    (folder / ADAPTER).write_text(json.dumps(config), encoding="utf-8")
    describe(folder)


def _layers(file: Path) -> Sequence[str]:
    from safetensors import safe_open

    with safe_open(file, framework="np") as tensors:
        keys: list[str] = list(tensors.keys())
    return sorted({key.partition(".lora_")[0].rpartition(".")[2] for key in keys})
