"""Transfer of weights to an engine through safetensors files in shared memory, one file of limited size at a time."""

# torch and safetensors are typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from safetensors import SafetensorError, safe_open

from agentgym.errors import BadData

JsonObject = dict[str, Any]

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = "agentgym-weights-"
SHARD_BYTES = 1 << 30
_NOTHING = torch.empty(0)
_CODES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


@dataclass(frozen=True)
class TensorMeta:
    """Name, dtype and shape of a tensor that is not yet materialized."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size of the tensor in bytes."""
        return self.dtype.itemsize * torch.Size(self.shape).numel()

    @property
    def dtype_name(self) -> str:
        """Name of the dtype, such as `float32`."""
        return str(self.dtype).removeprefix("torch.")


class Source(Protocol):
    """A re-iterable stream of named tensors with metadata in advance."""

    def metadata(self) -> Sequence[TensorMeta]:
        """Return the metadata of all tensors, in order of iteration."""
        ...

    def __iter__(self) -> Iterator[tuple[str, "Tensor"]]: ...


class Named:
    """A source of named tensors that are in memory."""

    def __init__(self, tensors: Iterable[tuple[str, "Tensor"]]) -> None:
        self._tensors = [(name, value.detach()) for name, value in tensors]

    def metadata(self) -> list[TensorMeta]:
        """Return the metadata of each tensor: name, dtype and shape."""
        return [TensorMeta(name, value.dtype, tuple(value.shape)) for name, value in self._tensors]

    def __iter__(self) -> Iterator[tuple[str, "Tensor"]]:
        return iter(self._tensors)


def message(metas: Sequence[TensorMeta], **more: object) -> JsonObject:
    """Return a description of tensors in the format of vLLM's weight-transfer calls, with `more` as further keys."""
    names, shapes = [meta.name for meta in metas], [list(meta.shape) for meta in metas]
    return {"names": names, "dtype_names": [meta.dtype_name for meta in metas], "shapes": shapes, **more}


def shapes(source: Source) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of a source."""
    return {meta.name: meta.shape for meta in source.metadata()}


def shards(source: Source, limit: int = SHARD_BYTES, folder: str | None = None) -> Generator[dict[str, object]]:
    """Write a source to files of at most `limit` bytes (or one larger tensor); yield a description of each (see `message`).

    A file is deleted when the next message is requested or the iterator closes, so at most one exists at a time, and at
    most one tensor is in memory. The files are in a temporary folder inside `folder` (default: shared memory).
    """
    tensors = iter(source)
    with place(folder) as path_of_folder:
        for number, part in enumerate(parts(source.metadata(), limit)):
            path = Path(path_of_folder) / f"{number}.safetensors"
            write(path, part, tensors)
            yield message(part, path=str(path))
            path.unlink()


def written(source: Source, folder: Path, limit: int = SHARD_BYTES) -> list[JsonObject]:
    """Write a source to permanent files of at most `limit` bytes (or one larger tensor), and return their descriptions."""
    tensors = iter(source)
    sent: list[JsonObject] = []
    for number, part in enumerate(parts(source.metadata(), limit)):
        path = folder / f"{number}.safetensors"
        write(path, part, tensors)
        sent.append(message(part, path=str(path)))
    return sent


def place(folder: str | None = None) -> "tempfile.TemporaryDirectory[str]":
    """Make a temporary folder for weight files (default: in shared memory), and delete leftovers of killed processes.

    The default is the system's temporary folder if there is no shared memory. If `folder` is given, several machines
    may share it, so the new folder's name includes the machine's name.
    """
    prefix = PREFIX if folder is None else f"{PREFIX}{re.sub('[^A-Za-z0-9]', '_', socket.gethostname())}-"
    where = folder or shared_memory() or tempfile.gettempdir()
    _sweep(Path(where), prefix)
    return tempfile.TemporaryDirectory(prefix=f"{prefix}{os.getpid()}-", dir=where)


def _sweep(folder: Path, prefix: str) -> None:
    """Delete the folders of killed processes of this machine; do nothing on a system without `/proc`."""
    for path in folder.glob(f"{prefix}*"):
        process = path.name.removeprefix(prefix).partition("-")[0]
        if process.isdigit() and not Path(f"/proc/{process}").exists() and Path("/proc/self").exists():
            shutil.rmtree(path, ignore_errors=True)


def read(sent: JsonObject) -> Iterator[tuple[str, "Tensor"]]:
    """Yield (name, tensor) for the file that a message describes.

    A tensor is [*shape], with the shape and dtype in the message.

    Raises:
        BadData: the file is damaged or does not match the message.
    """
    path = sent["path"]
    try:
        with safe_open(path, framework="pt") as file:
            path_of_folder = set(file.keys())
            for name, dtype, shape in zip(sent["names"], sent["dtype_names"], sent["shapes"], strict=True):
                if name not in path_of_folder:
                    raise BadData(f"{path} lacks the tensor {name!r}, which was announced")
                value = file.get_tensor(name)
                if list(value.shape) != list(shape) or str(value.dtype) != f"torch.{dtype}":
                    raise BadData(f"{path}: {name!r} is {value.dtype} {list(value.shape)}; {dtype} {shape} was announced")
                yield name, value
    except (SafetensorError, OSError) as error:
        raise BadData(f"{path}: damaged ({error}); expected whole safetensors") from error


def announced(sent: JsonObject) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield (name, shape) for every tensor that a message describes."""
    for name, shape in zip(sent["names"], sent["shapes"], strict=True):
        yield name, tuple(shape)


