"""The present weights of a fleet, kept as files, so that a server that comes back can have them at any time."""

import secrets
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentgym.engines.adapters import ADAPTER, WEIGHTS, describe, is_adapter
from agentgym.engines.fleet.backend import Backend
from agentgym.errors import BadConfig


@dataclass(frozen=True, slots=True)
class Written:
    """Weights as files; those of a temporary folder go with the last that refers to it."""

    files: list[dict[str, Any]] = field(default_factory=lambda: list[dict[str, Any]]())
    adapter: str = ""
    place: "TemporaryDirectory[str] | None" = None


class Kept:
    """Safetensors files in a folder that every server sees, or a LoRA adapter; those of one version at a time."""

    def __init__(self, folder: str | None) -> None:
        """`folder`: where they lie; None for shared memory, which servers of this machine see."""
        self._folder = folder
        self._run = secrets.token_hex(4)
        self._present = Written()
        self.fresh = True
        """Whether there were none yet."""

    @property
    def empty(self) -> bool:
        """Whether nothing is kept: before the first weights, and after a `write` that failed or was given up."""
        return not (self._present.files or self._present.adapter)

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
        return f"{ADAPTERS}{label.replace('/', '-')}" if self._present.adapter else ""

    def write(self, weights: "str | Path | Iterable[tuple[str, Any]]") -> Written:
        """Write a model folder, an adapter's folder or named tensors, for `keep`; blocks.

        What was kept goes first: both may not fit. Until `keep` nothing is kept, also where this fails or is given up.
        """
        from agentgym.engines import shards

        adapter = Path(weights) if isinstance(weights, str | Path) and is_adapter(weights) else None
        if adapter and self._present.files:
            raise BadConfig(
                f"{weights} is an adapter, and the servers were sent whole weights before; an adapter belongs to the "
                "weights that servers start with: start them again and make a new engine"
            )
        self.close()
        self.fresh = False
        if adapter:
            describe(adapter)
        elif isinstance(weights, str | Path):
            return Written(shards.messages(Path(weights)))
        place = shards.place(self._folder)
        where = Path(place.name)
        if adapter:
            for name in (ADAPTER, WEIGHTS):
                shutil.copyfile(adapter / name, where / name)
            return Written(adapter=str(where.resolve()), place=place)
        named: Any = weights
        source = named if hasattr(named, "metadata") else shards.Named(named)
        return Written(shards.written(source, where), place=place)

    def keep(self, written: Written) -> None:
        """Keep what `write` returned."""
        self._present = written

    async def send(self, backend: Backend, label: str) -> None:
        """Bring a server to what is kept, unless it has it or nothing is kept."""
        if self.empty or await backend.alive() == label:
            return
        kept = self._present
        if kept.adapter:
            await backend.adapt(kept.adapter, label)
        else:
            await backend.update(kept.files, label)

    def close(self) -> None:
        """Remove them; what is written next is as the first."""
        place, self._present, self.fresh = self._present.place, Written(), True
        if place is not None:
            place.cleanup()


ADAPTERS = "agentgym-"
"""How the names of adapters begin that a fleet loads into servers."""


def apart(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the mean difference of two scores of one text; infinite where they are of texts of other lengths."""
    if len(a) != len(b) or not a:
        return float("inf")
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a)
