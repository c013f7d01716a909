"""The present weights of a fleet, kept as files, so that a server that comes back can have them at any time."""

import secrets
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentgym.engines.adapters import ADAPTER, WEIGHTS, describe, is_adapter
from agentgym.engines.fleet.backend import Backend
from agentgym.errors import BadConfig


class Kept:
    """Safetensors files in a folder that every server sees, or a LoRA adapter; those of one version at a time."""

    def __init__(self, folder: str | None) -> None:
        """`folder`: where they lie; None for shared memory, which servers of this machine see."""
        self._folder = folder
        self._place: TemporaryDirectory[str] | None = None
        self._run = secrets.token_hex(4)
        self._files: list[dict[str, Any]] = []
        self._adapter = ""
        self.fresh = True
        """Whether there were none yet."""

    @property
    def where(self) -> str:
        """Where they lie, for a reader."""
        return self._folder or "shared memory of this machine; another one is named with --engine.folder"

    def label(self, version: int) -> str:
        """Return what weights of a version are called: of no other run are they called so."""
        return f"{self._run}/{version}"

    def adapter(self, label: str) -> str:
        """Return the name under which servers have the present adapter; empty where the weights are a whole model.

        No two versions have the same name, because vLLM finds cached prefixes by it.
        """
        return f"{ADAPTERS}{label.replace('/', '-')}" if self._adapter else ""

    def write(self, weights: "str | Path | Iterable[tuple[str, Any]]") -> None:
        """Replace what is kept with a model folder, an adapter's folder or named tensors; blocks."""
        from agentgym.engines import shards

        adapter = Path(weights) if isinstance(weights, str | Path) and is_adapter(weights) else None
        if adapter and self._files:
            raise BadConfig(
                f"{weights} is an adapter, and the servers were sent whole weights before; an adapter belongs to the "
                "weights that servers start with: start them again and make a new engine"
            )
        self.close()
        self.fresh = False
        if adapter:
            self._keep_adapter(adapter)
            return
        if isinstance(weights, str | Path):
            self._files = shards.messages(Path(weights))
            return
        source: Any = weights if hasattr(weights, "metadata") else shards.Named(weights)
        self._place = shards.place(self._folder)
        self._files = shards.written(source, Path(self._place.name))

    def _keep_adapter(self, folder: Path) -> None:
        from agentgym.engines import shards

        describe(folder)
        self._place = shards.place(self._folder)
        for name in (ADAPTER, WEIGHTS):
            shutil.copyfile(folder / name, Path(self._place.name) / name)
        self._adapter = str(Path(self._place.name).resolve())

    async def send(self, backend: Backend, label: str) -> None:
        """Bring a server to what is kept, unless it has it or nothing is kept."""
        if not (self._files or self._adapter) or await backend.alive() == label:
            return
        if self._adapter:
            await backend.adapt(self._adapter, label)
        else:
            await backend.update(self._files, label)

    def close(self) -> None:
        """Remove them; what is written next is as the first."""
        self._files, self._adapter, self.fresh = [], "", True
        if self._place is not None:
            self._place.cleanup()
            self._place = None


ADAPTERS = "agentgym-"
"""How the names of adapters begin that a fleet loads into servers."""


def apart(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the mean difference of two scores of one text; infinite where they are of texts of other lengths."""
    if len(a) != len(b) or not a:
        return float("inf")
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a)