def messages(folder: Path) -> list[JsonObject]:
    """Return a description (see `message`) of each safetensors file of a model folder.

    Raises:
        BadData: a file is damaged or missing.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        listed = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        paths = sorted({folder / name for name in listed})
    else:
        paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        raise BadData(f"{folder} holds no *.safetensors; expected a model folder")
    return [message(_metas(path), path=str(path.resolve())) for path in paths]


def _metas(path: Path) -> list[TensorMeta]:
    kinds = {code: getattr(torch, name) for name, code in _CODES.items()}
    try:
        with safe_open(path, framework="pt") as file:
            slices = [(name, file.get_slice(name)) for name in file.keys()]  # noqa: SIM118 (not a mapping)
            return [TensorMeta(name, kinds[part.get_dtype()], tuple(part.get_shape())) for name, part in slices]
    except (SafetensorError, OSError, KeyError) as error:
        raise BadData(f"{path}: damaged ({error}); expected whole safetensors") from error


def parts(metas: Sequence[TensorMeta], limit: int = SHARD_BYTES) -> Iterator[list[TensorMeta]]:
    """Split tensors into parts, one per file, and yield each part's metadata: up to `limit` bytes, or one larger tensor."""
    part: list[TensorMeta] = []
    path_of_folder = 0
    for meta in metas:
        if part and path_of_folder + meta.bytes > limit:
            yield part
            part, path_of_folder = [], 0
        part.append(meta)
        path_of_folder += meta.bytes
    if part:
        yield part


def write(path: Path, metas: Sequence[TensorMeta], tensors: Iterator[tuple[str, "Tensor"]]) -> None:
    """Write the next tensors to a file one by one; safetensors' own `save_file` would need all of them in memory.

    The format: eight bytes with the length of a JSON header, the header, then the bytes of each tensor.

    Raises:
        BadData: the tensors do not match the metadata.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for meta in metas:
        start, end = end, end + meta.bytes
        header[meta.name] = {"dtype": _CODES[meta.dtype_name], "shape": meta.shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for meta in metas:
            name, value = next(tensors, ("nothing more", _NOTHING))
            if name != meta.name or value.dtype != meta.dtype or tuple(value.shape) != meta.shape:
                raise BadData(
                    f"{name!r} {value.dtype} {list(value.shape)} came where {meta.name!r} {meta.dtype} {list(meta.shape)} "
                    "was announced; a source must yield what its metadata says, in order"
                )
            path_of_folder: Any = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            file.write(memoryview(path_of_folder))
            del value, path_of_folder  # free it before the next is gathered


def shared_memory() -> str | None:
    """Return the folder of shared memory, or None if the system has none."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
